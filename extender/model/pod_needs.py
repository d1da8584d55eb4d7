"""The fields of a pod that a verdict depends on: `PodNeeds`, part of every verdict's cache key."""

from itertools import chain
from typing import Final, NamedTuple


class Toleration(NamedTuple):
    """A toleration of a pod or a RuntimeClass. "" stands for an absent field.

    seconds: tolerationSeconds, which matching ignores.
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    seconds: int | None = None


def untimed(toleration: Toleration) -> Toleration:
    """The toleration as matching sees it: without seconds."""
    return toleration if toleration.seconds is None else toleration._replace(seconds=None)


def fields_of(toleration: Toleration) -> dict[str, object]:
    """The toleration as an API object, without absent fields."""
    names = ("key", "operator", "value", "effect")
    fields: dict[str, object] = {
        name: text for name, text in zip(names, toleration[:4], strict=True) if text
    }
    if toleration.seconds is not None:
        fields["tolerationSeconds"] = toleration.seconds
    return fields


class Features(NamedTuple):
    """The features of the runtime handler that a pod needs."""

    user_namespaces: bool = False
    recursive_read_only_mounts: bool = False

    def __bool__(self) -> bool:
        return self.user_namespaces or self.recursive_read_only_mounts


NO_FEATURES: Final = Features()


class KubeletNeeds(NamedTuple):
    """The needs of a pod that the kubelet checks after binding: it rejects the pod if one is unmet.

    system: spec.os.name. system_label: the pod's *label* kubernetes.io/os. strict_groups:
    spec.securityContext.supplementalGroupsPolicy is Strict. pod_resources: spec.resources names a
    resource that is allowed at pod level.
    """

    system: str | None = None
    system_label: str | None = None
    strict_groups: bool = False
    pod_resources: bool = False


#: Limits on the fields of a pod that are cached, since its author may write a megabyte: the entries
#: of one list, and the characters of all texts.
MAX_FEW: Final = 32
MAX_WORDS: Final = 2048


class PodNeeds(NamedTuple):
    """All fields of a pod that checks read. So it is part of every verdict's cache key."""

    runtime_class_name: str
    node_selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]
    features: Features
    kubelet_needs: KubeletNeeds | None
    uses: frozenset[str] | None

    @property
    def is_small(self) -> bool:
        if max(len(self.node_selector), len(self.tolerations)) > MAX_FEW:
            return False
        words = (
            self.runtime_class_name,
            *chain.from_iterable(self.node_selector),
            *chain.from_iterable(each[:4] for each in self.tolerations),
            *(each or "" for each in (self.kubelet_needs or ())[:2]),
            *(self.uses or ()),
        )
        return sum(map(len, words)) <= MAX_WORDS
