"""The pages, their sections and their blocks."""

import re

from tests.processes import ROOT


def page(name: str) -> str:
    """A page by its path, one of docs/ by its name alone."""
    path = ROOT / name
    return (path if path.suffix else ROOT / "docs" / f"{name}.md").read_text()


def section(name: str, heading: str) -> str:
    """From a heading to the next of its level or above, or to the end."""
    level = len(heading.split()[0])
    after = page(name).split(f"\n{heading}\n", 1)[1]
    return re.split(rf"^#{{2,{level}}} ", after, maxsplit=1, flags=re.MULTILINE)[0]


def blocks(text: str, language: str = r"\w*") -> list[str]:
    """The contents of the fenced blocks in a language, or in any or none."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def rows(text: str) -> list[list[str]]:
    """The cells of the first table, without its head."""
    (table, *_) = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]
