"""What docs/troubleshooting.md quotes of ours is what the source can say."""

import ast
import re
from functools import cache
from typing import Final

import pytest

from extender.cli import COMMANDS
from extender.flags import PROGRAM
from tests.processes import ROOT

PAGE: Final = ROOT / "docs" / "troubleshooting.md"
_TEXT: Final = PAGE.read_text()
_QUOTED: Final = [
    line
    for block in re.findall(r"^```log\n(.*?)^```$", _TEXT, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]

#: How many letters a text of ours has beside what is put into it; less is nobody's in particular.
_LEAST: Final = 12
_LEAST_OF_A_NAME: Final = 6


def _pattern(node: ast.expr) -> str:
    """A string of the source as a regular expression of what it becomes; empty for none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        parts = re.split(r"%[sdr]", node.value)
    elif isinstance(node, ast.JoinedStr):
        return "".join(
            re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*"
            for part in node.values
        )
    else:
        return ""
    return ".*".join(map(re.escape, parts))


@cache
def _texts(least: int) -> tuple[re.Pattern[str], ...]:
    """Every text that the package's source holds."""
    found: set[str] = set()
    for path in (ROOT / "extender").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.expr):
                pattern = _pattern(node)
                if len(pattern.replace(".*", "").replace("\\", "")) >= least:
                    found.add(pattern)
    return tuple(map(re.compile, found))


def can_be_said(text: str, least: int = _LEAST) -> bool:
    return any(each.fullmatch(text) for each in _texts(least))


def _ours(line: str) -> str:
    """A quoted line without level, fields and what stands before a command's error."""
    line = re.sub(r"^(?:ERROR|WARNING|INFO) ", "", line)
    line = re.sub(r' \w+="[^"]*"', "", line)
    return line.removeprefix(f"{PROGRAM} serve: ")


@pytest.mark.parametrize("line", _QUOTED)
def test_a_quoted_line_of_ours_can_be_said_by_the_source(line: str) -> None:
    check = re.fullmatch(r"\[[-+]\]([a-z-]+) (?:failed|stale): (.*)", line)
    if check:
        assert can_be_said(check[1], _LEAST_OF_A_NAME)
    assert can_be_said(check[2] if check else _ours(line))


def test_what_nobody_says_is_not_found() -> None:
    """The test above can fail."""
    assert not can_be_said("missing permissions: list nodes at cluster scope")
    assert not can_be_said("node-watches", _LEAST_OF_A_NAME)


def test_every_finding_that_is_named_is_one_of_check() -> None:
    table = (ROOT / "docs" / "explain.md").read_text()
    named = set(re.findall(r"`check[^`]*`: `([a-z-]+)`", _TEXT))
    named |= set(re.findall(r"\(`check`: `([a-z-]+)`\)", _TEXT))
    assert len(named) > 8
    assert sorted(name for name in named if f"`{name}`" not in table) == []


def test_every_flag_that_is_named_is_one_of_ours_or_of_kubernetes() -> None:
    flags = {flag for each in COMMANDS.values() for flag in each.load().parser(PROGRAM).flags()}
    others = {"--config", "--patches", "--for", "--as"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", _TEXT)) - flags - others == set()


def test_every_metric_that_is_named_is_one_of_ours() -> None:
    ours = (ROOT / "docs" / "monitoring.md").read_text()
    named = set(re.findall(r"runtimeclass_extender_([a-z_]+)", _TEXT))
    assert sorted(name for name in named if f"`{name.removesuffix('_bucket')}" not in ours) == []
