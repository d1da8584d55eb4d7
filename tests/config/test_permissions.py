"""Pods and identities may do what they need, and no more."""

import contextlib
from pathlib import Path

import pytest

from extender import __version__
from tests.config.shipped import IMAGE, Json, containers, objects, pod_specs, the_object
from tests.processes import Server, running

_PODS = pytest.mark.parametrize(
    ("name", "spec"), [pytest.param(*each, id=each[0]) for each in pod_specs()]
)

_GUARDS = {
    "install/control-plane.yaml": "runtimeclass-extender",
    "install/second-scheduler.yaml": (
        "system:serviceaccount:runtimeclass-scheduler:runtimeclass-scheduler"
    ),
    "install/remote.yaml": ("system:serviceaccount:runtimeclass-extender:runtimeclass-extender"),
}


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


@_PODS
def test_the_service_listens_in_plain_on_loopback_only_but_for_probes(
    name: str, spec: Json
) -> None:
    if name == "install/webhook.yaml":
        return  # it has TLS, or does not start
    (container,) = (each for each in containers(spec) if each["name"] == "extender")
    assert container["image"] == f"{IMAGE}:{__version__}"
    flags = dict(each.partition("=")[::2] for each in container["args"][1:])
    assert container["args"][0] == "serve"
    assert "--requeue-pods" in flags
    # A listener that asks for no password and that others reach has no pages.
    assert name.startswith("control-plane/") or flags["--pages"] == "false"
    if name == "install/remote.yaml":
        assert flags["--client-ca-file"]
        assert flags["--tls-cert-file"]
    else:
        assert flags["--bind"] == "127.0.0.1:8888"


@pytest.mark.parametrize(("path", "user"), _GUARDS.items())
def test_whoever_may_patch_pods_is_held_to_one_annotation(path: str, user: str) -> None:
    policy = the_object("ValidatingAdmissionPolicy", path)
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"].split() == ["request.userInfo.username", "==", f'"{user}"']
    assert policy["spec"]["failurePolicy"] == "Fail"
    others = [the_object("ValidatingAdmissionPolicy", each)["spec"] for each in _GUARDS]
    assert all(each["validations"] == policy["spec"]["validations"] for each in others)
    binding = the_object("ValidatingAdmissionPolicyBinding", path)
    expected = {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    assert binding["spec"] == expected


def test_two_replicas_have_a_disruption_budget_and_are_spread() -> None:
    budgets = {
        each["metadata"]["namespace"]: each["spec"] for _, each in objects("PodDisruptionBudget")
    }
    for _, deployment in objects("Deployment"):
        spec = deployment["spec"]
        assert spec["replicas"] == 2
        budget = budgets[deployment["metadata"]["namespace"]]
        assert budget["minAvailable"] == 1
        assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        labels = spec["template"]["metadata"]["labels"]
        spread = spec["template"]["spec"]["topologySpreadConstraints"]
        selectors = [spec["selector"], budget["selector"], *(e["labelSelector"] for e in spread)]
        for selector in selectors:
            assert selector["matchLabels"].items() <= labels.items()


def test_a_server_needs_no_folder_it_could_write_to_but_shared_memory() -> None:
    """The root is read-only; gunicorn's heartbeat is the only file that is open for writing."""
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
            with contextlib.suppress(FileNotFoundError):  # it has been closed meanwhile
                flags = int(entry.read_text().split("flags:")[1].split()[0], 8)
                if flags & 0o3:
                    found.add(str(Path(f"/proc/{pid}/fd/{entry.name}").readlink()))
    return {each for each in found if not each.startswith("anon_inode:")}
