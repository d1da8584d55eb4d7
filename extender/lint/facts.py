"""The facts that lints judge: of a cluster, of namespaces, of a KubeSchedulerConfiguration."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Self

from extender.kubernetes.namespaces import OPT_IN_LABEL, OPTED_IN, NamespaceRules, rules_of
from extender.model.names import ShapeId, text_of
from extender.model.objects import Namespace, Node, RuntimeClass
from extender.rules.class_nodes import Support
from extender.rules.node_checks import Policy
from extender.rules.snapshot import Snapshot


@dataclass(frozen=True)
class Facts:
    """RuntimeClasses and nodes. nodes: None if only the snapshot is known."""

    snapshot: Snapshot
    support: Support
    policy: Policy
    nodes: Collection[Node] | None = None

    @cached_property
    def classes(self) -> Sequence[RuntimeClass]:
        """The RuntimeClasses, sorted by name."""
        return self.snapshot.classes_by_name

    def names(self, shapes: Iterable[ShapeId]) -> Sequence[str]:
        """The names of the nodes with these shapes, sorted."""
        return sorted(chain.from_iterable(self._by_shape[shape] for shape in shapes))

    @cached_property
    def _by_shape(self) -> Mapping[ShapeId, Sequence[str]]:
        found: dict[ShapeId, list[str]] = {}
        for name, shape in self.snapshot.nodes.items():
            found.setdefault(shape, []).append(text_of(name))
        return found


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """The rules of the namespaces, sorted by name.

    opted_in: the namespaces with the webhook's label. runtime_classes: the classes that exist.
    """

    rules: Sequence[NamespaceRules]
    opted_in: Collection[str]
    runtime_classes: Collection[str]

    @classmethod
    def of(cls, namespaces: Mapping[str, Namespace], runtime_classes: Collection[str]) -> Self:
        rules = [rules_of(name, each.annotations) for name, each in sorted(namespaces.items())]
        labels = ((name, each.labels.get(OPT_IN_LABEL)) for name, each in namespaces.items())
        opted_in = {name for name, label in labels if label == OPTED_IN}
        return cls(rules, opted_in, runtime_classes)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts that are not in a KubeSchedulerConfiguration itself.

    kubernetes_version: (major, minor), None if unknown. in_pod: whether kube-scheduler runs in a
    pod with a service account, None if unknown. untainted: the names of untainted nodes that serve
    RuntimeClasses by their labels alone, if other nodes do not.
    """

    admission_plugin: bool = True
    kubernetes_version: tuple[int, int] | None = None
    in_pod: bool | None = None
    untainted: Sequence[str] = ()
