"""Puts the tables and plots of the last runs into docs/performance.md.

    make bench bench-growth bench-start && make bench-docs

What stands between `<!-- NAME -->` and `<!-- end NAME -->` is replaced by loadtest/out/NAME.md,
and the plots are copied to docs/performance/. Nothing there is written by hand. What has not been
measured here stays as it is: not every machine has the programs for all of them.
"""

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loadtest.processes import OUT, ROOT

NAMES: Final = ("bench", "growth", "start", "scheduler")
PLOTS: Final = ("bench.png", "growth.png", "scheduler.png")
DOCUMENT: Final = ROOT / "docs" / "performance.md"


def with_output(document: str, name: str, output: str) -> str:
    """The document with another output between the marks. Raises ValueError without marks."""
    begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(document):
        raise ValueError(f"no {begin} … {end}")
    return pattern.sub(lambda _: f"{begin}\n{output.strip()}\n{end}", document)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.publish", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="of the last runs")
    parser.add_argument("--document", type=Path, default=DOCUMENT, metavar="FILE")
    flags = parser.parse_args(argv)
    document: Path = flags.document
    out: Path = flags.out
    names = [name for name in NAMES if (out / f"{name}.md").is_file()]
    try:
        if not names:
            raise ValueError(f"nothing to publish in {out}")
        text = document.read_text()
        for name in names:
            text = with_output(text, name, (out / f"{name}.md").read_text())
        plots = document.with_suffix("")
        plots.mkdir(exist_ok=True)
        for plot in PLOTS:
            if (out / plot).is_file():
                shutil.copyfile(out / plot, plots / plot)
        document.write_text(text)
    except (OSError, ValueError) as error:
        print(f"publish: {document}: {error}", file=sys.stderr)
        return 1
    for name in NAMES:
        print(f"{name}: {'published' if name in names else 'not measured, left as it was'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
