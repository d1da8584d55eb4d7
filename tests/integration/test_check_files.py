"""check -f as a process: the folder of tests/workloads, and what else files may be."""

import io
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import xmlschema
import yaml

from tests.fakes.apiserver import NAMESPACES, FakeApiServer, Fault, filled
from tests.processes import ROOT, called, run

WORKLOADS: Final = ROOT / "tests" / "workloads"
FOLDER: Final = WORKLOADS / "folder"
CLUSTER: Final = ("--manifests", str(WORKLOADS / "cluster"))
AS_ADMITTED: Final = ", judged as admission would change them"
SCHEMAS: Final = ROOT / "tests" / "schemas"


def findings(*words: str, code: int, stdin: str | None = None) -> list[dict[str, Any]]:
    result = run("check", *words, "-o", "json", stdin=stdin)
    assert (result.returncode, result.stderr) == (code, "")
    found: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return found


def test_sarif_is_valid_and_says_what_json_says() -> None:
    file = Path(os.environ.get("SARIF_SCHEMA", SCHEMAS / "sarif-2.1.0-part.json"))
    schema = json.loads(file.read_text())
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
    wrong = {each["file"] for each in findings("-f", str(FOLDER), *CLUSTER, code=1)}
    assert failed == wrong | {str(hostile)}
    assert sum(int(suite["@tests"]) for suite in suites) == len(cases) == 30


def test_without_the_right_to_list_namespaces_what_they_allow_is_left_out(
    cluster: FakeApiServer, config: str
) -> None:
    for file in (WORKLOADS / "cluster").iterdir():
        filled(cluster, yaml.safe_load_all(file.read_text()))
    cluster.faults[NAMESPACES].append(Fault(status=403))
    result = run("check", "-f", str(FOLDER / "ledger.yaml"), "--kubeconfig", config)
    assert result.returncode == 0
    assert "left out what namespaces allow" in result.stderr


def test_the_hook_of_pre_commit_takes_the_files_that_follow() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *words = hook["entry"].split()
    assert program == "runtimeclass-extender"
    changed = [str(FOLDER / "api.yaml"), str(FOLDER / "checkout.yaml")]
    result = run(*words, *CLUSTER, *hook["args"], *changed)
    assert result.returncode == 1
    assert f"{changed[1]}:14: Deployment default/checkout" in result.stdout
    assert result.stdout.endswith(f"1 error in 2 objects of 2 files{AS_ADMITTED}\n")


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq in PATH")
def test_an_export_cut_down_as_the_page_says_has_the_same_findings(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "before.md").read_text()
    (program,) = re.findall(r"\| jq '(.*?)' > cluster.json", page, re.DOTALL)
    files = (WORKLOADS / "cluster").iterdir()
    items = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    (tmp_path / "cluster.json").write_text(called("jq", program, stdin=listed).stdout)
    words = ("check", "-f", str(FOLDER), "-o", "json", "--manifests")
    short, whole = run(*words, str(tmp_path / "cluster.json")), run(*words, CLUSTER[1])
    assert (short.stdout, short.stderr) == (whole.stdout, whole.stderr)


def test_a_folder_without_workloads_is_told_with_what_was_read() -> None:
    result = run("check", "-f", str(WORKLOADS / "cluster"))
    assert (result.returncode, result.stdout) == (0, "no findings in 0 objects of 2 files\n")
    assert result.stderr.endswith(
        "holds no Pod or workload; read: 2 Namespace, 8 Node, 5 RuntimeClass\n"
    )


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
