"""What documents and transcripts show is what the commands print."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.cli.commands import COMMANDS
from extender.cli.flags import PROGRAM
from tests import flag_table
from tests.documented import TRANSCRIPTS, commands, rewritten, sections, servers
from tests.fakes.apiserver import KINDS, FakeApiServer, filled, kubeconfig
from tests.processes import ROOT

Address = Callable[[str], str]


@pytest.fixture(scope="module")
def server() -> Iterator[Address]:
    with servers() as started:
        yield started


@pytest.mark.parametrize(
    "name",
    [
        *("README", "before", "check", "explain", "http", "runtimes", "untrusted", "usage"),
        *("verbs", "webhook", "windows"),
    ],
)
def test_the_outputs_in_a_document_are_real(name: str, server: Address) -> None:
    text = (ROOT / ("" if name == "README" else "docs") / f"{name}.md").read_text()
    assert rewritten(text, server) == text


def transcripts(*names: str) -> list[Any]:
    files = [TRANSCRIPTS / f"{name}.md" for name in names] or sorted(TRANSCRIPTS.glob("*.md"))
    return [
        pytest.param(section, id=f"{file.stem}: {section.splitlines()[0].lstrip('# ')}")
        for file in files
        for section in sections(file)
    ]


@pytest.mark.parametrize("section", transcripts())
def test_the_outputs_in_a_transcript_are_real(section: str, server: Address) -> None:
    assert rewritten(section, server, codes=True) == section


def of(section: str) -> Iterator[tuple[str, str]]:
    """(command, output)"""
    (block,) = re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return commands(block)


@pytest.mark.parametrize("section", transcripts("refusals"))
def test_a_refusal_is_one_line_that_moves_nothing(section: str) -> None:
    for command, output in of(section):
        line, code = output.splitlines()
        assert (line.isprintable(), code) == (True, "[2]"), command
        assert line.startswith(("runtimeclass-extender", "kubectl runtimeclass")), command


def objects(place: str) -> Iterator[dict[str, Any]]:
    path = ROOT / place
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        for each in yaml.safe_load_all(file.read_text()):
            yield from each["items"] if each["kind"] == "List" else [each]


#: A command that names manifests once.
_MANIFESTS = re.compile(
    r"^(\$ (?:(?!--manifests).)*)--manifests ((?:tests|scheduler-config)/\S+)(?!.*--manifests)",
    re.MULTILINE,
)


@pytest.mark.parametrize("section", transcripts("usage", "check", "explain", "fit", "render"))
def test_of_a_cluster_commands_say_what_they_say_of_its_manifests(
    section: str, server: Address, tmp_path: Path
) -> None:
    places = {match[2] for match in _MANIFESTS.finditer(section)}
    for place in (each for each in places if {it["kind"] for it in objects(each)} <= KINDS):
        with filled(FakeApiServer(), objects(place)) as cluster:
            (tmp_path / "config").write_text(kubeconfig(cluster.url))
            there, here = f"--kubeconfig {tmp_path / 'config'}", f"--manifests {place}"
            lines = section.splitlines(keepends=True)
            text = "".join(
                line.replace(here, there) if _MANIFESTS.match(line) else line for line in lines
            )
            assert rewritten(text, server, codes=True).replace(there, here) == section


def test_the_patch_that_is_shown_is_the_one_in_the_answer_above_it() -> None:
    text = (ROOT / "docs" / "webhook.md").read_text()
    answer, patch = re.findall(r'^(\{.*"patch":.*\}|\[\{"op".*\])$', text, re.MULTILINE)
    decoded = base64.b64decode(json.loads(answer)["response"]["patch"])
    assert json.loads(patch) == json.loads(decoded)


def test_every_flag_of_every_command_stands_in_the_table_of_flags() -> None:
    """`python -m tests.flag_table` writes it anew."""
    text = flag_table.PAGE.read_text()
    assert flag_table.rewritten(text) == text


def test_every_command_stands_in_the_table_of_commands() -> None:
    text = flag_table.PAGE.read_text()
    listed = {name for name in COMMANDS if f"| `{PROGRAM} {name}" in text}
    assert listed == set(COMMANDS)
