"""Tries the package that is installed beside this interpreter: is it compiled, does it answer?

    python -I release/installed.py --compiled yes|no

It imports nothing of the checkout, and so needs nothing but the installed package and its
dependencies. Ends with 1 where something is not as it should be.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SAMPLES: Final = ROOT / "scheduler-config" / "samples"
START_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 10.0
_LISTENING: Final = re.compile(r"listening on (http://\S+)")


def environment() -> dict[str, str]:
    """Ours, without what belongs to another Python or would be taken for a flag."""
    dropped = ("PYTHON", "VIRTUAL_ENV", "RUNTIMECLASS_EXTENDER_")
    return {key: value for key, value in os.environ.items() if not key.startswith(dropped)}


def ask(url: str, body: bytes | None = None) -> str:
    request = urllib.request.Request(url, body)
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
        text: str = answer.read().decode()
        return text


def try_serve(program: Path) -> None:
    """Start `serve` on the sample cluster, and ask it for a verdict."""
    process = subprocess.Popen(
        [str(program), "serve", "--bind", "127.0.0.1:0", "--manifests", str(SAMPLES / "cluster")],
        cwd="/",
        env={**environment(), "PYTHONDONTWRITEBYTECODE": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    try:
        assert process.stderr is not None
        url = next((m[1] for line in process.stderr if (m := _LISTENING.search(line))), None)
        if url is None:
            raise SystemExit("serve ended before it listened")
        print(f"{url}/readyz: {ask(f'{url}/readyz')}")
        request = (SAMPLES / "requests" / "handler.json").read_bytes()
        answer = json.loads(ask(f"{url}/filter", request))
        reasons = json.dumps(answer["FailedAndUnresolvableNodes"])
        print(f"{url}/filter: {reasons}")
        if "no runtime handler" not in reasons:
            raise SystemExit("that is not the answer of the sample")
    finally:
        watchdog.cancel()
        process.terminate()
        process.wait()
    if process.returncode:
        raise SystemExit(f"serve ended with {process.returncode}")


def wrong(wanted: bool) -> str:
    """What is wrong with the package; empty if nothing is."""
    from extender.model import names

    place = Path(names.__file__).resolve()
    if place.is_relative_to(ROOT) and not place.is_relative_to(Path(sys.prefix).resolve()):
        return f"{place} is the checkout, not an installed package"
    try:
        import extender.model._names  # noqa: F401  # whether it can be imported
    except ImportError:
        found = False
    else:
        found = True
    if found is not wanted or names.IS_COMPILED is not wanted:
        return f"the compiled part is {'there' if found else 'missing'}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description="Try the package installed beside this Python.")
    parser.add_argument("--compiled", choices=("yes", "no"), required=True)
    arguments = parser.parse_args()
    version = ".".join(map(str, sys.version_info[:3]))
    if problem := wrong(arguments.compiled == "yes"):
        raise SystemExit(f"Python {version}: {problem}")
    print(f"Python {version}: compiled part: {arguments.compiled}, as wanted")
    try_serve(Path(sys.executable).parent / "runtimeclass-extender")


if __name__ == "__main__":
    main()
