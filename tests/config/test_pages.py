"""What the pages have an operator write and type fits the files they are about."""

import ast
import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from extender.cli.commands import COMMANDS
from extender.kubernetes.class_annotations import FEATURES, ISOLATION_LEVELS, rules_of
from loadtest import live
from release.manifests import FILES
from tests.config.chart import named, needs_helm, objects_of_chart, text
from tests.config.pages import page, section
from tests.config.shipped import FOLDER, IMAGE, INSTALL, containers, documents, objects, pod_specs
from tests.processes import ROOT, called, run

_HELM: Final = re.compile(r"^helm (?:upgrade|install)(?:.*\\\n)*.*", re.MULTILINE)


@needs_helm
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(found, id=f"{file.stem} {number}")
        for file in sorted([*(ROOT / "docs").glob("*.md"), FOLDER / "README.md"])
        for number, found in enumerate(_HELM.findall(file.read_text()))
    ],
)
def test_the_values_of_a_page_are_those_of_the_chart(command: str) -> None:
    """And their namespace is that of the certificates and the one-file installs."""
    words = shlex.split(command.replace("\\\n", " "))
    values = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    flags = [word for word in words if word.startswith("--")]
    known = {"--install", "--namespace", "--create-namespace", "--set", "--reuse-values"}
    assert set(flags) <= known
    if "--reuse-values" in flags:
        values.append("webhook.enabled=true")
    printed = text(*values)
    assert (f"{IMAGE}:" in printed) is not any("image.repository" in each for each in values) or (
        "monitoring.rules=true" in command
    )
    assert words[words.index("--namespace") + 1] in {release for release, _ in FILES.values()}


def test_the_image_of_a_file_is_replaced_by_the_command_of_the_page() -> None:
    readme = (FOLDER / "README.md").read_text()
    (old, new), *_ = re.findall(r"sed 's\|(\S+)\|(\S+)\|' install/", readme)
    for file in INSTALL.glob("*.yaml"):
        assert IMAGE not in file.read_text().replace(old, new)


@needs_helm
def test_the_client_files_are_mounted_where_the_configuration_looks_for_them() -> None:
    (patch,) = re.findall(r" --patch '\n(.*?)'\n```", page("install-remote"), re.DOTALL)
    spec = yaml.safe_load(patch)["spec"]["template"]["spec"]
    (container,), (volume,) = spec["containers"], spec["volumes"]
    (mount,) = container["volumeMounts"]
    assert (mount["name"], mount["readOnly"]) == (volume["name"], True)
    (configuration,) = documents(FOLDER / "remote" / "kube-scheduler" / "beside-plugin.yaml")
    tls = configuration["extenders"][0]["tlsConfig"]
    files = {Path(tls[key]) for key in ("caFile", "certFile", "keyFile")}
    assert {file.parent for file in files} == {Path(mount["mountPath"])}
    secret = volume["secret"]["secretName"]
    assert f"get secret {secret} " in page("install-remote")
    made = named("Secret", secret, objects_of_chart("remote.enabled=true"))
    assert {file.name for file in files} == made["data"].keys()


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"namespace": "ns", "name": name}, "spec": spec}


@pytest.mark.skipif(not shutil.which("jq"), reason="no jq")
def test_the_search_for_unmerged_pods_finds_those_with_a_selector_of_their_own_too() -> None:
    steps = section("upgrade-and-removal", "## From beside the plugin to instead of it")
    (program,) = re.findall(r"jq -r '(.*?)'\n", steps, re.DOTALL)
    scheduling = {"nodeSelector": {"kata": "true"}}
    items = [
        {"kind": "RuntimeClass", "metadata": {"name": "kata"}, "scheduling": scheduling},
        {"kind": "RuntimeClass", "metadata": {"name": "runc"}},
        _pod("unmerged", runtimeClassName="kata"),
        _pod("own", runtimeClassName="kata", nodeSelector={"disk": "ssd"}),
        _pod("merged", runtimeClassName="kata", nodeSelector={"disk": "ssd", "kata": "true"}),
        _pod("bound", runtimeClassName="kata", nodeName="node-1"),
        _pod("plain"),
        _pod("nothing-to-merge", runtimeClassName="runc"),
    ]
    found = called("jq", "-r", program, stdin=json.dumps({"items": items}))
    assert found.stdout.split() == ["ns/unmerged", "ns/own"], found.stderr


def test_the_port_that_is_forwarded_to_the_pages_is_one_of_the_pod() -> None:
    command = r"kubectl -n (\S+) port-forward (\w+)/(\S+?)(?:-NODE)? (\d+)"
    forwarded = re.findall(command, page("pages"))
    assert len(forwarded) == 3
    for namespace, kind, name, port in forwarded:
        (document,) = (
            each
            for _, each in objects(kind.capitalize())
            if (each["metadata"]["namespace"], each["metadata"]["name"]) == (namespace, name)
        )
        spec = document["spec"]["template"]["spec"] if kind == "deployment" else document["spec"]
        flags = [flag for each in containers(spec) for flag in each.get("args", ())]
        listens = [each for each in flags if re.fullmatch(rf"--(ops-)?bind=\S*:{port}", each)]
        assert listens, (name, port)


def test_the_figures_of_sizing_are_of_all_sizes_with_the_flags_of_the_manifests() -> None:
    published = page("sizing").partition("<!-- live -->")[2].partition("<!-- end live -->")[0]
    for nodes in live.SIZES:
        assert len(re.findall(rf"^\| +{nodes:,} \|", published, re.MULTILINE)) == 3, nodes
    for _, spec in pod_specs():
        for each in containers(spec):
            if each.get("args", [""])[0] == "serve":
                assert set(live.FLAGS) <= set(each["args"])


_PROFILE: Final = re.compile(r"^\| (?:`([a-z-]+)`)? ?\| (`.*`) \| .+ \|$", re.MULTILINE)


def test_each_word_of_a_profile_is_a_sound_annotation_and_has_a_source() -> None:
    told: dict[str, set[str]] = {}
    name = ""
    for new, words in _PROFILE.findall(section("runtimes", "### Profiles")):
        name = new or name
        told.setdefault(name, set()).update(re.findall(r"`([^`]+)`", words))
    said = {}
    for each in documents(FOLDER / "samples" / "runtimes" / "runtimeclasses.yaml"):
        rules = rules_of(each["metadata"]["annotations"])
        assert rules is not None
        assert not rules.faults
        assert rules.isolation in ISOLATION_LEVELS
        said[each["metadata"]["name"]] = set(rules.unsupported)
    assert said == told
    assert not [word for word in FEATURES if f"`{word}`" not in page("runtimes")]


def test_what_a_service_says_that_does_not_start_is_in_the_page() -> None:
    assert run("serve", "--kubeconfig", "/nonexistent").stderr in page("troubleshooting")


def test_findings_flags_and_metrics_that_help_in_trouble_are_ours() -> None:
    text = page("troubleshooting")
    findings = set(re.findall(r"\(?`check[^`]*`: `([a-z-]+)`", text))
    assert len(findings) > 8
    assert not [each for each in findings if f"`{each}`" not in page("check")]
    flags = {flag.opts[-1] for each in COMMANDS.values() for flag in each.load().flags()}
    others = {"--config", "--patches", "--for", "--as"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= flags | others
    metrics = re.findall(r"runtimeclass_extender_([a-z_]+)", text)
    monitoring = page("monitoring")
    assert not [each for each in metrics if f"`{each.removesuffix('_bucket')}" not in monitoring]


def test_a_line_of_python_in_a_page_runs() -> None:
    pages = [file.read_text() for file in sorted((ROOT / "docs").glob("*.md"))]
    lines = {line for text in pages for line in re.findall(r"python -c '([^']+)'", text)}
    assert lines
    for line in lines:
        done = called(sys.executable, "-c", line)
        assert done.returncode == 0, done.stderr


#: The calls that make a finding.
FINDERS: Final = ("Finding", "FileFinding", "error", "warning", "advice")


def test_every_finding_is_documented() -> None:
    text = page("check") + page("before") + page("runtimes")
    codes = {
        argument.value
        for path in (ROOT / "extender").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in FINDERS
        for argument in call.args[:3]
        if isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
        and re.fullmatch(r"[a-z]+(?:[-_][a-z]+)*", argument.value)
    }
    assert len(codes) > 30
    assert sorted(code for code in codes if f"`{code}`" not in text) == []
