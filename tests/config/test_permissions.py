"""Pods and identities may do what they need, and no more."""

from pathlib import Path

import pytest

from extender import __version__
from tests.config.shipped import IMAGE, Json, containers, objects, pod_specs, the_object
from tests.processes import Server, running

_NAMES = [name for name, _ in pod_specs()]

_PODS = pytest.mark.parametrize(("name", "spec"), pod_specs(), ids=_NAMES)

_ROLES = (
    "control-plane/rbac.yaml",
    "second-scheduler/base/rbac.yaml",
    "remote/base/rbac.yaml",
)

_GUARDS = {
    "control-plane/requeue-guard.yaml": "runtimeclass-extender",
    "second-scheduler/base/requeue-guard.yaml": (
        "system:serviceaccount:runtimeclass-scheduler:runtimeclass-scheduler"
    ),
    "remote/base/requeue-guard.yaml": (
        "system:serviceaccount:runtimeclass-extender:runtimeclass-extender"
    ),
}


def _ours() -> list[tuple[str, Json]]:
    """Pods of this issue's folders; the webhook has tests of its own."""
    return [(name, spec) for name, spec in pod_specs() if not name.startswith("webhook/")]


def test_there_are_pods_to_look_at() -> None:
    assert len(pod_specs()) == 4


@_PODS
def test_a_pod_meets_the_restricted_standard(name: str, spec: Json) -> None:
    context = spec["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == 65532
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(spec):
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
    on_host = name == "control-plane/node/runtimeclass-extender.yaml"
    assert spec.get("hostNetwork", False) is on_host
    assert not {"hostPID", "hostIPC"}.intersection(spec)
    host_paths = [each for each in spec.get("volumes", ()) if "hostPath" in each]
    assert bool(host_paths) is on_host


@_PODS
def test_a_pod_is_probed_measured_and_important(name: str, spec: Json) -> None:
    static = name.startswith("control-plane/")
    expected = "system-node-critical" if static else "system-cluster-critical"
    assert spec["priorityClassName"] == expected
    for container in containers(spec):
        probes = {key: container[key] for key in ("livenessProbe", "readinessProbe")}
        assert probes["livenessProbe"]["httpGet"]["path"] == "/livez"
        assert probes["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        if container["name"] != "kube-scheduler":
            assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize(("name", "spec"), _ours(), ids=[name for name, _ in _ours()])
def test_the_service_listens_in_plain_on_loopback_only_but_for_probes(
    name: str, spec: Json
) -> None:
    (container,) = (each for each in containers(spec) if each["name"] == "extender")
    assert container["image"] == f"{IMAGE}:{__version__}"
    flags = dict(each.partition("=")[::2] for each in container["args"][1:])
    assert container["args"][0] == "serve"
    assert "--requeue-pods" in flags
    if name.startswith("remote/"):
        assert flags["--client-ca-file"]
        assert flags["--tls-cert-file"]
    else:
        assert flags["--bind"] == "127.0.0.1:8888"


@pytest.mark.parametrize("path", _ROLES)
def test_each_way_grants_the_same_minimum(path: str) -> None:
    role = the_object("ClusterRole", path)
    granted = {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {
        ("", "nodes"): {"list", "watch"},
        ("node.k8s.io", "runtimeclasses"): {"get", "list", "watch"},
        ("", "pods"): {"get", "list", "patch"},
        ("", "namespaces"): {"list"},
    }


@pytest.mark.parametrize(("path", "user"), _GUARDS.items())
def test_whoever_may_patch_pods_is_held_to_one_annotation(path: str, user: str) -> None:
    policy = the_object("ValidatingAdmissionPolicy", path)
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"].split() == ["request.userInfo.username", "==", f'"{user}"']
    assert policy["spec"]["failurePolicy"] == "Fail"
    others = [the_object("ValidatingAdmissionPolicy", each)["spec"] for each in _GUARDS]
    assert all(each["validations"] == policy["spec"]["validations"] for each in others)
    binding = the_object("ValidatingAdmissionPolicyBinding", path)
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }


def test_role_bindings_name_roles_and_accounts_that_are_there() -> None:
    roles = {each["metadata"]["name"] for _, each in objects("ClusterRole")}
    accounts = {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for _, each in objects("ServiceAccount")
    }
    for _, binding in objects("ClusterRoleBinding"):
        name = binding["roleRef"]["name"]
        assert name in roles or name.startswith("system:")
        for subject in binding["subjects"]:
            if subject["kind"] == "ServiceAccount":
                assert (subject["namespace"], subject["name"]) in accounts


def test_two_replicas_have_a_disruption_budget_and_are_spread() -> None:
    budgets = {
        each["metadata"]["namespace"]: each["spec"] for _, each in objects("PodDisruptionBudget")
    }
    for _, deployment in objects("Deployment"):
        spec = deployment["spec"]
        assert spec["replicas"] == 2
        budget = budgets[deployment["metadata"]["namespace"]]
        assert budget["minAvailable"] == 1
        labels = spec["template"]["metadata"]["labels"]
        selectors = [spec["selector"], budget["selector"]]
        selectors += [
            each["labelSelector"] for each in spec["template"]["spec"]["topologySpreadConstraints"]
        ]
        for selector in selectors:
            assert selector["matchLabels"].items() <= labels.items()


def test_a_server_needs_no_folder_it_could_write_to_but_shared_memory() -> None:
    """The root is read-only; gunicorn's sign of life is the only file that is open for writing."""
    manifests = "--manifests=scheduler-config/samples/cluster"
    with running("serve", "--bind=127.0.0.1:0", manifests) as server:
        server.wait_for_line("serving")
        written = _open_for_writing(server)
    assert all(each.startswith(("/dev/", "pipe:", "socket:")) for each in written), written


def _open_for_writing(server: Server) -> set[str]:
    found = set()
    own = server.process.pid
    children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    for pid in (own, *map(int, children)):
        for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
            flags = int(entry.read_text().split("flags:")[1].split()[0], 8)
            if flags & 0o3:
                found.add(str(Path(f"/proc/{pid}/fd/{entry.name}").readlink()))
    return {each for each in found if not each.startswith("anon_inode:")}
