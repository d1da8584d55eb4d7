"""Runs the Dockerfile's build step without a container engine, and starts what came of it.

    python image/steps.py [--keep FOLDER]

The files that the build stage copies are put into an empty folder, and image/install.sh is run
there, as the Dockerfile does it. What remains untried is the base image itself.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns

ROOT = Path(__file__).resolve().parent.parent


def copied(dockerfile: str) -> Iterator[tuple[list[str], str]]:
    """Sources and destination of each COPY of the first stage."""
    first = re.split(r"(?m)^FROM .*$", dockerfile)[1]
    for line in re.findall(r"(?m)^COPY (.+)$", first):
        *sources, destination = line.split()
        yield sources, destination


def copy_context(folder: Path) -> None:
    for sources, destination in copied((ROOT / "Dockerfile").read_text()):
        for source in sources:
            target = folder / destination
            if (ROOT / source).is_dir():
                copytree(ROOT / source, target, ignore=ignore_patterns("__pycache__", "*.so"))
            else:
                target.mkdir(parents=True, exist_ok=True)
                copy2(ROOT / source, target)


def environment() -> dict[str, str]:
    """Ours, without what belongs to this checkout's Python."""
    dropped = ("PYTHON", "VIRTUAL_ENV", "RUNTIMECLASS_EXTENDER_")
    return {key: value for key, value in os.environ.items() if not key.startswith(dropped)}


def commit_time() -> str:
    command = ["git", "log", "-1", "--format=%ct"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "0"


def size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def run(folder: Path) -> None:
    source, target = folder / "src", folder / "opt" / "runtimeclass-extender"
    copy_context(source)
    subprocess.run(
        ["sh", "image/install.sh", sys.executable, str(target)],
        cwd=source,
        env={**environment(), "SOURCE_DATE_EPOCH": commit_time()},
        check=True,
    )
    # Not by our own imports: as an installed package, on the Python it was installed for.
    program = ROOT / "release" / "installed.py"
    trial = [str(target / "bin" / "python"), "-I", str(program), "--compiled", "yes"]
    subprocess.run(trial, env=environment(), check=True)
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"installed size: {size(target) / 2**20:.0f} MiB beside Python {version} itself")


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the image's build steps without an engine.")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="install there and keep it")
    kept: Path | None = parser.parse_args().keep
    if kept is not None:
        kept.mkdir(parents=True)
        run(kept.resolve())
        return
    with tempfile.TemporaryDirectory() as name:
        run(Path(name))


if __name__ == "__main__":
    main()
