"""Features that a pod needs and nodes declare, as kube-scheduler itself judges them.

Plugin NodeDeclaredFeatures with component-helpers/nodedeclaredfeatures, v1.36.2 (beta, on by
default). Only explain looks at this: kube-scheduler's own filters have done so before it asks.
"""

from collections.abc import Collection, Iterable

from extender.reasons import UNDECLARED_FEATURES, Reason
from extender.shape import Shape


def undeclared_reason(needed: Collection[str], shape: Shape) -> Reason | None:
    """A node that declares nothing lacks everything, as the plugin reads it."""
    declared = shape.kubelet.declared_features or frozenset()
    return None if declared.issuperset(needed) else UNDECLARED_FEATURES


def is_judged(shapes: Iterable[Shape]) -> bool:
    """Whether kube-scheduler judges features: if it does, some kubelet declares them."""
    return any(shape.kubelet.declared_features is not None for shape in shapes)
