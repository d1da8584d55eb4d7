"""docs/tutorial.md, followed from its first command to its last."""

import pytest

from tests.documented import commands
from tests.e2e.cluster import scheduler_minor
from tests.e2e.tutorial import PAGE, alike, blocks, walking


def test_whoever_follows_the_tutorial_sees_what_it_shows() -> None:
    if scheduler_minor() != 37:
        pytest.skip("the tutorial shows what kube-scheduler 1.37 says")
    with walking() as walk:
        for language, content in blocks(PAGE.read_text()):
            if language != "console":
                walk.block(content)
                continue
            for command, output in commands(content):
                said = walk.command(command, output)
                assert alike(said) == alike(output), command
