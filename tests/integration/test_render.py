"""render as a process: what it prints of files, and what it says."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.conformance.test_rendering import listed
from tests.processes import ROOT, run

WORKLOADS: Final = ROOT / "tests" / "workloads"
FOLDER: Final = WORKLOADS / "folder"
CLUSTER: Final = ("--manifests", str(WORKLOADS / "cluster"))
KATA: Final = {"katacontainers.io/kata-runtime": "true"}


def rendered(*words: str, stdin: str | None = None, code: int = 0) -> str:
    result = run("render", *words, *CLUSTER, stdin=stdin)
    assert (result.returncode, result.stderr) == (code, "")
    return result.stdout


def test_only_what_admission_adds_is_new_in_the_text() -> None:
    before = (FOLDER / "api.yaml").read_text()
    after = rendered("-f", str(FOLDER / "api.yaml")).splitlines()
    assert [line for line in after if line in before.splitlines()] == before.splitlines()
    added = [line.strip() for line in after if line not in before.splitlines()]
    assert added == [
        "overhead:",
        "cpu: 250m",
        "memory: 160Mi",
        "nodeSelector:",
        'katacontainers.io/kata-runtime: "true"',
        "tolerations:",
        "- key: dedicated",
        "operator: Equal",
        "value: kata",
        "effect: NoSchedule",
    ]


def test_what_needs_nothing_is_printed_byte_for_byte() -> None:
    names = ("frontend.yaml", "settings.yaml", "kueue.yaml", "debug.yaml")
    texts = [(FOLDER / name).read_text() for name in names]
    files = [word for name in names for word in ("-f", str(FOLDER / name))]
    assert rendered(*files) == "---\n".join(texts)
    crlf = "".join(texts[0]).replace("\n", "\r\n").rstrip()
    result = run("render", "-f", "-", *CLUSTER, stdin=crlf)
    assert result.stdout.splitlines() == crlf.splitlines()


def test_rendering_twice_changes_nothing() -> None:
    sound = [word for each in sorted(FOLDER.glob("*.yaml")) for word in ("-f", str(each))]
    first = run("render", *sound, *CLUSTER).stdout
    assert run("render", "-f", "-", *CLUSTER, stdin=first).stdout == first


def test_a_folder_is_one_stream_of_all_its_objects() -> None:
    given = [
        each
        for file in sorted(FOLDER.iterdir())
        for each in yaml.safe_load_all(file.read_text())
        if each is not None
    ]
    for output in ("yaml", "json"):
        result = run("render", "-f", str(FOLDER), *CLUSTER, "-o", output)
        assert result.returncode == 1
        text = result.stdout
        found = list(yaml.safe_load_all(text)) if output == "yaml" else listed(text)
        kinds = [each["kind"] for each in given]
        if output == "json":
            (at,) = (index for index, kind in enumerate(kinds) if kind == "List")
            kinds[at : at + 1] = ["ReplicaSet"]
        assert [each["kind"] for each in found] == kinds
        # What was printed is a file like any other.
        again = run("render", "-f", "-", *CLUSTER, "-o", output, stdin=text)
        assert (again.returncode, again.stdout) == (1, text)


def test_a_refused_pod_stays_as_it_is_and_is_told_with_its_line() -> None:
    file = FOLDER / "search.yaml"
    result = run("render", "-f", str(file), *CLUSTER)
    assert (result.returncode, result.stdout) == (1, file.read_text())
    assert result.stderr == (
        f"runtimeclass-extender render: {file}:14: Deployment default/search: conflict:"
        " runtimeClass.scheduling.nodeSelector[katacontainers.io/kata-runtime] = true;"
        " pod.spec.nodeSelector[katacontainers.io/kata-runtime] = false\n"
    )


def test_json_stays_json_and_lists_stay_lists() -> None:
    whole = json.loads(rendered("-f", str(FOLDER / "exported.json")))
    (item,) = whole["items"]
    assert item["spec"]["template"]["spec"]["nodeSelector"] == KATA
    as_yaml = rendered("-f", str(FOLDER / "exported.json"), "-o", "yaml")
    assert yaml.safe_load(as_yaml) == whole


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        pytest.param((), None, id="unless asked for"),
        pytest.param(("--default-class",), "kata", id="of the cluster"),
        pytest.param(("--default-class", "-n", "tenant"), "gvisor", id="of the namespace"),
        pytest.param(("--default-class", "-n", "system"), None, id="a namespace without"),
    ],
)
def test_a_default_class_is_given_where_asked(
    flags: tuple[str, ...], wanted: str | None, tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text(
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nhandler: h\nmetadata:\n  name: kata\n"
        '  annotations: {runtimeclass-extender/is-default-class: "true"}\n---\n'
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nhandler: h\nmetadata: {name: gvisor}\n"
        "---\nkind: Namespace\nmetadata:\n  name: tenant\n"
        "  annotations: {runtimeclass-extender/default-class: gvisor}\n"
        "---\nkind: Namespace\nmetadata:\n  name: system\n"
        '  annotations: {runtimeclass-extender/default-class: "false"}\n'
    )
    text = "kind: Pod\nspec:\n  # no class\n  containers: []\n"
    result = run("render", "-f", "-", "--manifests", str(tmp_path), *flags, stdin=text)
    assert (result.returncode, result.stderr) == (0, "")
    assert "# no class" in result.stdout
    spec: dict[str, Any] = yaml.safe_load(result.stdout)["spec"]
    assert spec.get("runtimeClassName") == wanted


FITTING: Final = (
    "kind: Pod\nmetadata:\n  name: p\n"
    "  annotations: {runtimeclass-extender/isolation: LEVEL}\nspec:\n  containers: []   # none\n"
)


def test_the_class_that_fits_is_given_where_asked(tmp_path: Path) -> None:
    text = (WORKLOADS / "cluster" / "classes.yaml").read_text()
    isolating = "metadata: {name: kata, annotations: {runtimeclass-extender/isolation: vm}}"
    (tmp_path / "classes.yaml").write_text(text.replace("metadata: {name: kata}", isolating))
    nodes = ("--manifests", str(WORKLOADS / "cluster" / "nodes.yaml"))
    words = ("render", "-f", "-", *nodes, "--manifests", str(tmp_path))
    sandboxed = FITTING.replace("LEVEL", "sandbox")
    assert run(*words, stdin=sandboxed).stdout == sandboxed
    result = run(*words, "--fit", stdin=sandboxed)
    assert (result.returncode, result.stderr) == (0, "")
    spec = yaml.safe_load(result.stdout)["spec"]
    assert (spec["runtimeClassName"], spec["nodeSelector"]) == ("kata", KATA)
    assert "# none" in result.stdout
    refused = run(*words, "--fit", stdin=FITTING.replace("LEVEL", "confidential"))
    assert refused.returncode == 1
    assert (
        "Pod default/p: pod rejected: no RuntimeClass of isolation confidential" in refused.stderr
    )


def test_terms_of_a_class_are_joined_with_the_pods(tmp_path: Path) -> None:
    terms = "[{matchExpressions: [{key: a, operator: Exists}]}]"
    (tmp_path / "class.yaml").write_text(
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nhandler: h\nmetadata:\n  name: kata\n"
        f"  annotations:\n    runtimeclass-extender/node-selector-terms: '{terms}'\n"
    )
    text = "kind: Pod\nspec: # kept\n  runtimeClassName: kata # kept\n"
    result = run("render", "-f", "-", "--manifests", str(tmp_path), stdin=text)
    affinity = yaml.safe_load(result.stdout)["spec"]["affinity"]["nodeAffinity"]
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": yaml.safe_load(terms)
    }
    assert result.stdout.count("# kept") == 2


def test_the_nodeselector_is_left_to_the_filter_where_asked() -> None:
    text = rendered("-f", str(FOLDER / "api.yaml"), "--merge", "tolerations")
    spec = yaml.safe_load(text)["spec"]["template"]["spec"]
    assert "nodeSelector" not in spec
    assert {"overhead", "tolerations"} < spec.keys()


def test_shared_text_is_written_anew_with_a_warning() -> None:
    text = (
        "kind: List\napiVersion: v1\nitems:\n- kind: Pod\n  spec: &spec {runtimeClassName: kata}\n"
        "- kind: ConfigMap\n  data: {x: '# no comment'}\n"
        "- kind: Pod\n  spec: *spec\n---\n# kept\nkind: Pod\nspec: {runtimeClassName: kata}\n"
    )
    result = run("render", "-f", "-", *CLUSTER, stdin=text)
    assert result.returncode == 0
    assert "-: document 1 is written anew, without its comments" in result.stderr
    first, second = yaml.safe_load_all(result.stdout)
    assert [each.get("spec", {}).get("nodeSelector") for each in first["items"]] == [
        KATA, None, KATA
    ]  # fmt: skip
    assert second["spec"]["nodeSelector"] == KATA
    assert "# kept" in result.stdout


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        ((), None, "-f FILE is needed"),
        (("-f", "-"), "", "-f -: holds no object: there is nothing to do"),
        (
            ("-f", "-"),
            "kind: Pod\nspec: {runtimeClassName: kata, tolerations: 3}\n",
            "-:1: Pod: Pod.spec.tolerations: expected",
        ),
        (("-f", "-"), "a: [", "-: line 2, column 1: invalid YAML: "),
    ],
)
def test_what_can_not_be_rendered_is_one_line(
    words: tuple[str, ...], stdin: str | None, said: str
) -> None:
    result = run("render", *words, *CLUSTER, stdin=stdin)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr
