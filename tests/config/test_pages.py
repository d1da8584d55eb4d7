"""What the pages tell an operator to do fits the files they are about."""

import json
import re
import shutil
import subprocess
from typing import Any, Final

import pytest
import yaml

from tests.config.shipped import (
    FOLDER,
    containers,
    documents,
    objects,
    pod_specs,
    the_object,
)
from tests.json_patch import apply
from tests.processes import ROOT

_BLOCK: Final = re.compile(r"^```(?:\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _page(name: str) -> str:
    return (ROOT / name).read_text()


def _section(name: str, heading: str) -> str:
    """From a heading to the next one of its level, with what stands under it."""
    level = heading.split()[0]
    after = _page(name).split(f"\n{heading}\n", 1)[1]
    return re.split(rf"^{level} ", after, maxsplit=1, flags=re.MULTILINE)[0]


def _blocks(text: str) -> list[str]:
    return _BLOCK.findall(text)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("page", "heading"),
    [
        ("docs/webhook.md", "## Installing it"),
        ("docs/install-control-plane.md", "## Instead of the admission plugin"),
    ],
)
def test_a_webhook_is_proved_with_a_class_that_exists(page: str, heading: str) -> None:
    """One that does not exist is refused by the plugin, also where no webhook runs."""
    section = _section(page, heading)
    assert not any("no-such-class" in each for each in _blocks(section))
    said = _in_one_line(section)
    assert "a class that exists" in said
    assert "class that does not exist proves nothing" in said
    assert "`failed calling webhook` means that nobody answers" in said


def test_the_sizes_are_those_of_the_shipped_files() -> None:
    sizes = _in_one_line(_section("scheduler-config/README.md", "## Sizes"))
    for name, spec in pod_specs():
        for each in containers(spec):
            if "runtimeclass-extender" not in each["image"]:
                continue
            resources = each["resources"]
            for memory in (resources["requests"]["memory"], resources["limits"]["memory"]):
                assert f"{memory.removesuffix('Mi')} MiB" in sizes, name
    assert "`make bench-memory`" in sizes


def test_removal_removes_only_what_the_installation_has_put_there() -> None:
    removal = _section("docs/upgrade-and-removal.md", "## Removal")
    assert "rm -r" not in removal
    for said in ("extraArgs", "extraVolumes", "kubeadm-config", "rmdir --ignore-fail-on-non-empty"):
        assert said in removal


@pytest.mark.parametrize(
    "left",
    [
        "`runtimeclass-viewer`",
        "secret runtimeclass-extender-client",
        "`runtimeclass-extender/scheduler`",
        "`/etc/runtimeclass-extender`",
    ],
)
def test_what_a_removal_leaves_behind_is_named(left: str) -> None:
    page = _page("docs/upgrade-and-removal.md")
    assert left in page.split("What stays behind", 1)[1]


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"namespace": "ns", "name": name}, "spec": spec}


@pytest.mark.skipif(not shutil.which("jq"), reason="no jq")
def test_the_search_for_unmerged_pods_finds_those_with_a_selector_of_their_own_too() -> None:
    section = _section("docs/upgrade-and-removal.md", "## From beside the plugin to instead of it")
    (program,) = (
        each.split("jq -r '", 1)[1].rsplit("'", 1)[0] for each in _blocks(section) if "jq" in each
    )
    runtime_class = {
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "scheduling": {"nodeSelector": {"kata": "true"}},
    }
    bare = {"kind": "RuntimeClass", "metadata": {"name": "runc"}}
    items = [
        runtime_class,
        bare,
        _pod("unmerged", runtimeClassName="kata"),
        _pod("own", runtimeClassName="kata", nodeSelector={"disk": "ssd"}),
        _pod("merged", runtimeClassName="kata", nodeSelector={"disk": "ssd", "kata": "true"}),
        _pod("bound", runtimeClassName="kata", nodeName="node-1"),
        _pod("plain"),
        _pod("nothing-to-merge", runtimeClassName="runc"),
    ]
    found = subprocess.run(
        ["jq", "-r", program],
        input=json.dumps({"items": items}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout.split() == ["ns/unmerged", "ns/own"], found.stderr


def test_the_remote_kustomization_names_image_and_range_before_anything_is_applied() -> None:
    """Its patch meets the shipped NetworkPolicy, which itself is left as it is."""
    page = _page("docs/install-remote.md")
    blocks = _blocks(page)
    (number,) = (at for at, each in enumerate(blocks) if "my-cluster/kustomization.yaml" in each)
    assert not any("kubectl apply" in each for each in blocks[:number])
    assert "-k scheduler-config/" not in page
    text = blocks[number].split("<<EOF\n", 1)[1].split("EOF\n", 1)[0]
    kustomization = yaml.safe_load(text)
    (resource,) = kustomization["resources"]
    assert (ROOT / "my-cluster" / ".." / "scheduler-config").resolve() == FOLDER
    assert (FOLDER / resource.removeprefix("../scheduler-config/")).is_dir()
    (patch,) = kustomization["patches"]
    policy = the_object("NetworkPolicy", "remote/base/network-policy.yaml")
    assert patch["target"] == {"kind": policy["kind"], "name": policy["metadata"]["name"]}
    (operation,) = yaml.safe_load(patch["patch"])
    changed = apply(policy, [{**operation, "value": "10.0.0.0/8"}])
    blocks_of_addresses = [
        each["ipBlock"] for each in changed["spec"]["ingress"][0]["from"] if "ipBlock" in each
    ]
    assert blocks_of_addresses == [{"cidr": "10.0.0.0/8"}]


def test_the_remote_page_gets_the_client_s_files_out_of_cert_manager_s_secret() -> None:
    certificates = documents(FOLDER / "remote" / "cert-manager" / "certificates.yaml")
    names = {each["spec"].get("secretName") for each in certificates}
    assert "runtimeclass-extender-client" in names
    page = _page("docs/install-remote.md")
    (block,) = (each for each in _blocks(page) if "base64decode" in each)
    assert "get secret runtimeclass-extender-client" in block
    assert "umask 077" in block
    for file in ("ca.crt", "tls.crt", "tls.key"):
        assert file in block
    needed = _in_one_line(page.split("You need:", 1)[1].split("\n## ", 1)[0])
    assert "openssl" in needed
    assert "cert-manager" in needed
    assert "CRDs" in needed


def test_the_first_try_of_the_second_scheduler_names_its_namespace_and_shows_the_event() -> None:
    section = _section("docs/install-second-scheduler.md", "## 2. See it work")
    blocks = _blocks(section)
    for line in blocks[0].splitlines():
        if line.startswith("kubectl ") and ("events" in line or "delete pod" in line):
            assert line.startswith("kubectl -n default ")
    objects = list(yaml.safe_load_all(blocks[0].split("<<EOF\n", 1)[1].split("EOF\n", 1)[0]))
    assert objects[1]["metadata"]["namespace"] == "default"
    assert "FailedScheduling" in blocks[1]


def test_an_installer_starts_nothing_on_the_port_of_the_static_pod() -> None:
    page = _page("docs/install-control-plane.md")
    needed = _in_one_line(page.split("You need:", 1)[1].split("\n## ", 1)[0])
    for said in ("`make setup`", "Python 3.11", "package index", "do not run `make serve`"):
        assert said in needed
    steps = subprocess.run(
        ["make", "--dry-run", "setup"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert " serve " not in steps.stdout


def test_the_control_plane_page_says_which_findings_should_stop_an_installer() -> None:
    step = _in_one_line(
        _section(
            "docs/install-control-plane.md", "## 4. On one node after the other: kube-scheduler"
        )
    )
    assert "An `error` should stop you" in step
    assert "`self-set-label`" in step


@pytest.mark.parametrize(
    ("rejection", "judged"),
    [
        ("PodOSNotSupported", "yes, code `os`"),
        ("PodOSSelectorNodeLabelDoesNotMatch", "yes, code `os`"),
        ("SupplementalGroupsPolicyNotSupported", "yes, code `node_feature`"),
        ("PodLevelResourcesNotSupported`, on Windows", "code `node_feature`"),
        ("UserNamespacesSupport", "`strict`"),
        ("PodFeatureUnsupported", "code `pod_features`"),
        ("SysctlForbidden", "no: "),
        ("`AppArmor`", "no: "),
        ("TopologyAffinityError", "no: "),
    ],
)
def test_each_rejection_of_a_kubelet_has_a_row_that_says_whether_it_is_judged(
    rejection: str, judged: str
) -> None:
    rows = [row for row in _page("docs/kubelet.md").splitlines() if row.startswith("|")]
    (row,) = (row for row in rows if rejection in row.split("|")[1])
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == 5
    assert judged in cells[-1]


def test_each_version_of_the_kubelet_since_1_28_has_a_row() -> None:
    table = _section("docs/kubelet.md", "## What kubelets report, by version")
    told = re.findall(r"^\| (1\.[0-9., ]+) \|", table, re.MULTILINE)
    assert ", ".join(told) == ", ".join(f"1.{minor}" for minor in range(28, 37))


def test_the_port_that_is_forwarded_to_the_pages_is_one_of_the_pod() -> None:
    forwarded = re.findall(
        r"kubectl -n (\S+) port-forward (\w+)/(\S+?)(?:-NODE)? (\d+)", _page("docs/pages.md")
    )
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


_OURS: Final = re.compile(r"^(?:\$ )?(?:runtimeclass-extender|kubectl runtimeclass) ", re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    sorted(
        path.name
        for path in (ROOT / "docs").glob("*.md")
        if any(_OURS.search(block) for block in _blocks(path.read_text()))
    ),
)
def test_a_page_with_commands_of_ours_says_how_to_get_them(page: str) -> None:
    text = _page(f"docs/{page}")
    assert any(said in text for said in ("make setup", "pipx install", "](commands.md)"))


@pytest.mark.parametrize(
    "page", ["install-control-plane", "install-second-scheduler", "install-remote", "webhook"]
)
def test_a_page_that_installs_something_says_where_its_commands_are_typed(page: str) -> None:
    beginning, _, _ = _in_one_line(_page(f"docs/{page}.md")).partition(" ## ")
    assert "a checkout of this repository" in beginning
