"""What the routes need of the rest of the program, and how they find a pod's RuntimeClass."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

from extender.admission.namespace_rules import NamespaceRules
from extender.http.health import Health
from extender.http.scores_ahead import ScoresAhead
from extender.metrics import Metrics
from extender.objects import Pod, RuntimeClass
from extender.predicates.node_checks import Policy
from extender.refused_pods import RefusedPods
from extender.snapshot import Snapshot
from extender.verbs.class_lookup import RuntimeClassLookup, SnapshotSource, find_class, no_lookup
from extender.verbs.class_nodes import Support
from extender.verbs.prioritize import Preferences
from extender.wire.bodies import BadRequestError, LastPod
from extender.wire.node_items import SeenNodes

#: 5,000 whole Nodes of 10 KB are 50 MB, 150,000 names 7 MB. `make bench-memory` compares the memory
#: that such a body takes with the limit in the shipped manifests.
DEFAULT_MAX_BODY_BYTES: Final = 64 * 2**20


#: Finds a pod by its namespace and name, with its affinity and overhead; None when there is none.
#: Raises UndecidedError when the API server does not answer.
PodLookup = Callable[[str, str], Pod | None]


#: Reads a pod that was pasted into a form as YAML or JSON. Raises BadRequestError.
PodReader = Callable[[bytes], Pod]


def no_text_read(text: bytes) -> Pod:
    raise BadRequestError("no pod can be read here")


class NodeEvents(Protocol):
    """Waits briefly for watch events that kube-scheduler may have received earlier."""

    def __call__(
        self, judged: Snapshot, *, tried_before: bool, group: str = ""
    ) -> Iterable[Snapshot]:
        """Snapshots newer than the one judged, as they come, until waiting is not worth it.

        tried_before: the pod was refused before, so it was an event that made kube-scheduler try it
        again.
        """


def no_node_events(judged: Snapshot, *, tried_before: bool, group: str = "") -> Iterable[Snapshot]:
    """Nothing comes, as with manifests."""
    return ()


@dataclass(frozen=True)
class Service:
    """Everything a route may use, made once by the server.

    known_pods returns the NAMESPACE/NAME of each pod in the manifests, to suggest one for a
    misspelt name. rules_of_namespace answers None where they are not known. pages: whether
    browsers get pages; pool_labels are the keys of --pool-label.
    """

    source: SnapshotSource
    metrics: Metrics
    health: Health
    refused: RefusedPods
    policy: Policy = field(default_factory=Policy)
    lookup: RuntimeClassLookup = no_lookup
    find_pod: PodLookup = lambda namespace, name: None
    known_pods: Callable[[], Collection[str]] = lambda: ()
    rules_of_namespace: Callable[[str], NamespaceRules | None] = lambda _: None
    node_events: NodeEvents = no_node_events
    serve_metrics: bool = True
    read_pod: PodReader = no_text_read
    pages: bool = True
    pool_labels: Sequence[str] = ()

    @cached_property
    def seen_nodes(self) -> SeenNodes:
        """Whole nodes of earlier requests; shared by filter and prioritize."""
        return SeenNodes()

    @cached_property
    def last_pod(self) -> LastPod:
        """The pod of the last request; shared by the verbs."""
        return LastPod()

    @cached_property
    def preferences(self) -> Preferences:
        """What nodes cost; shared by prioritize and explain."""
        return Preferences(self.policy.handler_check)

    @cached_property
    def scores_ahead(self) -> ScoresAhead:
        """The scores that are asked for next; shared by filter and prioritize."""
        return ScoresAhead(self.source, self.preferences)

    @cached_property
    def support(self) -> Support:
        """Which nodes match which classes; shared by the debug answers."""
        return Support(self.policy.handler_check)

    def runtime_class(
        self, pod: Pod, snapshot: Snapshot, *, patient: bool = True
    ) -> RuntimeClass | None:
        """The class that the pod names; None when it names none, or one that does not exist.

        Raises UndecidedError while the classes are not synced and, unless patient, WouldWaitError
        where the API server has to be asked.
        """
        return find_class(pod.runtime_class_name, snapshot, self.lookup, patient=patient)

    def resolve(self, pod: Pod, *, patient: bool = True) -> tuple[RuntimeClass | None, Snapshot]:
        """The class that the pod names, and the snapshot to judge nodes by.

        A class that had to be looked up is only in a newer snapshot, which also has the node labels
        that it asks for. Raises as runtime_class.
        """
        snapshot = self.source.snapshot
        known = snapshot.runtime_classes.get(pod.runtime_class_name)
        if known is not None and snapshot.runtime_classes_synced:
            return known, snapshot
        runtime_class = self.runtime_class(pod, snapshot, patient=patient)
        if runtime_class is None or pod.runtime_class_name in snapshot.runtime_classes:
            return runtime_class, snapshot
        return runtime_class, self.source.snapshot
