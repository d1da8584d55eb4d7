"""The pod of a review, decoded on demand: a pod without a RuntimeClass needs few fields."""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw, Struct

from extender.kubernetes.decoder import (
    NULL,
    DecodeError,
    Quantities,
    RawTimedToleration,
    decode,
    nullable,
    quantities_of,
    strings,
    timed_tolerations_of,
)
from extender.kubernetes.explained_pods import required_terms_of
from extender.kubernetes.pods import NO_METADATA, RawPod, RawPodSpec
from extender.kubernetes.quantity import billionths
from extender.kubernetes.resources import RawResources, RawSecurityContext, containers_of
from extender.model.objects import OS_LABEL, WINDOWS, SelectorTerm
from extender.model.pod_needs import Toleration

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"


class _Spec(RawPodSpec, rename="camel"):
    tolerations: Raw = NULL  # type: ignore[assignment]
    topology_spread_constraints: Raw = NULL


class _Pod(RawPod):
    spec: _Spec | None = None


class _Constraint(Struct, rename="camel"):
    when_unsatisfiable: str | None = None
    node_affinity_policy: str | None = None


class FirstContainer(Struct):
    resources: RawResources | None = None


class ReviewedPod:
    """The pod for admission. Every method raises DecodeError for a field of a wrong type."""

    def __init__(self, raw: Raw) -> None:
        whole = decode(raw, _Pod, "Pod")
        self.raw = raw
        self._metadata = whole.metadata or NO_METADATA
        self._spec = whole.spec or _Spec()
        self.has_spec = whole.spec is not None
        #: None if the pod names no class. "" counts as a name, but no class has it.
        self.runtime_class_name = self._spec.runtime_class_name
        #: Whether the pod is bound already, as a mirror pod is.
        self.has_node = bool(self._spec.node_name)

    def overhead(self) -> Mapping[str, str] | None:
        """The pod's overhead by resource, with valid quantities only; None if it has none."""
        place = "Pod.spec.overhead"
        raw = nullable(self._spec.overhead, Quantities, place)
        if raw is None:
            return None
        name = ""
        try:
            overhead = quantities_of(raw)
            for name, text in overhead.items():  # noqa: B007 (the message names it)
                billionths(text)
        except ValueError as error:
            raise DecodeError(f"{place}[{name}]: {error}") from None
        return overhead

    def node_selector(self) -> Mapping[str, str] | None:
        """The nodeSelector; None if the pod has none, {} if it is empty."""
        raw = self._spec.node_selector
        return None if raw is None else strings(raw)

    def tolerations(self) -> list[Toleration] | None:
        raw = nullable(
            self._spec.tolerations, list[RawTimedToleration | None], "Pod.spec.tolerations"
        )
        return None if raw is None else [*timed_tolerations_of(raw)]

    def toleration_items(self) -> list[Raw]:
        """The undecoded JSON of each toleration, in their order."""
        return nullable(self._spec.tolerations, list[Raw], "Pod.spec.tolerations") or []

    def spreads_hard_by_node_affinity(self) -> bool:
        """Whether a topology spread with DoNotSchedule depends on the pod's nodeSelector."""
        place = "Pod.spec.topologySpreadConstraints"
        raw = nullable(self._spec.topology_spread_constraints, list[_Constraint | None], place)
        return any(
            each.when_unsatisfiable == "DoNotSchedule" and each.node_affinity_policy != "Ignore"
            for each in raw or ()
            if each is not None
        )

    def affinity(self) -> tuple[Mapping[str, Raw], Mapping[str, Raw]]:
        """The fields of the pod's affinity and of its nodeAffinity; {} if one is absent."""
        place = "Pod.spec.affinity"
        affinity = nullable(self._spec.affinity, dict[str, Raw], place) or {}
        of_nodes = affinity.get("nodeAffinity", NULL)
        return affinity, nullable(of_nodes, dict[str, Raw], f"{place}.nodeAffinity") or {}

    def required_terms(self) -> tuple[SelectorTerm, ...] | None:
        """The terms of the required node affinity; None if the pod has none."""
        return required_terms_of(self._spec.affinity)

    def first_container(self) -> FirstContainer | None:
        """The requests and limits of the first container; None if there is no container."""
        place = "Pod.spec.containers"
        containers = nullable(self._spec.containers, list[Raw], place) or [NULL]
        return nullable(containers[0], FirstContainer, f"{place}[0]")

    def annotations(self) -> Mapping[str, str]:
        return self._metadata.read_annotations("Pod.metadata")

    def shares_its_node(self) -> bool:
        """Whether a sandbox would break the pod: it uses the host, privileges or Windows."""
        spec, place = self._spec, "Pod.spec"
        context = nullable(spec.security_context, RawSecurityContext, f"{place}.securityContext")
        contexts = [context, *(each.security_context for each in containers_of(spec).all())]
        return (
            bool(nullable(spec.host_network, bool, f"{place}.hostNetwork"))
            or bool(nullable(spec.host_pid, bool, f"{place}.hostPID"))
            or MIRROR_ANNOTATION in self.annotations()
            or (spec.os is not None and spec.os.name == WINDOWS)
            or (self.node_selector() or {}).get(OS_LABEL) == WINDOWS
            or any(each and (each.privileged or each.windows_options != NULL) for each in contexts)
        )
