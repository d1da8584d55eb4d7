"""What of a pod a verdict depends on: `PodNeeds`, the key of every cache of verdicts."""

from itertools import chain
from typing import Final, NamedTuple


class Toleration(NamedTuple):
    """One of a pod's or RuntimeClass's tolerations; "" stands for an absent field.

    seconds is tolerationSeconds, which does not matter to matching.
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
    """The toleration as the API writes it, without absent fields."""
    names = ("key", "operator", "value", "effect")
    fields: dict[str, object] = {
        name: text for name, text in zip(names, toleration[:4], strict=True) if text
    }
    if toleration.seconds is not None:
        fields["tolerationSeconds"] = toleration.seconds
    return fields


class Features(NamedTuple):
    """What a pod needs of its runtime handler beyond its presence."""

    user_namespaces: bool = False
    recursive_read_only_mounts: bool = False

    def __bool__(self) -> bool:
        return self.user_namespaces or self.recursive_read_only_mounts


NO_FEATURES: Final = Features()


class KubeletNeeds(NamedTuple):
    """Needs that make a kubelet without them reject the pod after binding.

    system is spec.os.name, system_label the pod's *label* kubernetes.io/os. strict_groups:
    spec.securityContext.supplementalGroupsPolicy is Strict. pod_resources: spec.resources names a
    resource that pods as a whole may have.
    """

    system: str | None = None
    system_label: str | None = None
    strict_groups: bool = False
    pod_resources: bool = False


#: The entries of a list that is remembered for many pods, and the characters in all of a pod's: its
#: author may write a megabyte.
MAX_FEW: Final = 32
MAX_WORDS: Final = 2048


class PodNeeds(NamedTuple):
    """All of a pod that a check reads, and so the key of every cache of verdicts."""

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
