"""Which RuntimeClass a pod that names none gets (KEP-585: the cluster admin's default)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from extender.admission.namespace_rules import DEFAULT_ANNOTATION, NO_DEFAULT
from extender.admission.reviewed_pod import ReviewedPod
from extender.objects import RuntimeClass
from extender.reasons import shown

#: On a RuntimeClass: the default of the cluster.
IS_DEFAULT_ANNOTATION: Final = "runtimeclass-extender/is-default-class"


def origin_of_default(namespace: str, of_namespace: str) -> str:
    """Where the class that a pod was given by default comes from, for a person who looks for it."""
    if of_namespace:
        return f'annotation {DEFAULT_ANNOTATION} of namespace "{shown(namespace)}"'
    return f"annotation {IS_DEFAULT_ANNOTATION} of the RuntimeClass"


@dataclass(frozen=True, slots=True)
class ClusterDefault:
    """The default of the cluster; `others` are marked as defaults too, and are not."""

    name: str
    others: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """Empty unless there is more than one default."""
        if not self.others:
            return ""
        others = ", ".join(f'"{name}"' for name in self.others)
        return f'default RuntimeClass "{self.name}": the newest of several, not {others}'


def is_default(runtime_class: RuntimeClass) -> bool:
    """Whether the class is marked as the cluster's default."""
    return runtime_class.annotations.get(IS_DEFAULT_ANNOTATION) == "true"


def cluster_default(runtime_classes: Iterable[RuntimeClass]) -> ClusterDefault | None:
    """The newest class that is marked; of those created at the same time the first by name.

    As with StorageClasses (pkg/volume/util/storageclass.go, v1.36.2). Times of the API server are
    RFC 3339 in UTC without fractions, so they compare as text.
    """
    marked = sorted(filter(is_default, runtime_classes), key=lambda each: each.name)
    marked.sort(key=lambda each: each.creation_timestamp, reverse=True)
    if not marked:
        return None
    return ClusterDefault(marked[0].name, tuple(each.name for each in marked[1:]))


def takes_default(pod: ReviewedPod) -> bool:
    """Whether a default class applies to a pod. Raises DecodeError."""
    return (
        pod.has_spec
        and pod.runtime_class_name is None
        and pod.annotations().get(DEFAULT_ANNOTATION) != NO_DEFAULT
        and not pod.shares_its_node()
    )
