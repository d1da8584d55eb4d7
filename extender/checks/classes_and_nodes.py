"""Whether RuntimeClasses and nodes fit together: what no admission check of either can see."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from extender.checks.annotations_of_classes import check_annotations
from extender.checks.finding import Finding, Severity
from extender.checks.node_labels import is_set_by_kubelet, is_well_known
from extender.objects import HARD_EFFECTS, NodeRequirement, Pod, RuntimeClass, Taint, Toleration
from extender.predicates.node_checks import HandlerState, Policy, handler_state, is_condition_taint
from extender.predicates.shape_parts import readable_terms
from extender.predicates.tolerations import TolerationSet
from extender.reasons import listed, number_of, shown
from extender.shape import ShapeId
from extender.snapshot import Snapshot
from extender.verbs.class_index import ConstraintKey, constraint_key
from extender.verbs.class_nodes import Support, verdicts_of_class
from extender.verbs.explain.requirements import toleration_text

#: The operators that no node meets without the label.
_NEED_LABEL: Final = frozenset({"In", "Exists", "Gt", "Lt"})

Entry = tuple[str, str]


def check_classes(snapshot: Snapshot, support: Support, policy: Policy) -> list[Finding]:
    """All lints that need only the snapshot; those about nodes need at least one node."""
    classes = snapshot.classes_by_name
    findings = [
        *check_annotations(classes, snapshot),
        *_self_set_labels(classes),
        *_equal_constraints(classes),
    ]
    if snapshot.nodes:
        matching = support.counts(snapshot).nodes
        findings += _without_node(classes, snapshot, matching, policy)
        findings += _unreported_handlers(classes, snapshot)
        findings += _broken_promises(classes, snapshot)
    return findings


def _selector(entries: Iterable[Entry]) -> str:
    return ",".join(f"{shown(key)}={shown(value)}" for key, value in entries)


#: The number of classes for which reasons are worked out; each costs a look at every shape.
_MAX_REASONS: Final = 50


def _without_node(
    classes: Iterable[RuntimeClass],
    snapshot: Snapshot,
    matching: Mapping[str, int],
    policy: Policy,
) -> Iterator[Finding]:
    lonely = [each for each in classes if not matching[each.name]]
    of_all = number_of(len(snapshot.nodes), "node")
    for index, each in enumerate(lonely):
        cause = _most_frequent_reason(each, snapshot, policy) if index < _MAX_REASONS else ""
        yield Finding(
            Severity.ERROR,
            "no-matching-node",
            f'RuntimeClass "{each.name}" matches none of {of_all}{cause}',
            "its pods stay Pending for ever",
            f"kubectl label node NODE {_selector(each.node_selector)}"
            if each.node_selector
            else f"kubectl edit runtimeclass {each.name}",
            (each.name,),
        )


def _most_frequent_reason(runtime_class: RuntimeClass, snapshot: Snapshot, policy: Policy) -> str:
    verdicts = verdicts_of_class(runtime_class, snapshot.shapes.shapes, policy)
    nodes: Counter[str] = Counter()
    for shape_id, _, count in snapshot.shapes_in_use():
        reason = verdicts.reason(shape_id)
        if reason is not None:
            nodes[reason.text.removeprefix(reason.plain).strip()] += count
    most = min(nodes, key=lambda text: (-nodes[text], text), default="")
    return f", most for this: {most.strip('()')}" if most else ""


def _unreported_handlers(classes: Sequence[RuntimeClass], snapshot: Snapshot) -> Iterator[Finding]:
    reporting = 0
    reported: set[str] = set()
    for _, shape, nodes in snapshot.shapes_in_use():
        if shape.handlers:
            reporting += nodes
            reported.update(each.name for each in shape.handlers)
        if shape.is_docker:
            reported.add("docker")
    if not reporting:
        return
    by_handler: dict[str, list[str]] = {}
    for each in classes:
        if each.handler not in reported:
            by_handler.setdefault(each.handler, []).append(each.name)
    for handler, names in by_handler.items():
        yield Finding(
            Severity.ERROR,
            "unreported-handler",
            f'handler "{shown(handler)}" of RuntimeClass {listed(names)} is reported by none of the'
            f" {number_of(reporting, 'node')} that report any",
            f'the kubelet answers its pods with: no runtime for "{shown(handler)}" is configured',
            "install the runtime, or create the class anew, since a handler can't be changed, with"
            f" one of {listed(sorted(reported - {''}))}",
            tuple(names),
        )


def _broken_promises(classes: Iterable[RuntimeClass], snapshot: Snapshot) -> Iterator[Finding]:
    """Nodes whose labels say they run a class while their runtime lacks its handler."""
    by_entry: dict[Entry, list[RuntimeClass]] = {}
    for each in classes:
        if each.node_selector:
            by_entry.setdefault(each.node_selector[0], []).append(each)
    broken: dict[RuntimeClass, set[ShapeId]] = {}
    for shape_id, shape, _ in snapshot.shapes_in_use():
        for entry in shape.selector_entries:
            for each in by_entry.get(entry, ()):
                if (
                    shape.selector_entries.issuperset(each.node_selector)
                    and handler_state(shape, each.handler) is HandlerState.ABSENT
                ):
                    broken.setdefault(each, set()).add(shape_id)
    names = _names_by_shape(snapshot, set().union(*broken.values()))
    for each, shape_ids in sorted(broken.items(), key=lambda item: item[0].name):
        nodes = sorted(name for shape_id in shape_ids for name in names[shape_id])
        own = [key for key, _ in each.node_selector if not is_well_known(key)]
        unlabel = f"kubectl label node {shown(nodes[0])} {' '.join(f'{key}-' for key in own)}"
        yield Finding(
            Severity.ERROR,
            "handler-absent",
            f'{number_of(len(nodes), "node")} with the labels of RuntimeClass "{each.name}" lack'
            f'{"s" if len(nodes) == 1 else ""} its handler "{shown(each.handler)}":'
            f" {listed(nodes)}",
            "without the extender its pods are bound there and never start",
            f"mend the runtime there, or: {unlabel}" if own else "mend the runtime there",
            (each.name,),
        )


def _names_by_shape(snapshot: Snapshot, wanted: Collection[ShapeId]) -> Mapping[ShapeId, list[str]]:
    names: dict[ShapeId, list[str]] = {shape_id: [] for shape_id in wanted}
    if wanted:
        for name, shape_id in snapshot.nodes.items():
            if shape_id in names:
                names[shape_id].append(name.decode())
    return names


def _self_set_labels(classes: Iterable[RuntimeClass]) -> Iterator[Finding]:
    for each in classes:
        terms = readable_terms(each.rules) if each.rules else []
        asked = [part.key for term in terms for part in term if not part.is_field]
        keys = [*dict.fromkeys((*(key for key, _ in each.node_selector), *asked))]
        # One key that a node can't set itself is enough to keep it out.
        own = [key for key, _ in each.node_selector if not is_set_by_kubelet(key)]
        if not keys or own or _have_protected_key(terms):
            continue
        entries = sorted(each.node_selector, key=lambda entry: is_well_known(entry[0]))
        key, value = entries[0] if entries else (keys[0], "true")
        _, _, name = key.rpartition("/")
        yield Finding(
            Severity.WARNING,
            "self-set-label",
            f'RuntimeClass "{each.name}" selects nodes by {listed(keys)} alone, which a kubelet may'
            " set on its own Node",
            "a node that was broken into can draw the class's pods to itself",
            f"nodeSelector: {{node-restriction.kubernetes.io/{shown(name)}: {shown(value)!r}}}",
            (each.name,),
        )


def _have_protected_key(terms: Collection[tuple[NodeRequirement, ...]]) -> bool:
    """Whether there are terms, and each asks for a label that a node can't give itself."""
    return bool(terms) and all(
        any(
            each.is_field or (each.operator in _NEED_LABEL and not is_set_by_kubelet(each.key))
            for each in term
        )
        for term in terms
    )


def _equal_constraints(classes: Iterable[RuntimeClass]) -> Iterator[Finding]:
    by_key: dict[ConstraintKey, list[RuntimeClass]] = {}
    for each in classes:
        by_key.setdefault(constraint_key(each), []).append(each)
    for key, same in by_key.items():
        selector = key.node_selector
        handlers = sorted({each.handler for each in same})
        if len(handlers) < 2:
            continue
        names = [each.name for each in same]
        wanted = f"nodeSelector {_selector(selector)}" if selector else "no nodeSelector"
        yield Finding(
            Severity.ADVICE,
            "equal-constraints",
            f"RuntimeClasses {listed(names)} have equal constraints ({wanted}) and different"
            f" handlers: {listed(handlers)}",
            "where a node has one handler but not the other, only the check of handlers sees it",
            "give each its own nodeSelector, or see that every such node has all the handlers",
            tuple(names),
        )


def check_tolerations(
    classes: Iterable[RuntimeClass], taints: Collection[Taint]
) -> Iterator[Finding]:
    """Tolerations for taints no node has; taints are all that nodes have, of every effect."""
    known: dict[Toleration, bool] = {}
    for each in classes:
        for toleration in each.tolerations:
            if toleration not in known:
                known[toleration] = _is_of_use(toleration, taints)
            if known[toleration]:
                continue
            text = toleration_text(toleration)
            effect = toleration.effect if toleration.effect in HARD_EFFECTS else "NoSchedule"
            value = f"={toleration.value}" if toleration.value else ""
            yield Finding(
                Severity.WARNING,
                "unused-toleration",
                f'RuntimeClass "{each.name}" tolerates {text}, a taint that no node has',
                "nodes meant to be kept for the class are not, or the toleration is misspelt",
                f"kubectl taint node NODE {shown(toleration.key)}{shown(value)}:{effect}",
                (each.name,),
            )


def _is_of_use(toleration: Toleration, taints: Iterable[Taint]) -> bool:
    # A toleration without a key is meant for all taints, and one of a condition taint for a state
    # that comes and goes.
    if not toleration.key or is_condition_taint(Taint(toleration.key)):
        return True
    tolerates: Callable[[Taint], bool] = TolerationSet([toleration]).tolerates
    return any(map(tolerates, taints))


def check_pods(pods: Iterable[Pod], runtime_classes: Collection[str]) -> Iterator[Finding]:
    """Pods that wait for a class that does not exist."""
    waiting: dict[str, list[str]] = {}
    for pod in pods:
        name = pod.runtime_class_name
        if name and name not in runtime_classes:
            waiting.setdefault(name, []).append(f"{pod.namespace or 'default'}/{pod.name}")
    for name, names in sorted(waiting.items()):
        yield Finding(
            Severity.ERROR,
            "missing-class",
            f'RuntimeClass "{shown(name)}" does not exist, and {len(names)}'
            f" pod{'s' if len(names) > 1 else ''} name{'' if len(names) > 1 else 's'} it:"
            f" {listed(sorted(names))}",
            "they stay Pending until it does",
            "create the RuntimeClass; that wakes no pod up: re-create them or wait 5 minutes",
        )
