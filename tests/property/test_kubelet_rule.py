"""Law: what a kubelet admits passes, and what it rejects for a reason that is judged is refused.

The kubelet's side is written down here from its source, over objects as JSON:
lifecycle/predicate.go, lifecycle/handlers.go with features_windows.go, and
userns/userns_manager.go with userns_manager_windows.go, v1.36.2, with the defaults of the gates of
each version (pkg/features/kube_features.go). Nothing of it is taken from extender/.
"""

import json
import random
from dataclasses import dataclass
from typing import Any

import pytest

from extender.decoding.decoder import decode
from extender.decoding.nodes import NodeReader
from extender.decoding.pods import RawPod, pod_of
from extender.predicates.kubelet import KubeletCheck
from extender.predicates.node_checks import HandlerCheck, Policy
from extender.reasons import Code
from extender.shape import shape_of
from extender.snapshot import Shapes

Json = dict[str, Any]

#: For each seed so many pods meet so many nodes: 120,000 pairs in all, twice.
SEEDS = range(8)
PODS, NODES = 150, 100

OS_FIELD = "PodOSNotSupported"
OS_LABEL = "PodOSSelectorNodeLabelDoesNotMatch"
GROUPS = "SupplementalGroupsPolicyNotSupported"
USERS = "can't set spec.HostUsers"
RESOURCES = "PodLevelResourcesNotSupported"

#: How the texts of the refusals begin.
TEXTS = {
    "nodes don't match pod OS ": OS_FIELD,
    "nodes don't match pod label ": OS_LABEL,
    "nodes' kubelet lacks supplementalGroupsPolicy": GROUPS,
    "nodes' kubelet v": USERS,
    "Windows nodes lack pod-level resources": RESOURCES,
}


@dataclass(frozen=True)
class Kubelet:
    """A running kubelet: its runtime.GOOS, minor version, and whether a gate was turned on."""

    goos: str
    minor: int
    turned_on: bool
    node: Json

    @property
    def has_user_namespaces(self) -> bool:
        """UserNamespacesSupport: alpha since 1.25, off by default before 1.33."""
        return self.turned_on or self.minor >= 33

    @property
    def rejects_groups(self) -> bool:
        """SupplementalGroupsPolicy: alpha 1.31, beta 1.33; only beta rejects."""
        return self.minor >= 33

    @property
    def tells_system(self) -> bool:
        told = self.node["status"]["nodeInfo"]["operatingSystem"]
        return bool(told or self.node["metadata"]["labels"])

    @property
    def tells_all(self) -> bool:
        version = self.node["status"]["nodeInfo"]["kubeletVersion"]
        return self.tells_system and version == f"v1.{self.minor}.2"

    def rejections(self, pod: Json) -> set[str]:
        """Each reason for which this kubelet does not run the pod as it asks."""
        spec, found = pod["spec"], set()
        labels = pod["metadata"]["labels"]
        if "kubernetes.io/os" in labels and labels["kubernetes.io/os"] != self.goos:
            found.add(OS_LABEL)
        if spec.get("os") is not None and spec["os"].get("name", "") != self.goos:
            found.add(OS_FIELD)
        policy = (spec.get("securityContext") or {}).get("supplementalGroupsPolicy")
        features = self.node["status"].get("features") or {}
        has_groups = features.get("supplementalGroupsPolicy") or False
        if self.rejects_groups and policy == "Strict" and not has_groups:
            found.add(GROUPS)
        if self.goos == "windows" and is_set(spec.get("resources")):
            # Before 1.34 it takes the pod and gives it no such limits, which is not what it asks.
            found.add(RESOURCES)
        sets_users = self.goos != "windows" and spec.get("hostUsers") is not None
        if sets_users and not self.has_user_namespaces:
            # Its runtime has them; --handler-check judges those that have not.
            found.add(USERS)
        return found


def is_set(resources: Json | None) -> bool:
    """IsPodLevelResourcesSet of component-helpers/resource/helpers.go."""
    if resources is None:
        return False
    names = [*(resources.get("requests") or {}), *(resources.get("limits") or {})]
    return any(name in ("cpu", "memory") or name.startswith("hugepages-") for name in names)


def any_kubelet(dice: random.Random) -> Kubelet:
    goos = dice.choice(["linux", "linux", "windows"])
    minor = dice.randint(28, 37)
    version = dice.choice([f"v1.{minor}.2"] * 8 + ["", "devel"])
    info: Json = {"kubeletVersion": version, "operatingSystem": dice.choice([goos] * 3 + [""])}
    status: Json = {"nodeInfo": info}
    if dice.random() < 0.7:
        status["features"] = dice.choice(
            [{}, {"supplementalGroupsPolicy": True}, {"supplementalGroupsPolicy": False}]
        )
    labels = dice.choice([{"kubernetes.io/os": goos}] * 3 + [{}])
    turned_on = minor < 33 and dice.random() < 0.3
    node = {"metadata": {"name": "n", "labels": labels}, "status": status}
    return Kubelet(goos, minor, turned_on, node)


def any_pod(dice: random.Random) -> Json:
    spec: Json = {"containers": [{"name": "c", "image": "i"}]}
    labels: Json = dice.choice([{}, {"app": "a"}])
    if dice.random() < 0.5:
        spec["os"] = {"name": dice.choice(["linux", "windows"])}
    if dice.random() < 0.3:
        labels = {**labels, "kubernetes.io/os": dice.choice(["linux", "windows", "", "Linux"])}
    if dice.random() < 0.3:
        policy = dice.choice(["Strict", "Merge", None])
        spec["securityContext"] = {"supplementalGroupsPolicy": policy}
    if dice.random() < 0.3:
        spec["hostUsers"] = dice.choice([True, False, None])
    if dice.random() < 0.3:
        amounts = dice.choice([{}, {"cpu": "1"}, {"hugepages-2Mi": "4Mi"}, {"x.io/gpu": "1"}])
        spec["resources"] = dice.choice([{"requests": amounts}, {"limits": amounts}, None, {}])
    return {"metadata": {"name": "p", "labels": labels}, "spec": spec}


def refusals(pod: Json, kubelets: list[Kubelet], check: KubeletCheck) -> list[str | None]:
    """The rejection that each node's refusal stands for, None where the node passes."""
    reader = NodeReader()
    shapes = [shape_of(reader.read(json.dumps(each.node).encode()), ()) for each in kubelets]
    policy = Policy(HandlerCheck.OFF, kubelet_check=check)
    read = pod_of(decode(json.dumps(pod).encode(), RawPod))
    table = Shapes(tuple(shapes)).verdicts(read, None, policy)
    found: list[str | None] = []
    for code in table.codes[1:]:
        reason = table.reasons[code]
        if reason is None:
            found.append(None)
            continue
        (kind,) = (kind for start, kind in TEXTS.items() if reason.text.startswith(start))
        assert reason.code is (Code.OS if kind in (OS_FIELD, OS_LABEL) else Code.NODE_FEATURE)
        found.append(kind)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_auto_refuses_what_the_kubelet_rejects_and_nothing_else(seed: int) -> None:
    """But for hostUsers on 1.31 and 1.32, which the Node does not tell; see strict."""
    dice = random.Random(seed)
    kubelets = [any_kubelet(dice) for _ in range(NODES)]
    for pod in (any_pod(dice) for _ in range(PODS)):
        for kubelet, refusal in zip(
            kubelets, refusals(pod, kubelets, KubeletCheck.AUTO), strict=True
        ):
            rejections = kubelet.rejections(pod)
            assert refusal is None or refusal in rejections
            if kubelet.tells_all and rejections - {USERS}:
                assert refusal is not None


@pytest.mark.parametrize("seed", SEEDS)
def test_strict_refuses_too_what_kubelets_reject_by_default(seed: int) -> None:
    """hostUsers: false on kubelets 1.31 and 1.32, where nobody has turned the gate on."""
    dice = random.Random(1000 + seed)
    kubelets = [any_kubelet(dice) for _ in range(NODES)]
    by_default = [Kubelet(each.goos, each.minor, False, each.node) for each in kubelets]
    for pod in (any_pod(dice) for _ in range(PODS)):
        for kubelet, refusal in zip(
            by_default, refusals(pod, by_default, KubeletCheck.STRICT), strict=True
        ):
            rejections = kubelet.rejections(pod)
            # Strict takes a node that tells no system for one of Linux.
            is_guess = refusal == USERS and not kubelet.tells_system
            assert refusal is None or refusal in rejections or is_guess
            judged = pod["spec"].get("hostUsers") is False and kubelet.minor in (31, 32)
            if kubelet.tells_all and (rejections if judged else rejections - {USERS}):
                assert refusal is not None


def test_off_refuses_nothing() -> None:
    dice = random.Random(7)
    kubelets = [any_kubelet(dice) for _ in range(NODES)]
    for pod in (any_pod(dice) for _ in range(20)):
        assert refusals(pod, kubelets, KubeletCheck.OFF) == [None] * NODES
