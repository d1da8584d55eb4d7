"""The release workflow, what it builds, and the bill of materials hang together."""

import ast
import configparser
import re
import tomllib
from typing import Any, Final

import pytest
import yaml

from extender import __version__
from release import sbom
from release.wheel_steps import WORKFLOW, oldest_glibc
from tests.cases_file import cases
from tests.processes import ROOT

_TEXT: Final = WORKFLOW.read_text()
_JOBS: Final[dict[str, Any]] = yaml.safe_load(_TEXT)["jobs"]
_STEPS: Final = [step for job in _JOBS.values() for step in job["steps"]]


def test_every_action_is_pinned_to_a_commit_beside_the_version_it_is() -> None:
    used = re.findall(r"uses: (\S+)@(\S+)(?: # (\S+))?", _TEXT)
    assert len(used) == sum("uses" in step for step in _STEPS) > 0
    pins: dict[str, set[tuple[str, str]]] = {}
    for action, commit, version in used:
        assert re.fullmatch(r"[0-9a-f]{40}", commit), action
        assert re.fullmatch(r"v\d+\.\d+\.\d+", version), action
        pins.setdefault(action, set()).add((commit, version))
    assert all(len(each) == 1 for each in pins.values()), pins


def test_only_what_signs_and_publishes_may_write_and_none_of_it_runs_code_of_the_project() -> None:
    assert yaml.safe_load(_TEXT)["permissions"] == {}
    writing = {name for name, job in _JOBS.items() if "write" in job["permissions"].values()}
    assert writing == {"sign", "push", "release", "publish"}
    for name in writing:
        steps = _JOBS[name]["steps"]
        assert not any("checkout" in step.get("uses", "") for step in steps), name
        assert not any("make " in step.get("run", "") for step in steps), name


def test_what_the_workflow_runs_is_there() -> None:
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    run = [step["run"] for step in _STEPS if "run" in step]
    called = {name for line in run for name in re.findall(r"\bmake ([a-z-]+)", line)}
    assert called == {"lint", "test", "wheel-steps", "sbom"}
    assert called <= set(targets)
    (config,) = (step["with"]["config-file"] for step in _STEPS if "cibuildwheel" in str(step))
    assert (ROOT / config).is_file()
    (check,) = (line for line in run if "__version__" in line)
    line = check.replace("\\", "").split('"', 1)[1].rsplit('"', 1)[0]
    expected = line.replace("${GITHUB_REF_NAME#v}", __version__)
    assert expected in (ROOT / "extender" / "__init__.py").read_text().splitlines()


def test_a_wheel_is_built_by_the_oldest_python_and_tried_on_all() -> None:
    config = tomllib.loads((ROOT / "release" / "cibuildwheel.toml").read_text())
    chosen = config["tool"]["cibuildwheel"]["build"]
    package = configparser.ConfigParser()
    package.read(ROOT / "setup.cfg")
    pythons = re.findall(r"Python :: (3\.\d+)$", package["metadata"]["classifiers"], re.MULTILINE)
    assert package["options"]["python_requires"] == f">={pythons[0]}"
    tags = [f"cp{each.replace('.', '')}" for each in pythons]
    assert chosen == [f"{tag}-{libc}_*" for tag in tags for libc in ("manylinux", "musllinux")]
    assert _JOBS["test"]["strategy"]["matrix"]["python"] == pythons
    major, minor = map(int, pythons[0].split("."))
    source = (ROOT / "extender" / "model" / "_names.c").read_text()
    assert f"#define Py_LIMITED_API 0x{major:02x}{minor:02x}0000\n" in source
    setup = ast.unparse(ast.parse((ROOT / "setup.py").read_text()))
    assert f"'py_limited_api': '{tags[0]}'" in setup


@cases
def test_a_wheel_says_from_which_glibc_on_it_installs(tags: str, glibc: list[int]) -> None:
    assert [*oldest_glibc(f"runtimeclass_extender-0.1.0-cp311-abi3-{tags}.whl")] == glibc


@cases
def test_a_wheel_that_few_could_install_is_not_taken(name: str) -> None:
    with pytest.raises(SystemExit):
        oldest_glibc(name)


def _bill(*names: str) -> dict[str, Any]:
    return {"components": [{"name": name, "type": "library"} for name in names], "metadata": {}}


def test_each_package_of_the_bill_has_the_hash_of_the_file_it_was_installed_from() -> None:
    found = sbom.described(
        _bill("PyYAML", "runtimeclass-extender", "prometheus_client"),
        {"pyyaml": "11", "runtimeclass-extender": "22", "prometheus-client": "33"},
    )
    hashes = {each["name"]: each["hashes"] for each in found["components"]}
    assert hashes == {
        "PyYAML": [{"alg": "SHA-256", "content": "11"}],
        "prometheus_client": [{"alg": "SHA-256", "content": "33"}],
    }
    own = found["metadata"]["component"]
    assert (own["name"], own["type"]) == ("runtimeclass-extender", "application")


def test_a_package_that_nobody_knows_the_origin_of_stops_the_bill() -> None:
    with pytest.raises(KeyError, match="stowaway"):
        sbom.described(_bill("stowaway", "runtimeclass-extender"), {"runtimeclass-extender": "2"})


def test_the_bill_does_not_say_where_the_wheel_lay() -> None:
    bill = _bill("runtimeclass-extender")
    bill["components"][0]["externalReferences"] = [
        {"type": "distribution", "url": "file:///home/somebody/dist/a.whl"},
        {"type": "website", "url": "https://example.com"},
    ]
    found = sbom.described(bill, {"runtimeclass-extender": "2"})["metadata"]["component"]
    assert [each["url"] for each in found["externalReferences"]] == ["https://example.com"]
