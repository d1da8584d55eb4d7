"""Which runtime handlers of nodes are suspect: nodes report them, but pods fail to start with them.

A handler of a node becomes suspect when pods of two controllers have had no sandbox there for some
time, or two pods of one controller whose pods have started on another node. No sandbox of that
handler may have started there since the first of these pods was bound. A sandbox that starts clears
the suspicion. A suspect may be refused: for 5 minutes, then one pod may try it. Each failed try
doubles the time, up to an hour.
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

#: The most controllers for which the nodes of started pods are remembered, at about 300 bytes each.
MAX_CONTROLLERS: Final = 16_384

#: If one in so many of a class's nodes is suspect, the handlers are hardly the cause.
_TOO_MANY: Final = 3

#: The name of the handler that runs pods without a RuntimeClass.
DEFAULT_HANDLER: Final = ""


class Pair(NamedTuple):
    """A runtime handler of a node."""

    node: bytes
    handler: str


class Attempts(NamedTuple):
    """The pods of a handler without a sandbox on a node, and when a sandbox last started there."""

    pods: Sequence[Sandbox] = ()
    last_start: float = 0.0

    def failed(self, now: float, after: float, bound: float = 0.0) -> list[Sandbox]:
        """The pods that count, were bound at `bound` or later, and have failed for `after` seconds.

        Pods that were not bound after the last start are left out.
        """
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
    """What is known about the sandboxes of waiting pods and suspects. Not thread-safe."""

    def __init__(self) -> None:
        #: The pods without a sandbox, by NAMESPACE/NAME.
        self.waiting: dict[bytes, Sandbox] = {}
        #: A list is being read: the waiting pods to which known starts relate may still arrive.
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
            # With two nodes, at least one differs from any given node.
            self._started_on[of_controller] = tuple(nodes)[:2]
            if len(self._started_on) > MAX_CONTROLLERS:
                self._started_on.popitem(last=False)

    def attempts(
        self, classes: Mapping[str, RuntimeClass], suspects: Iterable[Pair] = ()
    ) -> Mapping[Pair, Attempts]:
        """The attempts by pair. Forgets the starts on nodes without a waiting pod or a suspect."""
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
        """Whether these pods, which failed on one node, are enough evidence against the handler."""
        by_controller = Counter((each.controller, each.runtime_class) for each in failed)
        if len({controller for controller, _ in by_controller}) > 1:
            return True
        return len(failed) > 1 and any(
            node != failed[0].node
            for key in by_controller
            for node in self._started_on.get(key, ())
        )


def _handler(pod: Sandbox, classes: Mapping[str, RuntimeClass]) -> str | None:
    """The pod's handler, None if its class is gone or was created after the pod was bound."""
    if not pod.runtime_class:
        return DEFAULT_HANDLER
    found = classes.get(pod.runtime_class)
    if found is None or (seconds_of(found.creation_timestamp) or 0.0) > pod.bound:
        return None
    return found.handler


class Suspicion(NamedTuple):
    """Why a handler is suspect, and for how long.

    pods: the number of failed pods. since: when the first of them was bound. until: from then on
    one pod may try. failures: 1, plus 1 for each failed try. may_try: a pod may try now.
    """

    pods: int
    since: float
    until: float
    failures: int = 1
    may_try: bool = False


def judged(
    before: Suspicion | None, seen: Attempts, evidence: Evidence, now: float, after: float
) -> Suspicion | None:
    """The suspicion against one handler of a node, None if there is none.

    after: the seconds without a sandbox after which a pod has failed.
    """
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
    # The API's times are whole seconds.
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
    """The suspects by node; and, by class or node, why a cause other than the handlers is likely.

    default_fails: nodes where pods without a class fail too. refuses: suspects may be refused.
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
    """Class name → the number of matching nodes on which the class's handler is suspect."""
    classes, counts = snapshot.runtime_classes, Counter[str]()
    for node, here in suspects.items():
        handlers = {each.handler for each in here}
        names = support.classes(snapshot, snapshot.nodes[node]) if snapshot.nodes[node] else ()
        counts.update(name for name in names if classes[name].handler in handlers)
    return counts
