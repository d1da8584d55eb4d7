"""How the RuntimeClass that a pod names is found: in the snapshot, else at the API server."""

from collections.abc import Callable
from typing import Protocol

from extender.objects import RuntimeClass
from extender.snapshot import Snapshot
from extender.undecided_errors import WouldWaitError, not_synced


class SnapshotSource(Protocol):
    """Holds the newest snapshot."""

    @property
    def snapshot(self) -> Snapshot: ...


#: Looks up a class that the snapshot does not have (yet); None when there is no such class. Raises
#: UndecidedError without an answer.
RuntimeClassLookup = Callable[[str], RuntimeClass | None]


def no_lookup(name: str) -> RuntimeClass | None:
    """There is nothing beside the snapshot, as with manifests."""
    return None


def find_class(
    name: str, snapshot: Snapshot, lookup: RuntimeClassLookup, *, patient: bool = True
) -> RuntimeClass | None:
    """The class of that name; None when the name is empty or there is no such class.

    Raises UndecidedError while the classes are not synced and, unless patient, WouldWaitError where
    the API server has to be asked.
    """
    if not name:
        return None
    if not snapshot.runtime_classes_synced:
        raise not_synced("RuntimeClasses")
    found = snapshot.runtime_classes.get(name)
    if found is not None or lookup is no_lookup:
        return found
    if not patient:
        raise WouldWaitError
    return lookup(name)
