"""Puts the tables of the last runs into docs/performance.md and docs/sizing.md.

    make bench; make bench-scheduler; make bench-live; make bench-docs

The text between `<!-- NAME -->` and `<!-- end NAME -->` is replaced by loadtest/out/NAME.md, and is
not written by hand. A table without a new measurement stays as it is: not every machine has the
programs for all measurements.
"""

import re
import sys
from pathlib import Path
from typing import Final

from loadtest.processes import OUT, ROOT

DOCS: Final = ROOT / "docs"

#: The parts of each document that are outputs.
NAMES: Final = {
    "performance.md": ("scheduler", "bench", "loadtest"),
    "sizing.md": ("live",),
}


def with_output(document: str, name: str, output: str) -> str:
    """The document with this output between the marks. Raises ValueError without marks."""
    begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(document):
        raise ValueError(f"no {begin} … {end}")
    return pattern.sub(lambda _: f"{begin}\n{output.strip()}\n{end}", document)


def publish(docs: Path = DOCS, out: Path = OUT) -> int:
    for document, names in NAMES.items():
        text = (docs / document).read_text()
        for name in names:
            measured = (out / f"{name}.md").is_file()
            if measured:
                text = with_output(text, name, (out / f"{name}.md").read_text())
            print(f"{name}: {'published' if measured else 'not measured, left as it was'}")
        (docs / document).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(publish())
