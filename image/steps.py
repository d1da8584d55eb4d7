"""Runs the Dockerfile's build step without a container engine, and starts what came of it.

    python image/steps.py [--keep FOLDER]

The files that the build stage copies are put into an empty folder, and image/install.sh is run
there, as the Dockerfile does it. What remains untried is the base image itself.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 30.0
_LISTENING = re.compile(r"listening on (http://\S+)")


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


def ask(url: str, body: bytes | None = None) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def try_serve(program: Path) -> None:
    """Start `serve` as the image does, and ask it for a verdict."""
    samples = ROOT / "scheduler-config" / "samples"
    command = [str(program), "serve", "--bind", "127.0.0.1:0", "--manifests"]
    process = subprocess.Popen(
        [*command, str(samples / "cluster")],
        cwd="/",
        env={**environment(), "PYTHONDONTWRITEBYTECODE": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    try:
        assert process.stderr is not None
        url = next(match[1] for line in process.stderr if (match := _LISTENING.search(line)))
        print(f"{url}/readyz: {ask(f'{url}/readyz')}")
        request = (samples / "requests" / "handler.json").read_bytes()
        answer = json.loads(ask(f"{url}/filter", request))
        print(f"{url}/filter: {json.dumps(answer['FailedAndUnresolvableNodes'])}")
    finally:
        watchdog.cancel()
        process.terminate()
        process.wait()
    if process.returncode:
        raise SystemExit(f"serve ended with {process.returncode}")


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
    try_serve(target / "bin" / "runtimeclass-extender")
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
