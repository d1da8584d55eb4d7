"""The table of all flags in docs/commands.md, as the commands themselves tell of them.

`python -m tests.flag_table` writes it into the page.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import click

from extender.cli.commands import COMMANDS
from extender.cli.flags import Boolean, Flag
from tests.processes import ROOT

PAGE: Final = ROOT / "docs" / "commands.md"
_HEADING: Final = "| flag | of | default | what it does |\n|---|---|---|---|\n"


def _flags() -> dict[tuple[str, str, str], list[str]]:
    """By (flag as it is typed, default, help) the commands that have it."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, entry in COMMANDS.items():
        command = entry.load()
        with click.Context(command) as context:
            for flag in command.flags():
                row = (flag.get_help_spec(context), _default(flag), str(flag.help))
                found.setdefault(row, []).append(name)
    return found


def _default(flag: Flag) -> str:
    default = flag.to_info_dict()["default"]
    if isinstance(flag.type, Boolean) and default is not None:
        return str(default).lower()
    return "" if not default else str(default)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _commands(names: Sequence[str]) -> str:
    every = [each for each in COMMANDS if each not in ("completion", "help", "version")]
    if len(names) >= len(every):
        return "all"
    if len(names) > len(every) // 2:
        others = ", ".join(f"`{each}`" for each in every if each not in names)
        return f"all but {others}"
    return ", ".join(f"`{each}`" for each in names)


def _rows() -> Iterator[str]:
    for (typed, default, told), names in _flags().items():
        shown = f"`{default}`" if default else ""
        yield f"| `{_cell(typed)}` | {_commands(names)} | {shown} | {_cell(told)} |\n"


def rewritten(text: str) -> str:
    """The page with the table as it would have to be."""
    before, heading, after = text.partition(_HEADING)
    assert heading, "the page has no table of flags"
    _, end, rest = after.partition("\n\n")
    return f"{before}{heading}{''.join(_rows())}{end[1:]}{rest}"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
