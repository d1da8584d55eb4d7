"""docs/design.md tells of the files that there are."""

import ast
import re
from collections import Counter

from tests.processes import ROOT

_FOLDER = re.compile(r"^\*\*`(extender/\S*?)/?`\*\*", re.MULTILINE)
_FILE = re.compile(r"^\* `(\w+\.py)`: (.*)\.$", re.MULTILINE)


def told() -> dict[str, str]:
    """File → what is said of it."""
    tree = (ROOT / "docs/design.md").read_text().partition("## The tree")[2].partition("\n## ")[0]
    _, *parts = _FOLDER.split(tree)
    return {
        f"{folder.rstrip('/')}/{name}": text
        for folder, files in zip(parts[::2], parts[1::2], strict=True)
        for name, text in _FILE.findall(files)
    }


def test_each_module_is_told_with_the_beginning_of_its_docstring() -> None:
    modules = {}
    for path in (ROOT / "extender").rglob("*.py"):
        if not path.name.startswith("__"):
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            first = " ".join(text.partition("\n\n")[0].split())
            modules[str(path.relative_to(ROOT))] = first.partition(". ")[0].rstrip(".:")
    assert told() == modules


def test_no_two_modules_have_the_same_name() -> None:
    names = Counter(path.name for path in (ROOT / "extender").rglob("*.py"))
    assert [name for name, count in names.items() if count > 1] == ["__init__.py"]
