"""Fuzzes what reads bytes of strangers, guided by the lines of Python that an input reaches.

    python -m fuzz [--seconds N] [TARGET …]
    python -m fuzz --replay FILE TARGET

atheris (libFuzzer for Python) prints a line whenever an input reaches something new, and every few
seconds. An input that ends a target with an exception is written to a file, which --replay tries
once more. What was found to reach something new is kept, so the next run goes on from there.
"""

import argparse
import importlib
import logging
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from fuzz.splicing import spliced

TARGETS: Final = ("bodies", "reviews")

FOLDER: Final = Path(__file__).resolve().parent.parent / ".venv" / "fuzz" / "inputs"

#: The most that an input may take; seconds and megabytes.
ONE_INPUT_SECONDS: Final = 10
MEMORY_MB: Final = 2048


def dictionary(words: Iterable[bytes]) -> str:
    """In libFuzzer's format."""
    return "".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in words)


def fuzz(name: str, seconds: int) -> None:
    """Does not return: libFuzzer ends the process."""
    import atheris

    logging.getLogger().addHandler(logging.NullHandler())
    with atheris.instrument_imports(include=["extender"]):
        module: Any = importlib.import_module(f"fuzz.{name}")
    own = FOLDER / name
    corpus = own / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(module.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    (own / "words").write_text(dictionary(module.WORDS))
    flags = {
        "max_total_time": seconds,
        "max_len": module.MAX_SIZE,
        "timeout": ONE_INPUT_SECONDS,
        "rss_limit_mb": MEMORY_MB,
        "dict": own / "words",
        "artifact_prefix": f"{own}/",
        "print_final_stats": 1,
    }
    pieces = [*module.WORDS, *module.seeds()]

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        if seed % 2:
            return bytes(atheris.Mutate(data, max_size))
        return spliced(data, max_size, seed, pieces)

    options = [f"-{key}={value}" for key, value in flags.items()]
    command = [sys.argv[0], *options, str(corpus)]
    atheris.Setup(command, module.TARGET, custom_mutator=change)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(prog="fuzz", description="Fuzz what reads bytes of strangers.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="try this input once")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.targets) - set(TARGETS))
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    targets = arguments.targets or TARGETS
    if arguments.replay:
        for name in targets:
            importlib.import_module(f"fuzz.{name}").one(arguments.replay.read_bytes())
            print(f"{name}: nothing is wrong with {arguments.replay}")
        return
    if arguments.here:
        fuzz(targets[0], arguments.seconds)
    for name in targets:
        print(f"fuzzing {name} for {arguments.seconds} s ...", flush=True)
        command = [sys.executable, "-m", "fuzz", "--here", f"--seconds={arguments.seconds}", name]
        if subprocess.run(command, check=False).returncode:
            again = f"python -m fuzz --replay FILE {name}"
            raise SystemExit(f"{name}: an input is wrong; the line above names its file: {again}")
        print(f"{name}: nothing found")


if __name__ == "__main__":
    main()
