"""Pods, workloads and Namespaces, of manifests or of a cluster, read on demand and not kept."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple, Protocol

from msgspec import Raw

from extender.admission.policy_subjects import Subject, pod_subject, template_subject
from extender.cluster.kinds import PODS, WORKLOADS, Kind, pods_of
from extender.cluster.manifest_objects import Manifests
from extender.cluster.reading_once import ClusterReader, ReadError
from extender.decoding.class_using_objects import RawPlacedPod, RawUse, placed_pod_of, workload_of
from extender.decoding.decoder import DecodeError
from extender.objects import Namespace, Pod
from extender.using_objects import PlacedPod, Workload

#: The pods that will run, and those of them that have no node.
_ALIVE: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
_PENDING: Final = {"fieldSelector": "spec.nodeName=,status.phase=Pending"}


class FoundPod(NamedTuple):
    """A pod that has not finished; explained gives all that explain reads of it."""

    placed: PlacedPod
    explained: Callable[[], Pod]


class Inventory(Protocol):
    """Where pods and the like come from. Of a cluster all raise ReadError or ForbiddenError."""

    def find_pod(self, namespace: str, name: str) -> Pod | None: ...
    def pending_pods(self) -> Mapping[str, Pod]:
        """By NAMESPACE/NAME; of manifests all, since they don't say which are bound."""

    def pods(self, namespace: str = "", *, pending: bool = False) -> Iterator[FoundPod]:
        """Each pod that has not finished once; pending: only those without a node."""

    def workloads(self) -> Iterator[Workload]: ...
    def subjects(self) -> Iterator[Subject]:
        """What policies of namespaces judge; of manifests that were loaded with `subjects`."""

    def namespaces(self, name: str = "") -> Mapping[str, Namespace]:
        """All Namespaces by name, or at least the named one."""


class ManifestInventory:
    """Of manifests; of those that were loaded with `uses` also what uses the classes."""

    def __init__(self, loaded: Manifests) -> None:
        self._loaded = loaded

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        return self._loaded.pods.get(f"{namespace}/{name}")

    def pending_pods(self) -> Mapping[str, Pod]:
        return self._loaded.pods

    def pods(self, namespace: str = "", *, pending: bool = False) -> Iterator[FoundPod]:
        uses = self._loaded.uses
        for key, pod in sorted(uses.pods.items() if uses else ()):
            wanted = not namespace or pod.namespace == namespace
            if wanted and not pod.finished and not (pending and pod.node):
                yield FoundPod(pod, lambda key=key: self._loaded.pods[key])  # type: ignore[misc]

    def workloads(self) -> Iterator[Workload]:
        uses = self._loaded.uses
        yield from uses.workloads.values() if uses else ()

    def subjects(self) -> Iterator[Subject]:
        yield from (self._loaded.subjects or {}).values()

    def namespaces(self, _: str = "") -> Mapping[str, Namespace]:
        return self._loaded.namespaces


class LiveInventory:
    """Of a cluster, in pages."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader
        self.find_pod = reader.find_pod
        self.pending_pods = reader.pending_pods
        self.namespaces = reader.namespaces

    def pods(self, namespace: str = "", *, pending: bool = False) -> Iterator[FoundPod]:
        reader = self._reader
        kind = pods_of(namespace) if namespace else PODS
        # A list that begins again gives some pods twice; the hashes of 100,000 take 10 MB.
        seen = set[int]()
        for raw in reader.objects(kind, _PENDING if pending else _ALIVE):
            pod = placed_pod_of(reader.decoded(raw, RawPlacedPod))
            key = hash((pod.namespace, pod.name))
            if key in seen or pod.finished or (pending and pod.node):
                continue
            seen.add(key)
            yield FoundPod(pod, lambda raw=raw: reader.explained(raw))  # type: ignore[misc]

    def workloads(self) -> Iterator[Workload]:
        for kind, raw in self._workloads():
            yield workload_of(self._reader.decoded(raw, RawUse), kind.name)

    def _workloads(self) -> Iterator[tuple[Kind, Raw]]:
        return ((kind, raw) for kind in WORKLOADS for raw in self._reader.objects(kind))

    def subjects(self) -> Iterator[Subject]:
        """A list that begins again gives some twice."""
        found = chain(
            map(pod_subject, self._reader.objects(PODS, _ALIVE)),
            (template_subject(raw, each.name) for each, raw in self._workloads()),
        )
        try:
            yield from filter(None, found)
        except DecodeError as error:
            raise ReadError(str(error)) from None
