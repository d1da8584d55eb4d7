"""Semantics §1 and §9 by the plain version, which has nothing in common with extender/."""

from extender.model.objects import Node, Pod, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.rules.node_checks import Policy
from tests import plain_extender
from tests.json_objects import class_json, node_json, pod_json, taint_json, toleration_json
from tests.plain_extender import PlainCluster, PlainExtender

HARD = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    return plain_extender.tolerates(toleration_json(toleration), taint_json(taint))


def reasons(
    pod: Pod, known: dict[str, RuntimeClass], nodes: list[Node | None], policy: Policy
) -> list[str | None]:
    """The reason text for each node asked (None: unknown to the cache), None where it passes."""
    cluster = PlainCluster({}, {name: class_json(each) for name, each in known.items()})
    plain = PlainExtender(cluster, policy.handler_check.value, policy.kubelet_check.value)
    return plain.reasons(pod_json(pod), [node_json(each) if each else None for each in nodes])
