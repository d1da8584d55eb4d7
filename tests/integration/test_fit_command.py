"""`fit` as a person calls it."""

import json
from pathlib import Path

import pytest

from tests.processes import SAMPLES, run

CLUSTER = ("--manifests", str(SAMPLES / "cluster"), "--manifests", str(SAMPLES / "runtimes"))
POD = SAMPLES / "runtimes" / "pod.yaml"


def test_the_best_class_comes_first_and_each_other_says_why_not() -> None:
    done = run("fit", "-f", str(POD), "--isolation", "sandbox", "-o", "json", *CLUSTER)
    assert done.returncode == 0, done.stderr
    items = json.loads(done.stdout)["items"]
    assert items[0] == {
        "class": "gvisor-sandbox",
        "fits": True,
        "nodes": 2,
        "isolation": "sandbox",
        "overhead": {},
        "reason": "",
    }
    assert [(each["class"], each["nodes"]) for each in items if each["fits"]] == [
        ("gvisor-sandbox", 2),
        ("kata-vm", 2),
    ]
    reasons = {each["class"]: each["reason"] for each in items}
    assert reasons["wasm-spin"] == (
        'nodes don\'t match RuntimeClass "wasm-spin" (hostPath is unsupported)'
    )
    assert reasons["windows-process"] == "isolation none, sandbox is asked for"


def test_without_the_flag_the_pod_asks_by_its_annotation(tmp_path: Path) -> None:
    def fitting(*flags: str, level: str) -> set[str]:
        said = POD.read_text().replace("isolation: sandbox", f"isolation: {level}")
        (tmp_path / "pod.yaml").write_text(said)
        done = run("fit", "-f", str(tmp_path / "pod.yaml"), "-o", "json", *flags, *CLUSTER)
        assert done.stderr == ""
        return {each["class"] for each in json.loads(done.stdout)["items"] if each["fits"]}

    assert fitting(level="vm") == {"kata-vm"}
    assert fitting(level="sandbox") == {"gvisor-sandbox", "kata-vm"}
    assert fitting("--isolation=vm", level="sandbox") == {"kata-vm"}
    assert "runc" in fitting("--isolation=none", level="castle")


def test_a_level_that_no_class_can_have_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD.read_text().replace("sandbox", "castle"))
    done = run("fit", "-f", str(tmp_path / "pod.yaml"), *CLUSTER)
    assert done.returncode == 2
    assert '"castle" is none of none, sandbox, vm, confidential' in done.stderr
    assert done.stderr.count("\n") == 1


def test_nothing_that_fits_ends_with_1() -> None:
    done = run("fit", "default/untrusted", "--isolation=confidential", *CLUSTER)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param([], "POD is needed", id="no pod"),
        pytest.param(["default/nobody"], "not found", id="no such pod"),
        pytest.param(["default/untrusted", "--isolation=castle"], "castle", id="no such level"),
    ],
)
def test_what_cannot_be_told_ends_with_2_and_one_line(arguments: list[str], words: str) -> None:
    done = run("fit", *arguments, *CLUSTER)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_namespace_decides_which_classes_are_considered(tmp_path: Path) -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "default",
            "annotations": {"runtimeclass-extender/allowed-classes": "kata-vm"},
        },
    }
    (tmp_path / "namespace.json").write_text(json.dumps(namespace))
    more = ("--manifests", str(tmp_path))
    done = run("fit", "default/untrusted", "-o", "json", *CLUSTER, *more)
    items = json.loads(done.stdout)["items"]
    assert [each["class"] for each in items if each["fits"]] == ["kata-vm"]
    assert "is not allowed in namespace" in items[1]["reason"]


def test_a_workload_is_judged_by_the_pods_it_makes(tmp_path: Path) -> None:
    pod = {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {**pod, "nodeSelector": {"kubernetes.io/os": "windows"}}}},
    }
    file = tmp_path / "web.json"
    file.write_text(json.dumps(workload))
    done = run("fit", "-f", str(file), "-o", "json", *CLUSTER)
    fits = {each["class"]: each["fits"] for each in json.loads(done.stdout)["items"]}
    assert fits["windows-2022"]
    assert not fits["windows-process"]
