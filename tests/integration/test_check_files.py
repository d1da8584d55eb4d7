"""check -f as a process: the folder of tests/workloads, and what else files may be."""

import io
import json
import os
import pty
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import xmlschema
import yaml

from extender.printing.sarif import RULES
from tests.fakes.apiserver import (
    NAMESPACES,
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    Fault,
    kubeconfig,
)
from tests.processes import ROOT, run

WORKLOADS: Final = ROOT / "tests" / "workloads"
FOLDER: Final = WORKLOADS / "folder"
CLUSTER: Final = ("--manifests", str(WORKLOADS / "cluster"))
SCHEMAS: Final = ROOT / "tests" / "schemas"
EXPECTED: Final[dict[str, list[list[Any]]]] = json.loads((WORKLOADS / "findings.json").read_text())
PATHS: Final = {"Namespace": NAMESPACES, "Node": NODES, "RuntimeClass": RUNTIME_CLASSES}


def fill(server: FakeApiServer) -> None:
    """The objects of the manifests, by name, as etcd has them."""
    files = (WORKLOADS / "cluster").iterdir()
    objects = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    for each in sorted(objects, key=lambda each: str(each["metadata"]["name"])):
        server.put(PATHS[each["kind"]], each)


@pytest.fixture(params=["manifests", "cluster"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The flags that say where the cluster is, which is the same one both times."""
    if request.param == "manifests":
        yield CLUSTER
        return
    with FakeApiServer() as server:
        fill(server)
        (tmp_path / "kubeconfig").write_text(kubeconfig(server.url))
        yield "--kubeconfig", str(tmp_path / "kubeconfig")


def findings(*words: str, code: int, stdin: str | None = None) -> list[dict[str, Any]]:
    result = run("check", *words, "-o", "json", stdin=stdin)
    assert (result.returncode, result.stderr) == (code, "")
    found: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return found


def test_of_thirty_workloads_half_are_wrong_each_in_its_own_way(source: tuple[str, ...]) -> None:
    assert len(list(FOLDER.iterdir())) == 2 * len(EXPECTED) == 30
    found: dict[str, list[list[Any]]] = {}
    for each in findings("-f", str(FOLDER), *source, code=1):
        assert set(each) == {
            "severity", "code", "file", "line", "object", "what", "why", "fix"
        }  # fmt: skip
        assert all(each.values())
        told = [each["severity"], each["code"], each["line"], each["object"]]
        found.setdefault(Path(each["file"]).name, []).append(told)
    assert found == EXPECTED


def test_every_code_has_a_rule() -> None:
    codes = {code for found in EXPECTED.values() for _, code, _, _ in found}
    assert codes <= RULES.keys()


def test_sound_files_end_with_0_and_warnings_fail_only_where_asked() -> None:
    sound = [str(each) for each in FOLDER.iterdir() if each.name not in EXPECTED]
    assert findings(*(word for file in sound for word in ("-f", file)), *CLUSTER, code=0) == []
    warned = ("-f", str(FOLDER / "shell.yaml"), *CLUSTER)
    assert [each["code"] for each in findings(*warned, code=0)] == ["misspelt"]
    assert [each["code"] for each in findings(*warned, "--fail-on", "warning", code=1)]


def test_sarif_is_valid_and_says_what_json_says() -> None:
    schema = json.loads(
        Path(os.environ.get("SARIF_SCHEMA", SCHEMAS / "sarif-2.1.0-part.json")).read_text()
    )
    stdin = (FOLDER / "checkout.yaml").read_text()
    words = ("-f", str(FOLDER), "-f", "-", *CLUSTER)
    result = run("check", *words, "-o", "sarif", stdin=stdin)
    assert (result.returncode, result.stderr) == (1, "")
    log = json.loads(result.stdout)
    jsonschema.validators.validator_for(schema)(schema).validate(log)
    (of_run,) = log["runs"]
    rules = [each["id"] for each in of_run["tool"]["driver"]["rules"]]
    told = findings(*words, code=1, stdin=stdin)
    assert (
        [rules[each["ruleIndex"]] for each in of_run["results"]]
        == [each["ruleId"] for each in of_run["results"]]
        == [each["code"] for each in told]
    )
    regions = [each["locations"][0]["physicalLocation"]["region"] for each in of_run["results"]]
    assert [each["startLine"] for each in regions] == [each["line"] for each in told]
    texts = [each["message"]["text"] for each in of_run["results"]]
    assert not [text for text in texts if ".." in text]


def test_junit_is_valid_and_has_a_test_for_each_object(tmp_path: Path) -> None:
    schema = xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd"))
    hostile = tmp_path / "hostile.yaml"
    hostile.write_text(
        'apiVersion: v1\nkind: Pod\nmetadata: {name: "<&\\u001b]0;\\u0007\\u202e"}\n'
        'spec: {runtimeClassName: "]]>\\u0000"}\n'
    )
    words = ("check", "-f", str(FOLDER), "-f", str(hostile), *CLUSTER, "-o", "junit")
    result = run(*words)
    assert (result.returncode, result.stderr) == (1, "")
    schema.validate(io.StringIO(result.stdout))
    document: Any = schema.to_dict(io.StringIO(result.stdout))
    suites = document["testsuite"]
    cases = [case for suite in suites for case in suite["testcase"]]
    failed = {case["@classname"] for case in cases if "failure" in case}
    # A misspelt field is a warning, which fails no test.
    assert {Path(each).name for each in failed} == {*EXPECTED, "hostile.yaml"} - {"shell.yaml"}
    assert sum(int(suite["@tests"]) for suite in suites) == len(cases) == 30


def test_standard_input_is_a_file_too() -> None:
    text = (FOLDER / "checkout.yaml").read_text()
    (found,) = findings("-f", "-", *CLUSTER, code=1, stdin=text)
    assert (found["file"], found["line"], found["code"]) == ("-", 14, "not_found")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "-f -: holds no object: there is nothing to do", id="nothing at all"),
        pytest.param("a: [", "-: line 2, column 1: invalid YAML: ", id="no YAML"),
        pytest.param(
            "# one\n---\napiVersion: apps/v1\nkind: Deployment\nspec: {template: [1]}\n",
            "-:3: Deployment: spec.template: expected `object`, got list",
            id="a template of a wrong type",
        ),
        pytest.param(
            "kind: Pod\nspec: {tolerations: x}\n",
            "-:1: Pod: spec.tolerations: expected `array`, got `str`",
            id="a field of a wrong type",
        ),
        pytest.param(
            "kind: Pod\nspec: {containers: [{resources: {requests: {cpu: 1Gb}}}]}\n",
            "-:1: Pod: spec.containers[0].resources.requests[cpu]: ",
            id="an amount that is none",
        ),
    ],
)
def test_what_can_not_be_read_is_one_line(text: str, said: str) -> None:
    result = run("check", "-f", "-", *CLUSTER, stdin=text)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"runtimeclass-extender check: {said}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "sarif"), "-o sarif needs -f FILE"),
        (("-f", "x", "--scheduler-config", "y"), "-f is judged alone"),
        (("-f", "/nonexistent"), "-f /nonexistent: No such file or directory"),
        (("-f", "-", "-f", "-"), "standard input can be read once only"),
        (("-f", ""), "-f: the path is empty"),
    ],
)
def test_a_wrong_flag_is_one_line(words: tuple[str, ...], said: str) -> None:
    result = run("check", *words, *CLUSTER)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr


def test_a_folder_in_a_folder_is_read_where_asked(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "web.yaml").write_text((FOLDER / "checkout.yaml").read_text())
    (found,) = findings("-f", str(tmp_path), "-R", *CLUSTER, code=1)
    assert found["file"] == str(tmp_path / "a" / "b" / "web.yaml")


def test_files_that_bring_classes_and_nodes_need_no_cluster(tmp_path: Path) -> None:
    brought = sorted((WORKLOADS / "cluster").iterdir())
    given = [word for file in brought for word in ("-f", str(file))]
    checkout = ("-f", str(FOLDER / "checkout.yaml"))
    environment = {"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}
    result = run("check", *given, *checkout, "-o", "json", env=environment)
    assert (result.returncode, result.stderr) == (1, "")
    assert [each["code"] for each in json.loads(result.stdout)["findings"]] == ["not_found"]


def test_without_the_right_to_list_namespaces_what_they_allow_is_left_out(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        fill(server)
        server.faults[NAMESPACES].append(Fault(status=403))
        (tmp_path / "kubeconfig").write_text(kubeconfig(server.url))
        flags = ("--kubeconfig", str(tmp_path / "kubeconfig"))
        result = run("check", "-f", str(FOLDER / "ledger.yaml"), *flags)
    assert result.returncode == 0
    assert "left out what namespaces allow" in result.stderr


def test_what_no_policy_looks_at_is_held_to_no_rule_of_its_namespace() -> None:
    """The system's namespace, and what a controller makes of a template that was judged."""
    required = 'annotations: {runtimeclass-extender/required: "true"}'
    template = "template: {spec: {containers: [{name: c}]}}"
    owner = "ownerReferences: [{kind: Deployment, name: d, controller: true}]"
    text = "---\n".join(
        (
            f"kind: Namespace\nmetadata: {{name: kube-system, {required}}}\n",
            f"kind: Namespace\nmetadata: {{name: a, {required}}}\n",
            f"apiVersion: apps/v1\nkind: Deployment\nspec: {{{template}}}\n"
            "metadata: {name: d, namespace: kube-system}\n",
            f"apiVersion: apps/v1\nkind: ReplicaSet\nspec: {{{template}}}\n"
            f"metadata: {{name: r, namespace: a, {owner}}}\n",
            f"apiVersion: apps/v1\nkind: Deployment\nspec: {{{template}}}\n"
            "metadata: {name: d, namespace: a}\n",
        )
    )
    (found,) = findings("-f", "-", *CLUSTER, code=1, stdin=text)
    assert (found["code"], found["object"]) == ("class_required", "Deployment a/d")


def test_the_hook_of_pre_commit_takes_the_files_that_follow() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *words = hook["entry"].split()
    assert program == "runtimeclass-extender"
    changed = [str(FOLDER / "api.yaml"), str(FOLDER / "checkout.yaml")]
    result = run(*words, *CLUSTER, *hook["args"], *changed)
    assert result.returncode == 1
    assert f"{changed[1]}:14: Deployment default/checkout" in result.stdout
    assert result.stdout.endswith("1 error in 2 objects of 2 files\n")


def test_files_of_the_environment_are_read() -> None:
    files = f"{FOLDER / 'api.yaml'}:{FOLDER / 'checkout.yaml'}"
    environment = {"RUNTIMECLASS_EXTENDER_CHECK_FILENAME": files}
    result = run("check", *CLUSTER, env=environment)
    assert result.stdout.endswith("1 error in 2 objects of 2 files\n")


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq in PATH")
def test_an_export_cut_down_as_the_page_says_has_the_same_findings(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "before.md").read_text()
    (program,) = re.findall(r"\| jq '(.*?)' > cluster.json", page, re.DOTALL)
    files = (WORKLOADS / "cluster").iterdir()
    items = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    cut = subprocess.run(["jq", program], input=listed, capture_output=True, text=True, check=True)
    (tmp_path / "cluster.json").write_text(cut.stdout)
    words = ("check", "-f", str(FOLDER), "-o", "json", "--manifests")
    short, whole = run(*words, str(tmp_path / "cluster.json")), run(*words, CLUSTER[1])
    assert (short.stdout, short.stderr) == (whole.stdout, whole.stderr)


def test_a_line_on_a_terminal_tells_how_far_it_is() -> None:
    """While more is to come, here through a pipe that stays open until it was told."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "extender", "check", "-f", str(FOLDER), "-", *CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        cwd=ROOT,
    ) as process:
        os.close(theirs)
        told = b""
        while not (found := re.search(rb"(\d+) documents read, \d+ s", told)):
            told += os.read(ours, 65536)
        process.communicate(b"kind: ConfigMap\n", timeout=60)
        os.close(ours)
    assert (process.returncode, int(found[1])) == (1, 32)


#: Of a processor; what else the machine does is left aside.
SECONDS: Final = 10.0


def test_five_thousand_documents_that_are_all_wrong_are_checked_in_seconds(tmp_path: Path) -> None:
    one = (FOLDER / "maps.yaml").read_text()
    texts = (
        one.replace("name: maps", f"name: maps-{number}")
        .replace("zone: c", f"zone: z{number % 400}")
        .replace("memory: 128Mi", f"memory: {number % 900 + 1}Mi")
        for number in range(5000)
    )
    (tmp_path / "many.yaml").write_text("---\n".join(texts))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = findings("-f", str(tmp_path / "many.yaml"), *CLUSTER, code=1)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len({each["object"] for each in found}) == len(found) == 5000
    assert after.ru_utime - before.ru_utime < SECONDS


BOMB: Final = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize("command", ["check", "render"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(f"kind: Pod\n{BOMB}", "characters", id="aliases"),
        pytest.param("kind: Pod\nspec: " + "[" * 10_000, "nested more than", id="depth"),
        pytest.param('{"kind": "Pod", "spec": ' + "[" * 10_000, "nested", id="depth of JSON"),
        pytest.param("kind: Pod\n\x1b]0;x\x07: 1\n", "invalid YAML", id="control characters"),
    ],
)
def test_hostile_texts_are_one_line(command: str, text: str, said: str) -> None:
    result = run(command, "-f", "-", *CLUSTER, stdin=text)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr
    assert result.stderr.rstrip("\n").isprintable()


@pytest.mark.parametrize("output", ["table", "json", "sarif", "junit"])
def test_a_file_may_be_called_anything_that_a_disk_can_keep(output: str, tmp_path: Path) -> None:
    name = b"web-\xff\x1b[31m.yaml"
    text = "kind: Pod\nmetadata: {name: web}\nspec: {runtimeClassName: none}\n"
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text(text)
    result = run("check", "-f", str(tmp_path), *CLUSTER, "-o", output)
    assert (result.returncode, result.stderr) == (1, "")
    assert "none" in result.stdout
    assert "\x1b" not in result.stdout
    if output == "sarif":
        (found,) = json.loads(result.stdout)["runs"][0]["results"]
        uri = found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri.endswith("/web-%FF%1B%5B31m.yaml")


def test_a_name_in_a_file_makes_no_link_in_a_code_host(tmp_path: Path) -> None:
    """SARIF 2.1.0, section 3.11.6: [text](address) in a message is a link."""
    name = "[fixed in this version](https://elsewhere.example)"
    text = f"kind: Pod\nmetadata: {{name: '{name}'}}\nspec: {{runtimeClassName: none}}\n"
    (tmp_path / "web.yaml").write_text(text)
    result = run("check", "-f", str(tmp_path), *CLUSTER, "-o", "sarif")
    message = json.loads(result.stdout)["runs"][0]["results"][0]["message"]["text"]
    assert "fixed in this version" in message
    assert "](" not in message
