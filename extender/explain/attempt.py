"""kube-scheduler's next attempt to place a pod, and its event text if the attempt fails.

kube-scheduler runs its own filters first and the extender last. An explanation judges the class
first, so it counts other reasons. Upstream, v1.36.3 and v1.37.1: findNodesThatFitPod of
pkg/scheduler/schedule_one.go, FitError.Error of pkg/scheduler/framework/types.go, fitsRequest of
plugins/noderesources/fit.go, Preempt of framework/preemption/preemption.go with SelectVictimsOnNode
of plugins/defaultpreemption/default_preemption.go.

Not considered: ports, volumes, claims, pod affinity, topology spread, other plugins and extenders.
With 100 nodes and more kube-scheduler may stop before it has looked at all of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import Final

from extender.explain.explanation import fit_error, judge_class
from extender.explain.own_checks import OwnChecks, Question, Room, request_of_pod
from extender.kubernetes import versions
from extender.kubernetes.versions import Version
from extender.model.objects import MARK, Taint
from extender.model.reasons import LEFT_OUT, POD_TAINT, TERMS_CONFLICT, Reason, resources_lacking
from extender.rules import resource_fit
from extender.rules.resource_fit import Insufficient, NodeLoad, PodsBeside, UncountedError
from extender.rules.verdicts import Verdicts, group_refusals

_NO_STATE: Final = "not found"
_NO_CLAIMS: Final = "no new claims to deallocate"
_PREEMPTION: Final = "preemption: "

Loads = Mapping[bytes, NodeLoad]


def filters_part(message: str) -> str:
    """A message without its part about preemption, which differs between versions."""
    for words in (_PREEMPTION, f"{_NO_CLAIMS}, {_PREEMPTION}", _NO_STATE):
        message = message.partition(f". {words}")[0]
    return message.removesuffix(".")


class Attempt:
    """kube-scheduler's attempt to place one pod on nodes; the methods take the nodes' loads."""

    def __init__(self, asked: Question) -> None:
        pod, candidates = asked.pod, asked.candidates
        # kube-scheduler leaves the resource MARK to the extender, unless its last event names it.
        counts_mark = f"Insufficient {MARK}" in pod.state.last_event
        ignored = frozenset[str]() if counts_mark else resource_fit.IGNORED
        self.pod = pod
        self._candidates = candidates
        self._own = OwnChecks(asked)
        self._room = Room(request_of_pod(asked), candidates.allocatable, ignored)
        self._by_class = judge_class(asked)
        self._ask_version = asked.version
        self._refused = Counter[tuple[Reason, Taint | None]]()
        self._reached: list[int] = []
        for position in range(len(candidates.names)):
            # A node that is not in the snapshot is refused only by the extender.
            known = candidates.ids[position]
            reason = self._own.before_resources(position) if known else None
            if reason is None:
                self._reached.append(position)
            else:
                taint = self._own.untolerated(position) if reason is POD_TAINT else None
                self._refused[reason, taint] += 1

    @property
    def reached(self) -> Sequence[bytes]:
        known = filter(self._candidates.ids.__getitem__, self._reached)
        ordered = sorted(known, key=lambda position: not self._fits(position, resource_fit.IDLE))
        return [self._candidates.names[position] for position in ordered]

    def fits(self, name: bytes, load: NodeLoad) -> bool:
        return self._fits(self._candidates.names.index(name), load)

    def event(self, loads: Loads) -> str:
        """The event text that kube-scheduler would write; empty if it would bind the pod.

        loads: the load of each node; a node without an entry is idle.
        """
        counts = Counter[str]()
        survivors, short = self._after_resources(loads, counts)
        by_class = Verdicts(
            [self._by_class.codes[position] for position in survivors], self._by_class.reasons
        )
        if any(by_class.passes):
            return ""
        for (reason, taint), size in self._refused.items():
            if reason is not LEFT_OUT or versions.COUNTS_LEFT_OUT.holds(self._version):
                text = reason.text
                if taint is not None and versions.NAMES_TAINTS.holds(self._version):
                    text = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
                counts[text] += size
        for group in group_refusals(by_class).groups:
            counts[group.text] += group.size
        total = len(self._candidates.names)
        head = fit_error(0, total, counts)
        if counts[TERMS_CONFLICT.text]:
            # kube-scheduler reports this before it looks at nodes, so without a number of nodes.
            head, short = f"0/{total} nodes are available: {TERMS_CONFLICT.text}.", ()
            if versions.is_on("DynamicResourceAllocation", self._version):
                # The plugin has not begun to filter: it finds no state of its own, and gives up.
                return f"{head} {_NO_STATE}"
        return f"{head} {self._preemption(short, loads)}".rstrip()

    @cached_property
    def _version(self) -> Version:
        return self._ask_version() or versions.NEWEST

    def _fits(self, position: int, load: NodeLoad) -> bool:
        return (
            self._by_class.reason(position) is None
            and not self._room.lacking(position, resource_fit.used(load))
            and self._own.after_resources(position) is None
        )

    def _after_resources(
        self, loads: Loads, counts: Counter[str]
    ) -> tuple[Sequence[int], Sequence[int]]:
        """(nodes that the extender is asked about, nodes where evictions may make room)."""
        survivors, short = [], []
        for position in self._reached:
            found = self._room.lacking(position, resource_fit.used(self._load(position, loads)))
            counts.update(map(_text, found))
            reason = None if found else self._own.after_resources(position)
            if reason is not None:
                counts[reason.text] += 1
            elif not found:
                survivors.append(position)
            elif not any(
                each.resource != resource_fit.PODS and each.is_hopeless for each in found
            ) or versions.EVICTS_IN_VAIN.holds(self._version):
                short.append(position)
        return survivors, short

    def _load(self, position: int, loads: Loads) -> NodeLoad:
        return loads.get(self._candidates.names[position], resource_fit.IDLE)

    def _preemption(self, short: Sequence[int], loads: Loads) -> str:
        """The message of the plugins that make room; empty if evictions would make room."""
        said, last = self._evictions(short, loads), self.pod.state.last_event
        if not said:
            return ""
        # The last event shows best whether claims are mentioned: that depends on configuration.
        tells_of_claims = _NO_CLAIMS in last
        if _PREEMPTION not in last:
            tells_of_claims = versions.TELLS_OF_CLAIMS.holds(self._version)
        return f"{f'{_NO_CLAIMS}, ' if tells_of_claims else ''}{_PREEMPTION}{said}"

    def _evictions(self, short: Sequence[int], loads: Loads) -> str:
        pod, counts, helped = self.pod, Counter[str](), bytearray(len(self._candidates.names))
        if not pod.state.preempts:
            return "not eligible due to preemptionPolicy=Never."
        for position in short:
            load = self._load(position, loads)
            if all(priority >= pod.state.priority for priority in load):
                counts["No preemption victims found for incoming pod"] += 1
                continue
            kept = resource_fit.used(load, least_priority=pod.state.priority)
            found = self._room.lacking(position, kept)
            reason = None if found else self._own.after_resources(position)
            counts.update(map(_text, found))
            if reason is not None:
                counts[reason.text] += 1
            helped[position] = not found and reason is None
        if any(helped):
            # The extender's preempt verb keeps only the nodes that match the class.
            kept_by_class = any(compress(self._by_class.passes, helped))
            return "" if kept_by_class else "no candidate node for preemption"
        total = len(self._candidates.names)
        counts["Preemption is not helpful for scheduling"] = total - len(short)
        return fit_error(0, total, counts)


def outlook_of(attempt: Attempt, pods_beside: PodsBeside) -> tuple[str, str]:
    """(the event text that kube-scheduler would write, why running pods are not counted).

    The event text is empty if there would be none, the cause if the pods are counted.
    """
    pod = attempt.pod
    if not pod.state.waits:
        return "", ""
    try:
        loads, uncounted = resource_fit.node_loads(pods_beside(attempt), pod), ""
    except UncountedError as error:
        loads, uncounted = {}, str(error)
    return attempt.event(loads), uncounted


def _text(lacking: Insufficient) -> str:
    return resources_lacking((lacking.resource,)).text
