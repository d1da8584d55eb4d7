"""Writes the bill of materials: what is installed with a release, as CycloneDX JSON, with hashes.

    python release/sbom.py --output FILE WHEEL

It lists what image/requirements.lock has for this Python and platform, as it is installed with the
wheel: names, versions, licences, what depends on what, and the SHA-256 of each file installed from.
Not in it are Python itself and the system, which an image's scanner lists. The package index must
be reachable; run by `make sbom`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from release.installed import environment  # noqa: E402 (it is no installed package)

OWN: Final = "runtimeclass-extender"

#: Of CycloneDX.
VERSION: Final = "1.6"


def installed(wheel: Path, work: Path) -> tuple[Path, dict[str, str]]:
    """A Python with the wheel and what it needs, and the SHA-256 of each file by package."""
    target = work / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", target], check=True)
    python, report = target / "bin" / "python", work / "report.json"
    hashes: dict[str, str] = {}
    lock = ("--require-hashes", "-r", str(ROOT / "image" / "requirements.lock"))
    for what in (lock, ("--no-index", str(wheel))):
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        once = ["--no-deps", "--only-binary", ":all:", "--report", str(report)]
        subprocess.run([*pip, *once, *what], env=environment(), check=True)
        for each in json.loads(report.read_text())["install"]:
            archive = each["download_info"]["archive_info"]
            hashes[canonical(each["metadata"]["name"])] = archive["hashes"]["sha256"]
    return python, hashes


def canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def described(bill: dict[str, Any], hashes: dict[str, str]) -> dict[str, Any]:
    """The bill with a hash for each component, and ours as what it is about.

    Raises KeyError for a component that was not installed from a file.
    """
    for component in bill["components"]:
        digest = hashes[canonical(component["name"])]
        component["hashes"] = [{"alg": "SHA-256", "content": digest}]
    (own,) = (each for each in bill["components"] if canonical(each["name"]) == OWN)
    bill["components"].remove(own)
    # Where it lay on this machine.
    references = own.pop("externalReferences", [])
    own["externalReferences"] = [each for each in references if not each["url"].startswith("file:")]
    bill["metadata"]["component"] = {**own, "type": "application"}
    return bill


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the bill of materials of a wheel.")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("wheel", type=Path, metavar="WHEEL")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        python, hashes = installed(arguments.wheel.resolve(), Path(name))
        command = [str(Path(sys.executable).parent / "cyclonedx-py"), "environment"]
        flags = ["--output-reproducible", "--sv", VERSION, "--of", "JSON", str(python)]
        made = subprocess.run([*command, *flags], stdout=subprocess.PIPE, check=True)
    bill = described(json.loads(made.stdout), hashes)
    text = json.dumps(bill, indent=1, sort_keys=True) + "\n"
    _validate(text)
    arguments.output.write_text(text)
    print(f"{arguments.output}: {len(bill['components'])} packages beside {OWN} itself")


def _validate(text: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    if error := JsonStrictValidator(SchemaVersion.from_version(VERSION)).validate_str(text):
        raise SystemExit(f"the bill of materials is not valid: {error}")


if __name__ == "__main__":
    main()
