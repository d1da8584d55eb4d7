"""Static fit: the pod's requests compared with all that a node has, whatever runs there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from extender.decoding.decoder import DecodeError
from extender.decoding.resource_amounts import allocatable_of
from extender.objects import Pod, RuntimeClass
from extender.predicates.resource_fit import (
    PODS,
    Insufficient,
    Request,
    amount_text,
    amounts_in_billionths,
    counted,
    insufficient,
    request_of,
)
from extender.reasons import Reason, number_of, resources_lacking, shown
from extender.verbs.explain.origin import Origin

#: The number of resources listed for a node; a pod's author may ask for thousands.
_MAX_TOLD: Final = 8


@dataclass(slots=True)
class _Shortage:
    """One resource that nodes lack; least and most are the amounts that these nodes have."""

    found: Insufficient
    least: int
    most: int

    def text(self, nodes: int) -> str:
        name, found = self.found.resource, self.found
        if name == PODS:
            return f"Too many pods: {self.most} allocatable on {number_of(nodes, 'node')}"
        part = amount_text(name, found.overhead)
        of_class = f" ({part} of it RuntimeClass overhead)" if found.overhead else ""
        at_most = "" if self.least == self.most else "at most "
        return (
            f"Insufficient {shown(name)}: {amount_text(name, found.asked)} asked{of_class},"
            f" {at_most}{amount_text(name, self.most)} allocatable on {number_of(nodes, 'node')}"
        )


def request_of_pod(pod: Pod, runtime_class: RuntimeClass | None) -> Request | None:
    """What the pod asks for; None where its resources were not read.

    A pod that no API server has seen yet gets its class's overhead.
    """
    if pod.resources is None:
        return None
    expected = runtime_class is not None and not pod.uid and not pod.overhead
    overhead = amounts_in_billionths(runtime_class.overhead) if expected and runtime_class else None
    return request_of(pod.resources, overhead)


class StaticFit:
    """Judges the nodes of one explanation. A resource that a node does not report is not judged."""

    def __init__(self, request: Request, allocatable: Callable[[int], bytes]) -> None:
        """allocatable: status.allocatable of the node at a position, as JSON."""
        self._request = request
        self._allocatable = allocatable
        self._found: dict[bytes, tuple[Insufficient, ...]] = {}
        self._reasons: dict[tuple[str, ...], Reason] = {}
        self._shortages: dict[Reason, dict[str, _Shortage]] = {}

    def reason(self, position: int) -> Reason | None:
        """Why the pod would not fit on the node even if it were empty."""
        raw = self._allocatable(position)
        found = self._found.get(raw)
        if found is None:
            found = self._found[raw] = self._judge(raw)
        return self._reason_of(found) if found else None

    def _judge(self, raw: bytes) -> tuple[Insufficient, ...]:
        if not raw:
            return ()
        try:
            has = counted(allocatable_of(raw))
        except DecodeError:
            # Manifests are checked as they are read, and no API server has such a node.
            return ()
        return tuple(insufficient(self._request, has)[:_MAX_TOLD])

    def _reason_of(self, found: tuple[Insufficient, ...]) -> Reason:
        """One reason for all nodes that lack the same resources."""
        names = tuple(each.resource for each in found)
        reason = self._reasons.get(names)
        if reason is None:
            reason = self._reasons[names] = resources_lacking(names)
            self._shortages[reason] = {
                each.resource: _Shortage(each, each.allocatable, each.allocatable) for each in found
            }
        shortages = self._shortages[reason]
        for each in found:
            shortage = shortages[each.resource]
            shortage.least = min(shortage.least, each.allocatable)
            shortage.most = max(shortage.most, each.allocatable)
        return reason

    def text(self, reason: Reason, nodes: int) -> str:
        """The reason with the amounts, for this number of nodes."""
        return "; ".join(each.text(nodes) for each in self._shortages[reason].values())

    def told(self, reason: Reason) -> tuple[str, ...]:
        """The reason in kube-scheduler's words: a text for each resource."""
        return tuple(resources_lacking((name,)).text for name in self._shortages[reason])

    def origin(self, reason: Reason) -> Origin:
        """RuntimeClass where the pod would fit without its overhead."""
        by_class = all(
            each.found.asked - each.found.overhead <= each.least
            for each in self._shortages[reason].values()
        )
        return Origin.RUNTIME_CLASS if by_class else Origin.POD


def request_texts(request: Request) -> Mapping[str, str]:
    """What is asked for, by resource: 2Gi (160Mi of it overhead)."""
    texts = {}
    for name, amount in sorted(request.total.items()):
        part = request.overhead.get(name, 0)
        if amount and name != PODS:
            some = f"{amount_text(name, part)} of it overhead"
            of_class = f" ({'overhead' if part == amount else some})" if part else ""
            texts[name] = f"{amount_text(name, amount)}{of_class}"
    return texts
