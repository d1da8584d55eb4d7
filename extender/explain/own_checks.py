"""kube-scheduler's own checks of a pod on a node, in the order of its plugins.

The checks: node names in the required node affinity; cordon; taints, by the pod's own tolerations;
nodeSelector and required node affinity; requests; features that the node has to declare.
Order: pkg/scheduler/apis/config/v1/default_plugins.go, v1.37.1.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.resources import allocatable_of
from extender.kubernetes.versions import Version
from extender.model import reasons
from extender.model.errors import Effort
from extender.model.names import text_of
from extender.model.objects import Amounts, Pod, RuntimeClass, Taint
from extender.model.reasons import Reason
from extender.rules import resource_fit
from extender.rules.kubelet_checks import judged_features, undeclared_reason
from extender.rules.node_checks import Policy
from extender.rules.node_selector import RequiredNodeAffinity, UnreadableTerm, names_left
from extender.rules.pools import Candidates
from extender.rules.resource_fit import IGNORED, Insufficient, Request
from extender.rules.tolerations import TolerationSet, find_untolerated_taint, tolerates_cordon

#: Returns the control plane's version, None if unknown. It may ask the API server.
AskVersion = Callable[[], Version | None]


@dataclass(frozen=True, slots=True)
class Question:
    """May a pod run on these nodes?

    runtime_class: the pod's class, None if the pod names none or the class does not exist.
    version: called only if a verdict depends on the version.
    """

    pod: Pod
    runtime_class: RuntimeClass | None
    candidates: Candidates
    policy: Policy
    version: AskVersion = lambda: None


class OwnChecks:
    """The checks of one pod; a node is given by its position among the candidates.

    Label verdicts are cached by the labels that the pod asks about: of 65,000 nodes few differ in
    them. Raises TooMuchEffortError if the effort is limited and runs out.
    """

    def __init__(self, asked: Question, effort: Effort | None = None) -> None:
        pod, candidates = asked.pod, asked.candidates
        terms = pod.node_affinity or ()
        of_terms = (1 + len(each.match_expressions) + len(each.match_fields) for each in terms)
        self._size = sum(of_terms) + len(pod.node_selector) + len(pod.tolerations)
        self._effort = effort
        self._spend()
        self._pod = pod
        self._affinity = None if pod.node_affinity is None else RequiredNodeAffinity(terms)
        self._candidates = candidates
        own = TolerationSet(pod.tolerations, comparison_operators=asked.policy.comparison_operators)
        shapes = candidates.shapes.shapes
        self._untolerated = [None, *(find_untolerated_taint(each.taints, own) for each in shapes)]
        self._by_shape = [reasons.POD_TAINT if each else None for each in self._untolerated]
        if not tolerates_cordon(own):
            for shape_id, shape in enumerate(shapes, 1):
                if shape.unschedulable:
                    self._by_shape[shape_id] = reasons.CORDONED
        needs = pod.declared_needs
        needed = judged_features(needs, shapes, asked.version() if needs else None)
        self._undeclared = [None, *(undeclared_reason(needed, each) for each in shapes)]
        self._left = names_left(terms)
        # The node names in matchFields. All other names have the same result.
        self._named = {v for term in terms for each in term.match_fields for v in each.values}
        keys = {each.key for term in terms for each in term.match_expressions}
        self._asked = {*pod.node_selector, *keys}
        self._known: dict[Hashable, Reason | None] = {}

    def _spend(self) -> None:
        if self._effort is not None:
            self._effort.spend(self._size)

    @property
    def unreadable_terms(self) -> Sequence[UnreadableTerm]:
        return self._affinity.unreadable if self._affinity else ()

    def before_resources(self, position: int) -> Reason | None:
        by_labels = self.by_labels(position)
        if by_labels is reasons.LEFT_OUT or by_labels is reasons.TERMS_CONFLICT:
            return by_labels
        return self._by_shape[self._candidates.ids[position]] or by_labels

    def after_resources(self, position: int) -> Reason | None:
        return self._undeclared[self._candidates.ids[position]]

    def untolerated(self, position: int) -> Taint | None:
        return self._untolerated[self._candidates.ids[position]]

    def by_labels(self, position: int) -> Reason | None:
        """Why the node's labels or name keep the pod away."""
        if not self._pod.node_selector and self._affinity is None:
            return None
        name = text_of(self._candidates.names[position]) if self._named else ""
        if self._left is not None and name not in self._left:
            return reasons.LEFT_OUT if self._left else reasons.TERMS_CONFLICT
        labels = self._candidates.labels(position)
        asked = frozenset(each for each in labels.items() if each[0] in self._asked)
        seen = (name if name in self._named else None, asked)
        if seen not in self._known:
            self._spend()
            self._known[seen] = self._judge(labels, name)
        return self._known[seen]

    def _judge(self, labels: Mapping[str, str], name: str) -> Reason | None:
        if any(labels.get(key) != value for key, value in self._pod.node_selector.items()):
            return reasons.POD_SELECTOR
        if self._affinity is None or self._affinity.matches(labels, name):
            return None
        return reasons.POD_AFFINITY


#: The number of lacking resources listed for a node; a pod may ask for thousands.
_MAX_LISTED: Final = 8

_NOTHING: Final[Amounts] = {}


def request_of_pod(asked: Question) -> Request | None:
    """The pod's request, None if it was not read. An unadmitted pod gets its class's overhead."""
    pod, runtime_class = asked.pod, asked.runtime_class
    if pod.resources is None:
        return None
    overhead = None
    if runtime_class is not None and not pod.uid and not pod.overhead:
        overhead = resource_fit.amounts_in_billionths(runtime_class.overhead)
    return resource_fit.request_of(pod.resources, overhead)


class Room:
    """The resources that nodes lack for one pod; a node is given by its position.

    allocatable: returns the node's status.allocatable as JSON. Equal JSON is decoded once.
    """

    def __init__(
        self,
        request: Request | None,
        allocatable: Callable[[int], bytes],
        ignored: Collection[str] = IGNORED,
    ) -> None:
        self._request = request
        self._allocatable = allocatable
        self._ignored = ignored
        self._amounts = cache(_amounts)
        self._reason = cache(reasons.resources_lacking)
        self._idle = cache(partial(self._judge, beside=_NOTHING))

    def lacking(self, position: int, beside: Amounts = _NOTHING) -> Sequence[Insufficient]:
        """Every resource that the node lacks. beside: the amounts that other pods use there."""
        raw = self._allocatable(position)
        return self._judge(raw, beside) if beside else self._idle(raw)

    def _judge(self, raw: bytes, beside: Amounts) -> Sequence[Insufficient]:
        has = self._amounts(raw)
        if has is None or self._request is None:
            return ()
        return resource_fit.insufficient(self._request, has, beside, self._ignored)

    def reason(self, position: int) -> Reason | None:
        """Why the pod would not fit on the node even if nothing ran there."""
        names = tuple(each.resource for each in self.lacking(position)[:_MAX_LISTED])
        return self._reason(names) if names else None

    def lacking_by_resource(self, positions: Iterable[int]) -> Mapping[str, Sequence[Insufficient]]:
        """By name the resources that idle nodes lack, with an entry for each machine type."""
        found: dict[str, list[Insufficient]] = {}
        examples = {self._allocatable(position): position for position in positions}
        for position in examples.values():
            for each in self.lacking(position)[:_MAX_LISTED]:
                found.setdefault(each.resource, []).append(each)
        return found


def _amounts(raw: bytes) -> Amounts | None:
    """A node's status.allocatable; None if it reports none, and then it is not judged."""
    try:
        return resource_fit.counted(allocatable_of(raw)) if raw else None
    except DecodeError:  # a Node in a request, whose allocatable is not validated
        return None
