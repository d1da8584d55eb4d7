"""Puts the tables and plots of the last runs into docs/performance.md and docs/sizing.md.

    make bench bench-growth bench-start bench-sizing && make bench-docs

What stands between `<!-- NAME -->` and `<!-- end NAME -->` is replaced by loadtest/out/NAME.md,
and the plots are copied to docs/performance/ and docs/sizing/. Nothing there is written by hand.
What has not been measured here stays as it is: not every machine has the programs for all of them.
"""

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loadtest.processes import OUT, ROOT

DOCS: Final = ROOT / "docs"

#: The parts of each document that are outputs.
NAMES: Final = {
    "performance.md": ("bench", "growth", "start", "scheduler", "beside"),
    "sizing.md": ("sizing",),
}
PLOTS: Final = {
    "performance.md": ("bench.png", "growth.png", "scheduler.png"),
    "sizing.md": ("sizing.png",),
}


def with_output(document: str, name: str, output: str) -> str:
    """The document with another output between the marks. Raises ValueError without marks."""
    begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(document):
        raise ValueError(f"no {begin} … {end}")
    return pattern.sub(lambda _: f"{begin}\n{output.strip()}\n{end}", document)


def publish(document: Path, out: Path) -> list[str]:
    """Which parts of a document were measured; these are in it now. Raises OSError, ValueError."""
    names = [name for name in NAMES[document.name] if (out / f"{name}.md").is_file()]
    if not names:
        return names
    text = document.read_text()
    for name in names:
        text = with_output(text, name, (out / f"{name}.md").read_text())
    plots = document.with_suffix("")
    plots.mkdir(exist_ok=True)
    for plot in PLOTS[document.name]:
        if (out / plot).is_file():
            shutil.copyfile(out / plot, plots / plot)
    document.write_text(text)
    return names


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.publish", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="of the last runs")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="DIR")
    flags = parser.parse_args(argv)
    published: list[str] = []
    for name in NAMES:
        try:
            published += publish(flags.docs / name, flags.out)
        except (OSError, ValueError) as error:
            print(f"publish: {flags.docs / name}: {error}", file=sys.stderr)
            return 1
    if not published:
        print(f"publish: nothing to publish in {flags.out}", file=sys.stderr)
        return 1
    for name in (name for names in NAMES.values() for name in names):
        print(f"{name}: {'published' if name in published else 'not measured, left as it was'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
