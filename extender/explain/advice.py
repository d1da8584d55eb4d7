"""The next step of somebody whose pod fits nowhere, by the reason that is nearest to fitting."""

from collections.abc import Mapping, Sequence
from typing import Final

from extender.explain.explanation import Explanation
from extender.model.names import text_of
from extender.model.reasons import Code, listed, shown

#: The smallest step first.
_STEPS: Final[Mapping[Code, str]] = {
    Code.NOT_FOUND: "correct spec.runtimeClassName, or create the class: kubectl get runtimeclasses"
    " lists the classes",
    Code.CONFLICT: "remove the entry from the pod's nodeSelector that contradicts its class",
    Code.UNSUPPORTED: "remove the unsupported feature from the pod, or name another class: `fit`"
    " lists the classes that could run it",
    Code.POD_TAINT: "add a toleration for the taints of {nodes} to spec.tolerations",
    Code.TAINT: "add a toleration for the taint of {nodes} to the pod, or to the class's"
    " scheduling.tolerations",
    Code.UNKNOWN_NODE: "wait some seconds: {nodes} has just joined the cluster",
    Code.CONDITION: "wait for the condition that the class requires of {nodes}, or repair the node",
    Code.RESOURCES: "lower the pod's requests, or add a node larger than {nodes}",
    Code.POD_SELECTOR: "correct the pod's nodeSelector or node affinity, which excludes {nodes}",
    Code.POD_AFFINITY: "correct the pod's node affinity, which excludes {nodes}",
    Code.POD_FEATURES: "remove the feature from the pod that the kubelets of {nodes} lack",
    Code.FEATURE: "remove the feature from the pod that the runtime on {nodes} lacks, or name"
    " another class: `fit` lists the classes that could run it",
    Code.NODE_FEATURE: "remove the feature from the pod that the kubelets of {nodes} lack, or"
    " upgrade these kubelets",
    Code.HANDLER: "install the class's runtime on {nodes}, or take the class's label off there",
    Code.OS: "name a class for the pod's operating system: `fit` lists the classes that could run"
    " the pod",
    Code.SELECTOR: "name another class, or label nodes that have the runtime: `fit` lists the"
    " classes that could run the pod",
}
_ORDER: Final = {code: rank for rank, code in enumerate(_STEPS)}

#: Nodes that a step names.
_NAMED: Final = 3


def next_steps(explanation: Explanation, uncordoned: Explanation, event: str) -> list[str]:
    """None for a pod that has a node, or would be bound now; the warnings are steps too.

    uncordoned: the explanation if no node were cordoned.
    """
    if explanation.pod.state.node_name or explanation.pod.state.gates:
        return []
    if explanation.feasible:
        fitting = _names(explanation.passing)
        return [f"wait for room, make room on {fitting}, or add a node like it"] if event else []
    if uncordoned.feasible:
        return [f"wait, or kubectl uncordon {shown(text_of(uncordoned.passing[0]))}"]
    # The warning prints the toleration itself.
    tolerations = any("spec.tolerations" in each for each in explanation.warnings)
    judged = (each for each in uncordoned.reasons if each.code in _ORDER)
    nearest = min(judged, key=lambda each: _ORDER[each.code], default=None)
    if nearest is None or (nearest.code is Code.POD_TAINT and tolerations):
        return []
    return [_STEPS[nearest.code].format(nodes=_names(nearest.nodes))]


def _names(nodes: Sequence[bytes]) -> str:
    return listed(list(map(text_of, nodes)), _NAMED)
