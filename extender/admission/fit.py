"""Which RuntimeClasses could run a pod, best first (KEP-585: fitting a class to a pod's needs)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from extender.admission.merging import TooManyTermsError, joined_terms, surviving
from extender.admission.reviewed_pod import MIRROR_ANNOTATION, ReviewedPod
from extender.explain.explanation import explain
from extender.explain.own_checks import Question
from extender.explain.requirements import normal
from extender.kubernetes.class_annotations import ISOLATION_ANNOTATION, ISOLATION_LEVELS
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.namespaces import NamespaceRules
from extender.kubernetes.quantity import billionths
from extender.model.errors import Effort, TooMuchEffortError
from extender.model.objects import OS_LABEL, Pod, RuntimeClass
from extender.model.pod_needs import untimed
from extender.model.reasons import shown
from extender.rules.node_checks import Policy, unsupported_reason
from extender.rules.node_selector import missing_labels
from extender.rules.pools import nodes_of
from extender.rules.resource_fit import amounts_in_billionths
from extender.rules.snapshot import Snapshot

#: The operating system of a pod or class that names none.
LINUX: Final = "linux"


@dataclass(frozen=True, slots=True)
class Fit:
    """A class, and the number of nodes on which the pod passes with it, or why it does not fit.

    other_system: the operating system of the class's nodes if it is not the pod's, else "".
    """

    runtime_class: RuntimeClass
    nodes: int = 0
    reason: str = ""
    other_system: str = ""

    @property
    def fits(self) -> bool:
        return not self.reason


def fit(
    pod: Pod,
    snapshot: Snapshot,
    policy: Policy,
    rules: NamespaceRules | None = None,
    isolation: str = "",
    effort: Effort | None = None,
) -> Sequence[Fit]:
    """The classes that fit, by most nodes, least overhead and name; then the others by name.

    Classes that fit but are for another operating system come after the other classes that fit.
    rules: of the pod's namespace, None if unknown. isolation: the lowest level, "" for any.
    """
    classes = snapshot.runtime_classes
    bare = _without_class(pod, classes.get(pod.runtime_class_name))
    asked = Question(bare, None, nodes_of(snapshot), policy)
    found = [_judge(asked, each, rules, isolation, effort) for each in classes.values()]
    return sorted(found, key=_rank)


def _judge(
    asked: Question,
    runtime_class: RuntimeClass,
    rules: NamespaceRules | None,
    isolation: str,
    effort: Effort | None,
) -> Fit:
    refusal = rules.refusal(runtime_class.name) if rules is not None else ""
    if refusal:
        return Fit(runtime_class, reason=refusal)
    has = runtime_class.isolation or ISOLATION_LEVELS[0]
    if isolation and ISOLATION_LEVELS.index(has) < ISOLATION_LEVELS.index(isolation):
        said = f"isolation {has}" if runtime_class.isolation else "no isolation declared"
        return Fit(runtime_class, reason=f"{said}, {isolation} is asked for")
    unsupported = unsupported_reason(asked.pod.uses, runtime_class)
    if unsupported is not None:
        return Fit(runtime_class, reason=unsupported.text)
    if effort is not None:
        effort.spend((len(asked.pod.tolerations) + len(runtime_class.tolerations)) ** 2)
    try:
        admitted = as_admitted(asked.pod, runtime_class)
    except TooManyTermsError as error:
        return Fit(runtime_class, reason=f"the terms of class and pod together have {error}")
    with_class = replace(asked, pod=admitted, runtime_class=runtime_class)
    explanation = explain(with_class, effort=effort)
    if not explanation.feasible:
        return Fit(runtime_class, reason=explanation.summary.rstrip("."))
    system = dict(runtime_class.node_selector).get(OS_LABEL, LINUX)
    other = "" if system == _system_of(asked.pod) else system
    return Fit(runtime_class, explanation.feasible, other_system=other)


def _system_of(pod: Pod) -> str:
    """The pod's operating system. Linux if it names none, because most images are for Linux."""
    needs = pod.kubelet_needs
    said = (needs.system or needs.system_label) if needs else None
    return said or pod.node_selector.get(OS_LABEL, LINUX)


def as_admitted(pod: Pod, runtime_class: RuntimeClass) -> Pod:
    """The pod as admission would change it. A label conflict remains. Raises TooManyTermsError."""
    own, of_class = pod.tolerations, tuple(map(untimed, runtime_class.tolerations))
    both = (*own, *of_class)
    terms = joined_terms(pod.node_affinity, runtime_class.rules)
    overhead, resources = runtime_class.overhead, pod.resources
    if resources is not None:
        resources = replace(resources, overhead=amounts_in_billionths(overhead))
    return replace(
        pod,
        runtime_class_name=runtime_class.name,
        node_selector={**dict(runtime_class.node_selector), **pod.node_selector},
        tolerations=tuple(both[place] for place in surviving(own, of_class)),
        node_affinity=pod.node_affinity if terms is None else terms,
        overhead=overhead,
        resources=resources,
    )


def _without_class(pod: Pod, runtime_class: RuntimeClass | None) -> Pod:
    """The pod without class and overhead, and without the class's scheduling if all is there."""
    if runtime_class is None:
        return replace(pod, runtime_class_name="")
    given = [normal(each) for each in runtime_class.tolerations]
    own = [normal(each) for each in pod.tolerations]
    selector = dict(pod.node_selector)
    # Admission leaves out the class's tolerations that the pod's own cover.
    carried = max(surviving(own, given), default=-1) < len(own)
    if carried and not missing_labels(runtime_class.node_selector, selector):
        for key, _ in runtime_class.node_selector:
            del selector[key]
        kept = tuple(each for each in pod.tolerations if normal(each) not in given)
        if pod.node_affinity == joined_terms(None, runtime_class.rules):
            pod = replace(pod, node_affinity=None)
        pod = replace(pod, node_selector=selector, tolerations=kept)
    return replace(pod, runtime_class_name="", overhead={})


def _rank(each: Fit) -> tuple[bool, bool, int, int, int, str]:
    overhead = each.runtime_class.overhead if each.fits else {}
    memory, cpu = (billionths(overhead.get(name, "0")) for name in ("memory", "cpu"))
    name = each.runtime_class.name
    return not each.fits, bool(each.other_system), -each.nodes, memory, cpu, name


@dataclass(frozen=True, slots=True)
class Given:
    """The class that admission assigns to a pod that names none.

    origin: the annotation that assigns it. refusal: why the pod can't have it; "" if it can.
    by_default: false if the pod asked for an isolation level.
    """

    name: str
    origin: str
    refusal: str
    warnings: tuple[str, ...] = ()
    by_default: bool = True


#: In comparisons: about two seconds for a pod. kube-apiserver waits five, as registered.
MAX_EFFORT: Final = 2_000_000

#: A message names at most this many classes that do not fit.
_TOLD: Final = 8


def asked_isolation(pod: ReviewedPod) -> str | None:
    """The level that a pod asks for by annotation; None if it has no annotation, or a class."""
    annotations = pod.annotations()
    named = not pod.has_spec or pod.runtime_class_name is not None
    if named or MIRROR_ANNOTATION in annotations or ISOLATION_ANNOTATION not in annotations:
        return None
    return annotations[ISOLATION_ANNOTATION].strip()


def fitted_class(
    pod: ReviewedPod, level: str, snapshot: Snapshot, rules: NamespaceRules | None
) -> Given:
    """The best class with at least this isolation level for a pod, or why there is none."""
    origin = f"annotation {ISOLATION_ANNOTATION} of the pod"

    def refused(text: str) -> Given:
        return Given("", origin, text, by_default=False)

    if level not in ISOLATION_LEVELS:
        said = f'isolation "{shown(level)}" of annotation {ISOLATION_ANNOTATION}'
        return refused(f"{said} is none of {', '.join(ISOLATION_LEVELS)}")
    try:
        found = fit(explained_pod(pod.raw), snapshot, Policy(), rules, level, Effort(MAX_EFFORT))
    except TooMuchEffortError:
        return refused("the pod's node affinity and tolerations are too many to try on every node")
    if found and found[0].fits:
        return Given(found[0].runtime_class.name, origin, "", by_default=False)
    told = [f'"{shown(each.runtime_class.name)}": {shown(each.reason)}' for each in found[:_TOLD]]
    if len(found) > _TOLD:
        told.append(f"and {len(found) - _TOLD} more")
    why = "; ".join(told) or "there is none at all"
    return refused(f"no RuntimeClass of isolation {level} fits: {why}")
