"""What kubelets of several versions reject, on Nodes as they report themselves."""

import json
from typing import Any

import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.decoding.nodes import NodeReader
from extender.http.app import create_app
from extender.http.health import Health
from extender.http.routing import Threads
from extender.http.service import Service
from extender.metrics import Metrics
from extender.predicates.kubelet import KubeletCheck
from extender.predicates.node_checks import HandlerCheck, Policy
from extender.refused_pods import RefusedPods
from tests.asking import Client

Json = dict[str, Any]

VERSIONS = {
    "1.28": "v1.28.15",
    "1.31": "v1.31.14",
    "1.32": "v1.32.9-gke.1548000",
    "1.33": "v1.33.5+k3s1",
    "1.36": "v1.36.2",
}


def linux(version: str, *, users: bool = True, strict: bool | None = True) -> Json:
    """A Linux node with containerd 2.1; handlers are reported since 1.31, features since 1.32."""
    status: Json = {
        "nodeInfo": {
            "kernelVersion": "6.12.0",
            "osImage": "Debian GNU/Linux 12 (bookworm)",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": version,
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }
    minor = int(version.split(".")[1])
    if minor >= 31:
        status["runtimeHandlers"] = [
            {"name": name, "features": {"recursiveReadOnlyMounts": True, "userNamespaces": users}}
            for name in ("", "runc")
        ]
        if strict is not None:
            status["features"] = {"supplementalGroupsPolicy": strict}
    return {"metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux"}}, "status": status}


def windows(version: str) -> Json:
    """A Windows node: no handler has features, and the runtime none of groups."""
    status: Json = {
        "nodeInfo": {
            "kernelVersion": "10.0.20348.2762",
            "osImage": "Windows Server 2022 Datacenter",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": version,
            "operatingSystem": "windows",
            "architecture": "amd64",
        },
        "features": {"supplementalGroupsPolicy": False},
    }
    if int(version.split(".")[1]) >= 31:
        status["runtimeHandlers"] = [
            {"name": name, "features": {"recursiveReadOnlyMounts": False, "userNamespaces": False}}
            for name in ("", "runhcs-wcow-process")
        ]
    return {"metadata": {"name": "n", "labels": {"kubernetes.io/os": "windows"}}, "status": status}


def reason(pod: Json, node: Json, policy: Policy | None = None) -> str | None:
    """Why the filter refuses the node, in both modes the same; None where it passes."""
    store = SnapshotStore()
    store.replace_all([NodeReader().read(json.dumps(node).encode())], [])
    health, refused = Health(lambda: store.snapshot), RefusedPods(lambda: 0.0)
    service = Service(store, Metrics(), health, refused, policy or Policy())
    client = Client(create_app(service, Threads.of(1)))
    told = []
    for nodes in (
        {"Nodes": None, "NodeNames": ["n"]},
        {"Nodes": {"metadata": {}, "items": [node]}, "NodeNames": None},
    ):
        response = client.post("/filter", json.dumps({"Pod": pod, **nodes}))
        assert response.status_code == 200, response.text
        answer = response.json
        assert answer["Error"] == ""
        told.append(answer["FailedAndUnresolvableNodes"].get("n"))
    assert told[0] == told[1]
    text: str | None = told[0]
    return text


STRICT = Policy(kubelet_check=KubeletCheck.STRICT)
USERS: Json = {"spec": {"hostUsers": False}}
NO_FEATURE = "nodes' default runtime handler lacks user namespaces"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("policy", [Policy(), STRICT], ids=["auto", "strict"])
def test_the_windows_kubelet_ignores_host_users(version: str, policy: Policy) -> None:
    """A pod with hostUsers: false passes, whatever its runtime has no user namespaces for."""
    assert reason(USERS, windows(VERSIONS[version]), policy) is None


@pytest.mark.parametrize(
    ("version", "policy", "expected"),
    [
        pytest.param("1.28", Policy(), NO_FEATURE, id="nothing is reported"),
        pytest.param("1.31", Policy(), None, id="auto passes where nobody can tell, 1.31"),
        pytest.param("1.32", Policy(), None, id="auto passes where nobody can tell, 1.32"),
        pytest.param("1.33", Policy(), None, id="on by default since 1.33"),
        pytest.param(
            "1.31", STRICT, "nodes' kubelet v1.31 lacks user namespaces", id="strict, 1.31"
        ),
        pytest.param(
            "1.32", STRICT, "nodes' kubelet v1.32 lacks user namespaces", id="strict, 1.32"
        ),
        pytest.param("1.33", STRICT, None, id="strict, 1.33"),
        pytest.param("1.36", STRICT, None, id="strict, 1.36"),
    ],
)
def test_kubelets_with_the_gate_off_by_default_are_refused_by_strict(
    version: str, policy: Policy, expected: str | None
) -> None:
    assert reason(USERS, linux(VERSIONS[version]), policy) == expected


@pytest.mark.parametrize("version", ["1.31", "1.32"])
def test_what_the_runtime_lacks_is_told_before_what_the_kubelet_may_lack(version: str) -> None:
    assert reason(USERS, linux(VERSIONS[version], users=False), STRICT) == NO_FEATURE


@pytest.mark.parametrize("version", VERSIONS)
def test_host_users_true_is_refused_nowhere(version: str) -> None:
    """Strict is about hostUsers: false alone."""
    assert reason({"spec": {"hostUsers": True}}, linux(VERSIONS[version]), STRICT) is None


OS = [
    pytest.param({"spec": {"os": {"name": "%s"}}}, 'nodes don\'t match pod OS "%s"', id="field"),
    pytest.param(
        {"metadata": {"labels": {"kubernetes.io/os": "%s"}}},
        "nodes don't match pod label kubernetes.io/os=%s",
        id="label",
    ),
]


def filled(template: Any, system: str) -> Any:
    return json.loads(json.dumps(template).replace("%s", system))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("template", "text"), OS)
def test_a_pod_runs_on_its_own_operating_system_only(
    template: Json, text: str, version: str
) -> None:
    on_linux, on_windows = linux(VERSIONS[version]), windows(VERSIONS[version])
    assert reason(filled(template, "linux"), on_linux) is None
    assert reason(filled(template, "windows"), on_windows) is None
    assert reason(filled(template, "windows"), on_linux) == text % "windows"
    assert reason(filled(template, "linux"), on_windows) == text % "linux"


@pytest.mark.parametrize(("template", "text"), OS)
def test_the_node_s_label_counts_where_the_kubelet_tells_nothing(template: Json, text: str) -> None:
    """A node that tells nothing at all passes; what the kubelet tells wins over the label."""
    node = windows("v1.36.2")
    node["status"]["nodeInfo"]["operatingSystem"] = ""
    assert reason(filled(template, "windows"), node) is None
    assert reason(filled(template, "linux"), node) == text % "linux"
    node["metadata"]["labels"]["kubernetes.io/os"] = ""
    assert reason(filled(template, "linux"), node) is None
    del node["metadata"]["labels"]["kubernetes.io/os"]
    assert reason(filled(template, "linux"), node) is None
    node = linux("v1.36.2")
    node["metadata"]["labels"]["kubernetes.io/os"] = "windows"
    assert reason(filled(template, "linux"), node) is None


def test_a_node_selector_of_the_os_is_kube_scheduler_s_business() -> None:
    pod = {"spec": {"nodeSelector": {"kubernetes.io/os": "windows"}}}
    assert reason(pod, linux("v1.36.2")) is None


GROUPS: Json = {"spec": {"securityContext": {"supplementalGroupsPolicy": "Strict"}}}
NO_GROUPS = "nodes' kubelet lacks supplementalGroupsPolicy Strict"


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(linux("v1.36.2"), None, id="reported"),
        pytest.param(linux("v1.36.2", strict=False), NO_GROUPS, id="reported as lacking"),
        pytest.param(linux("v1.33.0", strict=None), NO_GROUPS, id="not reported, 1.33"),
        pytest.param(linux("v1.32.9", strict=False), None, id="1.32 merges in silence"),
        pytest.param(linux("v1.31.14", strict=None), None, id="1.31 merges in silence"),
        pytest.param(linux("v1.28.15"), None, id="1.28 does not know the field"),
        pytest.param(windows("v1.36.2"), NO_GROUPS, id="Windows"),
        pytest.param(
            {"metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": "main"}}},
            None,
            id="unreadable version",
        ),
        pytest.param({"metadata": {"name": "n"}}, None, id="nothing told"),
    ],
)
def test_strict_groups_are_rejected_since_1_33(node: Json, expected: str | None) -> None:
    assert reason(GROUPS, node) == expected
    merge = {"spec": {"securityContext": {"supplementalGroupsPolicy": "Merge"}}}
    assert reason(merge, node) is None


NO_RESOURCES = "Windows nodes lack pod-level resources"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"requests": {"cpu": "1"}}, NO_RESOURCES, id="requests"),
        pytest.param({"limits": {"memory": "1Gi"}}, NO_RESOURCES, id="limits"),
        pytest.param({"limits": {"hugepages-2Mi": "2Mi"}}, NO_RESOURCES, id="huge pages"),
        pytest.param({"limits": {"example.com/gpu": "1"}}, None, id="nothing of a whole pod"),
        pytest.param({"requests": {}, "limits": None}, None, id="empty"),
        pytest.param({"claims": [{"name": "c"}]}, None, id="claims"),
    ],
)
def test_resources_of_a_whole_pod_are_rejected_on_windows(
    resources: Json, expected: str | None
) -> None:
    """Names decide as in IsPodLevelResourcesSet (component-helpers/resource, v1.36.2)."""
    pod = {"spec": {"resources": resources}}
    assert reason(pod, windows("v1.36.2")) == expected
    assert reason(pod, linux("v1.36.2")) is None


EVERYTHING: Json = {
    "metadata": {"labels": {"kubernetes.io/os": "plan9"}},
    "spec": {
        "os": {"name": "plan9"},
        "hostUsers": False,
        "securityContext": {"supplementalGroupsPolicy": "Strict"},
        "resources": {"limits": {"cpu": "1"}},
    },
}


def without(pod: Json, *path: str) -> Json:
    """A copy without a field."""
    copy: Json = json.loads(json.dumps(pod))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return copy


def test_the_first_check_that_fails_is_the_reason() -> None:
    """Handler's features, OS field, OS label, groups, resources: semantics §9."""
    node, pod = linux("v1.36.2", users=False, strict=False), EVERYTHING
    assert reason(pod, node) == NO_FEATURE
    pod = without(pod, "spec", "hostUsers")
    assert reason(pod, node) == 'nodes don\'t match pod OS "plan9"'
    pod = without(pod, "spec", "os")
    assert reason(pod, node) == "nodes don't match pod label kubernetes.io/os=plan9"
    pod = without(pod, "metadata")
    assert reason(pod, node) == NO_GROUPS
    assert reason(pod, windows("v1.36.2")) == NO_GROUPS
    pod = without(pod, "spec", "securityContext")
    assert reason(pod, windows("v1.36.2")) == NO_RESOURCES
    assert reason(pod, node) is None


def test_each_flag_turns_its_own_checks_off() -> None:
    node = linux("v1.36.2", users=False, strict=False)
    both_off = Policy(HandlerCheck.OFF, kubelet_check=KubeletCheck.OFF)
    assert reason(EVERYTHING, node, both_off) is None
    assert reason(EVERYTHING, node, Policy(kubelet_check=KubeletCheck.OFF)) == NO_FEATURE
    handlers_off = Policy(HandlerCheck.OFF)
    assert reason(EVERYTHING, node, handlers_off) == 'nodes don\'t match pod OS "plan9"'


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        ({"spec": {"os": "windows"}}, "Pod.spec.os"),
        ({"spec": {"os": {"name": 1}}}, "Pod.spec.os.name"),
        ({"spec": {"resources": {"limits": []}}}, "Pod.spec.resources.limits"),
        ({"spec": {"securityContext": {"supplementalGroupsPolicy": True}}}, "Policy"),
    ],
)
def test_a_wrong_type_is_a_400_that_names_the_place(pod: Json, place: str) -> None:
    store = SnapshotStore()
    service = Service(
        store, Metrics(), Health(lambda: store.snapshot), RefusedPods(lambda: 0.0), Policy()
    )
    client = Client(create_app(service, Threads.of(1)))
    response = client.post("/filter", json.dumps({"Pod": pod, "NodeNames": ["n"]}))
    assert response.status_code == 400
    assert place in response.json["error"]


def test_the_name_of_a_system_is_told_in_part_when_it_is_long() -> None:
    """A pod's author can't have a megabyte repeated for each node, nor move a cursor."""
    pod = {"spec": {"os": {"name": "x" * 10**6}}, "metadata": {"labels": {}}}
    text = reason(pod, linux("v1.36.2"))
    assert text is not None
    assert len(text) < 300
    text = reason({"metadata": {"labels": {"kubernetes.io/os": "\x1b[2J"}}}, linux("v1.36.2"))
    assert text is not None
    assert "\x1b" not in text
