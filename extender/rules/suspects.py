"""Which runtime handlers of nodes are suspect: what happened there against what the node reports.

A handler of a node becomes suspect when pods of two controllers, or two pods of one whose pods have
started on another node, have no sandbox there for some time, and no sandbox of that handler has
started there since the first of them was bound. A sandbox that starts clears it. Meanwhile it may
be refused: for 5 minutes, then until one pod has tried; each failure doubles the time, up to an
hour.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from extender.kubernetes.sandboxes import seconds_of
from extender.model.names import text_of
from extender.model.objects import RuntimeClass, Suspect
from extender.model.using_objects import Sandbox
from extender.rules.class_nodes import Support
from extender.rules.snapshot import Snapshot

FIRST_SECONDS: Final = 300.0
LONGEST_SECONDS: Final = 3600.0

#: Controllers of which it is remembered where their pods have started, some 300 bytes each.
MAX_CONTROLLERS: Final = 16_384

#: Of a class's nodes, the part from which on suspects have another cause than their handlers.
_TOO_MANY: Final = 3

#: The name of the handler of pods without a RuntimeClass.
DEFAULT_HANDLER: Final = ""


class Pair(NamedTuple):
    """A runtime handler of a node."""

    node: bytes
    handler: str


class Attempts(NamedTuple):
    """The pods of a handler that have no sandbox on a node, and when one last started there."""

    pods: Sequence[Sandbox] = ()
    last_start: float = 0.0

    def failed(self, now: float, after: float, bound: float = 0.0) -> list[Sandbox]:
        """The pods bound from then on that count, and have failed for `after` seconds."""
        return [
            each
            for each in self.pods
            if each.counts
            and each.bound > self.last_start
            and each.bound >= bound
            and each.failing_since is not None
            and now - each.failing_since >= after
        ]


class Evidence:
    """What is known of pods' sandboxes: by recent pods and suspects, not by all pods.

    Not safe for several threads at once.
    """

    def __init__(self) -> None:
        #: By the pod's name.
        self.waiting: dict[bytes, Sandbox] = {}
        #: While a list is being read, the pods that starts speak of may be still to come.
        self.is_listing = False
        self._starts: dict[tuple[bytes, str], float] = {}
        self._started_on: OrderedDict[tuple[str, str], tuple[bytes, ...]] = OrderedDict()

    def start(self, pod: Sandbox) -> None:
        """Note a pod whose sandbox has started, perhaps long ago."""
        key = pod.node, pod.runtime_class
        self._starts[key] = max(self._starts.get(key, 0.0), pod.started or 0.0)
        if pod.runtime_class:
            of_controller = pod.controller, pod.runtime_class
            nodes = dict.fromkeys((pod.node, *self._started_on.pop(of_controller, ())))
            # Two nodes are enough for there to be another one than any.
            self._started_on[of_controller] = tuple(nodes)[:2]
            if len(self._started_on) > MAX_CONTROLLERS:
                self._started_on.popitem(last=False)

    def attempts(
        self, classes: Mapping[str, RuntimeClass], suspects: Iterable[Pair] = ()
    ) -> Mapping[Pair, Attempts]:
        """By handler and node; starts that concern no waiting pod and no suspect are forgotten."""
        pods: dict[Pair, list[Sandbox]] = {each: [] for each in suspects}
        for pod in self.waiting.values():
            handler = _handler(pod, classes)
            if handler is not None:
                pods.setdefault(Pair(pod.node, handler), []).append(pod)
        if not self.is_listing:
            nodes = {pair.node for pair in pods} | {pod.node for pod in self.waiting.values()}
            self._starts = {key: at for key, at in self._starts.items() if key[0] in nodes}
        starts: dict[Pair, float] = {}
        for (node, name), at in self._starts.items():
            known = classes.get(name)
            pair = Pair(node, known.handler if known else name and "?")
            starts[pair] = max(starts.get(pair, 0.0), at)
        return {pair: Attempts(tuple(here), starts.get(pair, 0.0)) for pair, here in pods.items()}

    def is_enough(self, failed: Sequence[Sandbox]) -> bool:
        """Whether these pods, which failed on one node, speak against the handler."""
        by_controller = Counter((each.controller, each.runtime_class) for each in failed)
        if len({controller for controller, _ in by_controller}) > 1:
            return True
        return len(failed) > 1 and any(
            node != failed[0].node
            for key in by_controller
            for node in self._started_on.get(key, ())
        )


def _handler(pod: Sandbox, classes: Mapping[str, RuntimeClass]) -> str | None:
    """None for a pod whose class is gone, or was created after the pod was bound."""
    if not pod.runtime_class:
        return DEFAULT_HANDLER
    found = classes.get(pod.runtime_class)
    if found is None or (seconds_of(found.creation_timestamp) or 0.0) > pod.bound:
        return None
    return found.handler


class Suspicion(NamedTuple):
    """Why a handler is suspect, and for how long.

    pods: how many have failed. since: when the first of them was bound. until: the time from which
    one pod may try. failures: how often a try has failed. may_try: now a pod may try.
    """

    pods: int
    since: float
    until: float
    failures: int = 1
    may_try: bool = False


def judged(
    before: Suspicion | None, seen: Attempts, evidence: Evidence, now: float, after: float
) -> Suspicion | None:
    """The suspicion against one handler of a node; None where there is none."""
    if before is None:
        failed = seen.failed(now, after)
        if not evidence.is_enough(failed):
            return None
        since = min(each.bound for each in failed)
        return Suspicion(len(failed), since, now + FIRST_SECONDS)
    if seen.last_start >= before.since:
        return None
    if now < before.until:
        return before
    # Kubernetes writes whole seconds.
    tried = float(int(before.until))
    failed = seen.failed(now, after, tried)
    if failed:
        rest = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(before.failures, 10))
        pods = len(seen.failed(now, after))
        return Suspicion(pods, before.since, now + rest, before.failures + 1)
    if not seen.pods and now >= before.until + LONGEST_SECONDS:
        return None
    is_tried = any(
        each.bound >= tried and (each.failing_since is None or now - each.failing_since < after)
        for each in seen.pods
    )
    return before._replace(may_try=not is_tried)


def judgement(
    suspicions: Mapping[Pair, Suspicion],
    default_fails: Set[bytes],
    snapshot: Snapshot,
    support: Support,
    *,
    refuses: bool,
) -> tuple[Mapping[bytes, frozenset[Suspect]], Mapping[str, str]]:
    """The suspects by node; and by where it is what speaks for another fault than the handlers'.

    default_fails: nodes where pods without a class fail too. refuses: whether any are refused.
    """
    found: dict[bytes, frozenset[Suspect]] = {}
    for (node, handler), each in suspicions.items():
        found[node] = found.get(node, frozenset()) | {Suspect(handler, each.pods)}
    outages, spared = dict[str, str](), set[str]()
    for name, suspects in suspect_nodes(found, snapshot, support).items():
        matching = support.counts(snapshot).nodes[name]
        if suspects * _TOO_MANY >= matching:
            spared.add(name)
            outages[f"class {name}"] = (
                f"pods fail to start on {suspects} of {matching} nodes of RuntimeClass"
                f' "{name}": its handler is hardly the cause, and no node is refused'
            )
    for node in default_fails & found.keys():
        outages[f"node {text_of(node)}"] = (
            f"pods without a RuntimeClass fail to start on node {text_of(node)} too: no handler is"
            " refused there"
        )
    for (node, handler), each in suspicions.items() if refuses else ():
        if not each.may_try and node not in default_fails:
            names = frozenset(
                name
                for name, known in snapshot.runtime_classes.items()
                if known.handler == handler and name not in spared
            )
            suspect = Suspect(handler, each.pods)
            found[node] = found[node] - {suspect} | {suspect._replace(refused=names)}
    return found, outages


def suspect_nodes(
    suspects: Mapping[bytes, frozenset[Suspect]], snapshot: Snapshot, support: Support
) -> Mapping[str, int]:
    """By class how many nodes match it and have its handler among their suspects."""
    classes, counts = snapshot.runtime_classes, Counter[str]()
    for node, here in suspects.items():
        handlers = {each.handler for each in here}
        names = support.classes(snapshot, snapshot.nodes[node]) if snapshot.nodes[node] else ()
        counts.update(name for name in names if classes[name].handler in handlers)
    return counts
