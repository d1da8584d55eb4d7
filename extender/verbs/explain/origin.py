"""Where a requirement comes from: the class, the pod, or both, once admission has merged them.

plugin/pkg/admission/runtimeclass copies a class's nodeSelector and tolerations into the pod
(v1.36.2). An entry that both have counts as `Both`, regardless of who wrote it first.
"""

from enum import StrEnum
from typing import Final

from extender.objects import Pod, RuntimeClass, Toleration
from extender.predicates.node_checks import Policy, is_condition_taint, tolerations_together
from extender.predicates.node_selector import missing_labels
from extender.predicates.shape_parts import requirements_in
from extender.predicates.tolerations import find_untolerated_taint
from extender.reasons import Code
from extender.shape import Shape


class Origin(StrEnum):
    RUNTIME_CLASS = "RuntimeClass"
    POD = "Pod"
    BOTH = "Both"
    NODE = "Node"


_CLASS_ALONE: Final = frozenset(
    {Code.HANDLER, Code.NOT_FOUND, Code.CONFLICT, Code.CONDITION, Code.UNSUPPORTED}
)

#: The codes of requirements that only the pod has.
_POD_ALONE: Final = frozenset({Code.FEATURE, Code.OS, Code.NODE_FEATURE})


def normal(toleration: Toleration) -> Toleration:
    """The toleration with its default operator written out, and without seconds."""
    key, operator, value, effect, _ = toleration
    return Toleration(key, operator or "Equal", value, effect)


def is_merged(pod: Pod, runtime_class: RuntimeClass) -> bool:
    """Whether the pod has everything that its class would merge into it, and that is something."""
    own = set(map(normal, pod.tolerations))
    given = {normal(each) for each in runtime_class.tolerations}
    return (
        bool(runtime_class.node_selector or given)
        and given <= own
        and not missing_labels(runtime_class.node_selector, pod.node_selector)
    )


def carries_terms(pod: Pod, runtime_class: RuntimeClass) -> bool:
    """Whether each term of the pod's required node affinity contains one of the class's."""
    if runtime_class.rules is None or not runtime_class.rules.terms or not pod.node_affinity:
        return False
    of_class = [frozenset(requirements_in(each)) for each in runtime_class.rules.terms]
    return all(
        any(one <= frozenset(requirements_in(each)) for one in of_class if one)
        for each in pod.node_affinity
    )


def _is_state(pod: Pod, runtime_class: RuntimeClass, shape: Shape, policy: Policy) -> bool:
    """Whether the taint that refuses the nodes is a temporary state, such as not ready or full."""
    tolerations = tolerations_together(pod, runtime_class, policy)
    taint = find_untolerated_taint(shape.taints, tolerations)
    return taint is not None and is_condition_taint(taint)


def class_part_origin(
    code: Code,
    pod: Pod,
    runtime_class: RuntimeClass | None,
    shape: Shape | None,
    policy: Policy,
) -> Origin:
    """The origin of a reason that the filter verb gives; shape is one of a node that has it."""
    if code in _CLASS_ALONE:
        return Origin.RUNTIME_CLASS
    if runtime_class is None or code in _POD_ALONE:
        return Origin.POD
    if code is Code.TAINT and shape is not None and _is_state(pod, runtime_class, shape, policy):
        return Origin.NODE
    if code is Code.SELECTOR and shape is not None:
        missing = [e for e in runtime_class.node_selector if e not in shape.selector_entries]
        carried = not missing_labels(missing, pod.node_selector)
        if not missing:
            carried = carries_terms(pod, runtime_class)
        return Origin.BOTH if carried else Origin.RUNTIME_CLASS
    return Origin.BOTH if is_merged(pod, runtime_class) else Origin.RUNTIME_CLASS
