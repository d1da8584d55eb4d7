"""The pod of a review, decoded piece by piece: for a pod without RuntimeClass little is needed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import Raw, Struct, field

from extender.decoding.common_parts import (
    Quantities,
    RawTimedToleration,
    quantities_of,
    timed_tolerations_of,
)
from extender.decoding.decoder import DecodeError, StringMap, decode, nullable, strings
from extender.decoding.explained_pods import explained_pod
from extender.decoding.pods import required_terms_of
from extender.decoding.used_features import uses_in
from extender.objects import Pod, SelectorTerm, Toleration
from extender.validation.quantity import parse_quantity

_NULL: Final = Raw(b"null")

#: The fields of a container's resources that hold amounts.
AMOUNTS: Final = ("requests", "limits")

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
OS_LABEL: Final = "kubernetes.io/os"
WINDOWS: Final = "windows"


class _Metadata(Struct):
    annotations: Raw = _NULL


class _Spec(Struct, rename="camel"):
    runtime_class_name: str | None = None
    overhead: Raw = _NULL
    node_selector: Raw = _NULL
    tolerations: Raw = _NULL
    topology_spread_constraints: Raw = _NULL
    affinity: Raw = _NULL
    node_name: str | None = None
    containers: Raw = _NULL


class _Object(Struct):
    metadata: Raw = _NULL
    spec: Raw = _NULL


class _Constraint(Struct, rename="camel"):
    when_unsatisfiable: str | None = None
    node_affinity_policy: str | None = None


class _SecurityContext(Struct, rename="camel"):
    privileged: bool | None = None
    windows_options: Raw = _NULL


class _Container(Struct, rename="camel"):
    security_context: _SecurityContext | None = None


class _Resourced(Struct):
    resources: dict[str, Raw] | None = None


class _OS(Struct):
    name: str | None = None


class _Isolation(Struct, rename="camel"):
    """The parts of a spec that say how far the pod is isolated from its node."""

    host_network: bool | None = None
    host_pid: bool | None = field(default=None, name="hostPID")
    os: _OS | None = None
    security_context: _SecurityContext | None = None
    containers: list[_Container | None] | None = None
    init_containers: list[_Container | None] | None = None
    ephemeral_containers: list[_Container | None] | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """The requests and the limits of a container, each where it is there and no null.

    amounts is None where the container has no resources at all.
    """

    amounts: Mapping[str, Mapping[str, Raw]] | None = None


class ReviewedPod:
    """A pod as admission sees it.

    Every method raises DecodeError, naming the place, when what it reads is of a wrong type.
    """

    def __init__(self, raw: Raw) -> None:
        whole = decode(raw, _Object, "Pod")
        self._raw = raw
        self._metadata = whole.metadata
        self._raw_spec = whole.spec
        self.has_spec = whole.spec != _NULL
        self._spec = decode(whole.spec, _Spec, "Pod.spec") if self.has_spec else _Spec()
        #: None when the pod names no class; "" is a name, which no class has.
        self.runtime_class_name = self._spec.runtime_class_name
        #: Whether it is bound already, as a mirror pod is.
        self.has_node = bool(self._spec.node_name)

    def overhead(self) -> Mapping[str, str] | None:
        """The quantities by resource, each one readable; None where the pod has no overhead."""
        place = "Pod.spec.overhead"
        raw = nullable(self._spec.overhead, Quantities, place)
        if raw is None:
            return None
        name = ""
        try:
            overhead = quantities_of(raw)
            for name, text in overhead.items():  # noqa: B007 (the message names it)
                parse_quantity(text)
        except ValueError as error:
            raise DecodeError(f"{place}[{name}]: {error}") from None
        return overhead

    def node_selector(self) -> Mapping[str, str] | None:
        """None where the pod has none; {} is one."""
        raw = nullable(self._spec.node_selector, dict[str, str | None], "Pod.spec.nodeSelector")
        return None if raw is None else strings(raw)

    def tolerations(self) -> list[Toleration] | None:
        """None where the pod has no list of them."""
        raw = nullable(
            self._spec.tolerations, list[RawTimedToleration | None], "Pod.spec.tolerations"
        )
        if raw is None:
            return None
        # Equal tolerations share one object, since half a million of them fit into a pod.
        known: dict[Toleration, Toleration] = {}
        return [known.setdefault(each, each) for each in timed_tolerations_of(raw)]

    def toleration_items(self) -> list[Raw]:
        """The tolerations byte for byte as they came, in the same order."""
        return nullable(self._spec.tolerations, list[Raw], "Pod.spec.tolerations") or []

    def spreads_hard_by_node_affinity(self) -> bool:
        """Whether a topology spread that may keep the pod Pending looks at its nodeSelector."""
        place = "Pod.spec.topologySpreadConstraints"
        raw = nullable(self._spec.topology_spread_constraints, list[_Constraint | None], place)
        return any(
            each.when_unsatisfiable == "DoNotSchedule" and each.node_affinity_policy != "Ignore"
            for each in raw or ()
            if each is not None
        )

    def affinity(self) -> tuple[Mapping[str, Raw], Mapping[str, Raw]]:
        """The fields of its affinity and of its nodeAffinity; none where one of them is absent."""
        place = "Pod.spec.affinity"
        affinity = nullable(self._spec.affinity, dict[str, Raw], place) or {}
        of_nodes = affinity.get("nodeAffinity", _NULL)
        return affinity, nullable(of_nodes, dict[str, Raw], f"{place}.nodeAffinity") or {}

    def required_terms(self) -> tuple[SelectorTerm, ...] | None:
        """Of its required node affinity; None where it has none."""
        return required_terms_of(self._spec.affinity)

    def uses(self) -> frozenset[str]:
        """The words for what it uses (decoding.used_features)."""
        return uses_in(self._raw)

    def explained(self) -> Pod:
        """The pod with all that explain reads of it."""
        return explained_pod(self._raw)

    def first_resources(self) -> Resources | None:
        """What the first container asks for; None where there is no container."""
        place = "Pod.spec.containers"
        containers = nullable(self._spec.containers, list[Raw], place)
        if not containers or containers[0] == _NULL:
            return None
        resources = decode(containers[0], _Resourced, f"{place}[0]").resources
        if resources is None:
            return Resources()
        read = {
            key: nullable(resources.get(key, _NULL), dict[str, Raw], f"{place}[0].resources.{key}")
            for key in AMOUNTS
        }
        return Resources({key: each for key, each in read.items() if each is not None})

    def annotations(self) -> Mapping[str, str]:
        metadata = nullable(self._metadata, _Metadata, "Pod.metadata") or _Metadata()
        place = "Pod.metadata.annotations"
        raw: StringMap = nullable(metadata.annotations, dict[str, str | None], place)
        return strings(raw)

    def shares_its_node(self) -> bool:
        """Whether a sandbox would break the pod.

        That is so for a mirror pod, a privileged one, one for Windows, or one in the node's network
        or PID namespace.
        """
        isolation = nullable(self._raw_spec, _Isolation, "Pod.spec") or _Isolation()
        return (
            bool(isolation.host_network or isolation.host_pid)
            or MIRROR_ANNOTATION in self.annotations()
            or _is_privileged_or_windows(isolation)
            or (self.node_selector() or {}).get(OS_LABEL) == WINDOWS
        )


def _is_privileged_or_windows(isolation: _Isolation) -> bool:
    if isolation.os is not None and isolation.os.name == WINDOWS:
        return True
    containers = (
        *(isolation.containers or ()),
        *(isolation.init_containers or ()),
        *(isolation.ephemeral_containers or ()),
    )
    contexts = [each.security_context for each in containers if each is not None]
    return any(
        context.privileged or context.windows_options != _NULL
        for context in (isolation.security_context, *contexts)
        if context is not None
    )
