"""Everything that the routes use, and the lookup of a pod's RuntimeClass."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from extender.http.health import Health
from extender.kubernetes.namespaces import NamespaceRules
from extender.kubernetes.versions import Version
from extender.model.errors import not_synced
from extender.model.objects import Node, Pod, RuntimeClass
from extender.model.using_objects import WaitingPods
from extender.rules.class_nodes import Support
from extender.rules.node_checks import Policy
from extender.rules.resource_fit import PodsBeside
from extender.rules.snapshot import ClassLookup, Snapshot, SnapshotSource, find_class, no_lookup
from extender.verbs.bodies import SeenNodes
from extender.verbs.filter import Reasons
from extender.verbs.metrics import Metrics
from extender.verbs.outcomes import RefusedPods
from extender.verbs.prioritize import Preferences

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class Turn:
    """A lock for the one thread that computes a page: several would slow the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def taken_by(self, app: "WSGIApplication") -> "WSGIApplication":
        """The application, limited to one request at a time."""

        def answer(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
            with self._lock:
                return app(environ, start)

        return answer

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Release the turn while this page waits, for example for the API server."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()


#: The threads that wait for the API server, which is asked about at most ten classes at a time.
_LOOKUP_THREADS: Final = 10

#: (judged, tried_before=) yields snapshots newer than `judged` as they come, for a short time.
#: tried_before: the pod was refused before, so an event made kube-scheduler try it again.
NodeEvents = Callable[..., AsyncGenerator[Snapshot, None]]


@dataclass(frozen=True)
class Service:
    """Everything a route may use, made once by the server.

    find_pod: a pod by namespace and name, with its affinity and overhead. find_node: a node with
    all its taints. read_pods: the pods in a text pasted into a form, by the names of the objects
    that contain them, and warnings; raises BadRequestError. known_pods: NAMESPACE/NAME of each pod
    that is watched. rules_of_namespace and kubernetes_version ask the API server; None if unknown.
    waiting_pods: None if pods are not watched. node_events: None with manifests. pages: browsers
    get pages. pool_labels: the keys of --pool-label. origin: where the state comes from. age: the
    seconds since the state was last known to be current.
    """

    source: SnapshotSource
    metrics: Metrics
    health: Health
    refused: RefusedPods
    policy: Policy = field(default_factory=Policy)
    reasons: Reasons = Reasons.ALWAYS
    lookup: ClassLookup = no_lookup
    find_pod: Callable[[str, str], Pod | None] = lambda namespace, name: None
    find_node: Callable[[str], Node | None] = lambda name: None
    known_pods: Callable[[], Iterable[str]] = lambda: ()
    rules_of_namespace: Callable[[str], NamespaceRules | None] = lambda _: None
    kubernetes_version: Callable[[], Version | None] = lambda: None
    waiting_pods: Callable[[], WaitingPods | None] = lambda: None
    pods_beside: PodsBeside = lambda _: ()
    node_events: NodeEvents | None = None
    serve_metrics: bool = True
    read_pods: Callable[[bytes], tuple[Mapping[str, Pod], Sequence[str]]] = lambda _: ({}, ())
    pages: bool = True
    origin: str = ""
    age: Callable[[], float] = lambda: 0.0
    pool_labels: Sequence[str] = ()

    @cached_property
    def seen_nodes(self) -> SeenNodes:
        return SeenNodes()

    @cached_property
    def preferences(self) -> Preferences:
        return Preferences(self.policy.handler_check)

    @cached_property
    def support(self) -> Support:
        return Support(self.policy.handler_check)

    @cached_property
    def turn(self) -> Turn:
        return Turn()

    @cached_property
    def _lookups(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_LOOKUP_THREADS, "lookup")

    async def look_up(self, pod: Pod) -> tuple[RuntimeClass | None, Snapshot]:
        """As resolve_waiting, but without blocking the event loop."""
        snapshot, name = self.source.snapshot, pod.runtime_class_name
        known = snapshot.runtime_classes.get(name)
        if snapshot.runtime_classes_synced and (known or not name):
            return known, snapshot
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._lookups, self.resolve_waiting, pod)

    def resolve_waiting(self, pod: Pod) -> tuple[RuntimeClass | None, Snapshot]:
        """The class that the pod names, and the snapshot to judge nodes by.

        If the snapshot lacks the class, waits for the API server. The class must then be in a newer
        snapshot, which also has the node labels that the class asks for. Raises UndecidedError if
        it is not, while the classes are not synced, and if the API server does not answer.
        """
        snapshot = self.source.snapshot
        runtime_class = find_class(pod.runtime_class_name, snapshot, self.lookup)
        if runtime_class is None or pod.runtime_class_name in snapshot.runtime_classes:
            return runtime_class, snapshot
        snapshot = self.source.snapshot
        if pod.runtime_class_name not in snapshot.runtime_classes:
            raise not_synced(f"RuntimeClass {pod.runtime_class_name}")
        return snapshot.runtime_classes[pod.runtime_class_name], snapshot
