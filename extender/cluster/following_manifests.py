"""Keeps the store in step with manifests on disk."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from extender.cluster.input_files import ManifestError, Signature, signatures
from extender.cluster.manifest_objects import Manifests, Uses, load_manifests
from extender.cluster.snapshot_store import SnapshotStore
from extender.kubernetes.namespaces import NamespaceRules, rules_of
from extender.kubernetes.resources import PodLoad, load_of_pod
from extender.model.objects import NOTHING, Pod
from extender.model.using_objects import WaitingPod, WaitingPods
from extender.rules.pod_state import PodGroup, group_of, is_followed
from extender.rules.resource_fit import IncomingPod, Loads

_LOG: Final = logging.getLogger(__name__)

#: The pause between two checks of the files. A change is loaded when two checks agree, so that a
#: half-written file is not loaded.
POLL_SECONDS: Final = 0.5


class ManifestFollower:
    """Reloads the manifests when they change. Its thread is the only one that writes the store."""

    def __init__(
        self,
        paths: Sequence[str],
        store: SnapshotStore,
        preloaded: tuple[tuple[Signature, ...], Manifests],
        *,
        uses: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """uses: also read pods and workloads, for `groups` and `loads`."""
        self._paths = paths
        self._store = store
        self._preloaded = [preloaded]
        self._uses = uses
        self._groups: Mapping[PodGroup, int] | None = None
        self.loads: Loads | None = None
        #: The pods that name a RuntimeClass and have no node.
        self.waiting = WaitingPods()
        self._clock = clock
        self._stopping = threading.Event()
        self._loaded: tuple[Signature, ...] | None = None
        self._seen: tuple[Signature, ...] | None = None
        self._error = ""
        self._failed_at = self._taken_at = 0.0
        self.manifests = Manifests()

    def start(self) -> None:
        """Put the manifests into the store and begin to watch. Called once."""
        self._take(*self._preloaded.pop())
        threading.Thread(target=self._follow, name="manifests", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def descriptions(self) -> dict[str, Callable[[], str]]:
        """What readiness shows."""
        return {"manifests": self.describe}

    def describe(self) -> str:
        """Empty while all is well; else the error of the last reload, and its age."""
        error = self._error
        if not error:
            return ""
        age = self._clock() - self._failed_at
        return f"last reload failed {age:.0f}s ago, answering from the previous state: {error}"

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        return self.manifests.pods.get(f"{namespace}/{name}")

    def age(self) -> float:
        """Seconds since the files were read."""
        return self._clock() - self._taken_at

    def rules_of_namespace(self, namespace: str) -> NamespaceRules:
        found = self.manifests.namespaces.get(namespace)
        return rules_of(namespace, found.annotations if found else {})

    def _follow(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            try:
                self.look()
            except Exception as error:
                # The same error is logged once, however often it occurs.
                self._fail(f"{type(error).__name__}: {error}", unexpected=True)

    def look(self) -> None:
        """Check the files once: reload when they have changed and then stayed the same."""
        try:
            now = signatures(self._paths)
        except ManifestError as error:
            self._fail(str(error))
            self._loaded = None  # The files are read again once they are back.
            return
        settled, self._seen = now == self._seen, now
        if now == self._loaded or not settled:
            return
        try:
            manifests = self._load()
        except ManifestError as error:
            self._loaded = now
            self._fail(str(error))
            return
        self._take(now, manifests)
        _LOG.info(
            "manifests reloaded",
            extra={"nodes": len(manifests.nodes), "runtimeclasses": len(manifests.runtime_classes)},
        )

    def _load(self) -> Manifests:
        return load_manifests(self._paths, Manifests(uses=Uses() if self._uses else None))

    def pods_beside(self, _: IncomingPod) -> Iterator[PodLoad]:
        """The pods of the manifests that take room on a node."""
        yield from filter(None, map(load_of_pod, self.manifests.pods.values()))

    def groups(self) -> Mapping[PodGroup, int] | None:
        """The number of pods in each group; None without `uses`."""
        return self._groups

    def _take(self, seen: tuple[Signature, ...], loaded: Manifests) -> None:
        for warning in loaded.warnings:
            _LOG.warning(warning)
        self._store.replace_all(loaded.nodes.values(), loaded.runtime_classes.values())
        if loaded.uses is not None:
            classes = loaded.runtime_classes
            pods = filter(is_followed, loaded.uses.pods.values())
            self._groups = Counter(group_of(each, classes) for each in pods)
            loads = Loads()
            for pod in loaded.pods.values():
                if load := load_of_pod(pod):
                    loads.add(load, pod.runtime_class_name)
            self.loads = loads
        self.waiting = WaitingPods.of(
            WaitingPod(pod.namespace or "default", pod.name, pod.runtime_class_name)
            for pod in loaded.pods.values()
            if pod.runtime_class_name and not (pod.state.node_name or pod.state.is_finished)
        )
        # The store has the classes, and the labels and allocatable of nodes, which are large.
        nodes = {
            name: replace(node, labels=NOTHING, allocatable=b"")
            for name, node in loaded.nodes.items()
        }
        self.manifests = Manifests(nodes=nodes, pods=loaded.pods, namespaces=loaded.namespaces)
        self._taken_at = self._clock()
        self._loaded = self._seen = seen
        self._error = ""

    def _fail(self, text: str, *, unexpected: bool = False) -> None:
        if text != self._error:
            # Set before it is logged: /readyz?verbose shows it as soon as the log has it.
            self._error, self._failed_at = text, self._clock()
            _LOG.error(
                "manifests not reloaded, keeping the previous state",
                extra={"cause": text},
                exc_info=unexpected,
            )
