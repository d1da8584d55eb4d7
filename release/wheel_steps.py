"""Builds the sdist and this platform's wheel, and installs both where there is no compiler.

    python release/wheel_steps.py [--keep FOLDER] [--python PYTHON …]

What .github/workflows/release.yml does by cibuildwheel in containers, as far as it can be done
without them. The package index must be reachable.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copy2
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from image.steps import copy_context  # noqa: E402 (it is no installed package)
from release.installed import environment  # noqa: E402

WORKFLOW: Final = ROOT / ".github" / "workflows" / "release.yml"

#: The newest glibc that a wheel may ask for: that of RHEL 8, Debian 10 and everything after them.
NEWEST_GLIBC: Final = (2, 28)

_TAG: Final = re.compile(r"-cp311-abi3-([\w.]+)\.whl$")
_PIP: Final = ("--quiet", "--disable-pip-version-check")


def run(*command: str | Path, **variables: str) -> None:
    tools = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    full = {**environment(), **tools, **variables}
    done = subprocess.run([*map(str, command)], env=full, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: ended with {done.returncode}")


def build(work: Path, built: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is made of it."""
    source = work / "source"
    copy_context(source)
    script = "import sys, setuptools.build_meta as b; b.build_sdist(sys.argv[1])"
    hook = [sys.executable, "-c", script, str(built)]
    subprocess.run(hook, cwd=source, stdout=subprocess.DEVNULL, check=True)
    (sdist,) = built.glob("*.tar.gz")
    raw, place = work / "raw", ("--no-deps", "--no-index", "--no-build-isolation")
    pip = (sys.executable, "-m", "pip", "wheel", *_PIP, *place)
    run(*pip, "--wheel-dir", raw, sdist, CFLAGS="-g0")
    (made,) = raw.glob("*.whl")
    run("auditwheel", "repair", "--wheel-dir", built, made)
    (wheel,) = built.glob("*.whl")
    return sdist, wheel


def oldest_glibc(name: str) -> tuple[int, ...]:
    """The glibc from which on a wheel of this file name installs. Raises SystemExit where none."""
    tag = _TAG.search(name)
    if tag is None:
        raise SystemExit(f"{name}: not of Python 3.11's stable ABI")
    glibcs = [tuple(map(int, each)) for each in re.findall(r"manylinux_(\d+)_(\d+)_", tag[1])]
    if not glibcs or min(glibcs) > NEWEST_GLIBC:
        newest = ".".join(map(str, NEWEST_GLIBC))
        raise SystemExit(f"{name}: asks for a newer glibc than {newest}")
    return min(glibcs)


def install(package: Path, python: str, folder: Path, compiled: str) -> None:
    """Install a package where no compiler is found, and try it there."""
    run(python, "-m", "venv", folder / "venv")
    own = folder / "venv" / "bin" / "python"
    nothing = folder / "empty"
    nothing.mkdir()
    bare = {"PATH": str(nothing), "CC": "", "CXX": ""}
    lock = ("--require-hashes", "--only-binary", ":all:", "-r", ROOT / "image/requirements.lock")
    run(own, "-m", "pip", "install", *_PIP, "--no-deps", *lock, **bare)
    only = ("--no-index", "--only-binary", ":all:") if package.suffix == ".whl" else ()
    # Not from a cache: what pip built of the same sdist where there was a compiler.
    once = (*_PIP, "--no-cache-dir", "--no-deps", *only)
    run(own, "-m", "pip", "install", *once, package, **bare)
    run(own, "-I", ROOT / "release/installed.py", "--compiled", compiled, **bare)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the wheel, install it with no compiler.")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="put sdist and wheel there")
    parser.add_argument(
        "--python",
        action="append",
        metavar="PYTHON",
        help="install the wheel on this one too; repeatable (default: on this one only)",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work, built = Path(name), Path(name) / "built"
        built.mkdir()
        run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", WORKFLOW)
        sdist, wheel = build(work, built)
        run("abi3audit", "--strict", wheel)
        glibc = ".".join(map(str, oldest_glibc(wheel.name)))
        print(f"{wheel.name}: glibc {glibc} or later, Python 3.11 or later")
        for number, python in enumerate([sys.executable, *(arguments.python or ())]):
            print(f"{wheel.name}, on {python}, without a compiler:")
            install(wheel, python, work / f"wheel-{number}", "yes")
        print(f"{sdist.name}, without a compiler:")
        install(sdist, sys.executable, work / "sdist", "no")
        if arguments.keep:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            for each in (sdist, wheel):
                print(copy2(each, arguments.keep))


if __name__ == "__main__":
    main()
