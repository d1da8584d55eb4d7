"""What the routes need of the rest of the program, and how they find a pod's RuntimeClass."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

from extender.http.health import Health
from extender.metrics import Metrics
from extender.objects import Pod, RuntimeClass
from extender.refused import RefusedPods
from extender.snapshot import Snapshot
from extender.verbs.matching import Policy
from extender.verbs.prioritize import Preferences

DEFAULT_MAX_BODY_BYTES: Final = 256 * 2**20

ERROR_PREFIX: Final = "runtimeclass-extender: "


class SnapshotSource(Protocol):
    """Whoever keeps the snapshot; each read gives the newest."""

    @property
    def snapshot(self) -> Snapshot: ...


class UndecidedError(Exception):
    """Nothing can be said yet; the text goes into the answer's Error."""


class RuntimeClassLookup(Protocol):
    """Asks for a class that the snapshot does not have (yet)."""

    def __call__(self, name: str) -> RuntimeClass | None:
        """None when there is no such class. Raises UndecidedError when nobody answers."""


def no_lookup(name: str) -> RuntimeClass | None:
    """The snapshot is all there is, as with manifests."""
    return None


@dataclass(frozen=True)
class Service:
    """Everything a route may use, made once by the server."""

    source: SnapshotSource
    metrics: Metrics
    health: Health
    refused: RefusedPods
    policy: Policy = field(default_factory=Policy)
    lookup: RuntimeClassLookup = no_lookup
    wait_for_node_event: Callable[[], bool] = lambda: False
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    serve_metrics: bool = True

    @cached_property
    def preferences(self) -> Preferences:
        """What nodes cost; shared by prioritize and explain."""
        return Preferences(self.policy.handler_check)

    def runtime_class(self, pod: Pod, snapshot: Snapshot) -> RuntimeClass | None:
        """The class the pod names; None when it names none or there is none of that name.

        Raises UndecidedError while the classes are not known.
        """
        name = pod.runtime_class_name
        if not name:
            return None
        if not snapshot.runtime_classes_synced:
            raise UndecidedError(f"{ERROR_PREFIX}RuntimeClasses not synced yet")
        return snapshot.runtime_classes.get(name) or self.lookup(name)
