"""Sentences about a pod beside the reasons: its state, tolerations to add, stale fields."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from extender.explain.own_checks import Question
from extender.kubernetes.namespaces import NamespaceRules
from extender.kubernetes.quantity import same_amounts
from extender.model import reasons
from extender.model.names import ShapeId
from extender.model.objects import DEFAULT_SCHEDULER, Pod, RuntimeClass, Taint
from extender.model.pod_needs import Toleration, fields_of
from extender.model.reasons import Reason, listed, number_of, pairs_text, shown
from extender.rules.kubelet_checks import KubeletCheck
from extender.rules.node_selector import UnreadableTerm
from extender.rules.tolerations import TolerationSet

#: Label keys that say where a node is, not what it runs. Pods select by them, classes rarely do.
_PLACES: Final = ("kubernetes.io/hostname", "topology.kubernetes.io/")

#: How many entries are listed; a pod may have thousands.
_MAX_ENTRIES: Final = 8


def state_sentences(
    pod: Pod, node: Reason | str | None, now: datetime | None = None
) -> Sequence[str]:
    """Sentences about a pod's state, the most important first; most Pending pods have none.

    node: why the pod's own node would refuse it today; None if it would not, "" if not judged.
    """
    said, state = [], pod.state
    if state.deleted_at:
        said.append(f"It is being deleted since {shown(state.deleted_at)}.")
    if state.node_name:
        where = "fits" if node is None else "is not among the nodes judged here"
        if isinstance(node, Reason):
            where = f"would be refused today: {node.text}"
        said.append(f"It is already bound to {shown(state.node_name)}, which {where}.")
    if state.starting_since is not None:
        told = reasons.without_sandbox(pod.namespace, pod.name, state.starting_since, now)
        said.append(f"It is still starting: {told}.")
    if state.gates:
        gates = listed(state.gates)
        said.append(f"No scheduler looks at it until its scheduling gates are removed: {gates}.")
    if state.scheduler_name not in ("", DEFAULT_SCHEDULER) and not state.node_name:
        said.append(
            f"It is scheduled by {shown(state.scheduler_name)}, not by {DEFAULT_SCHEDULER}: what"
            " follows counts if that scheduler calls this extender."
        )
    return said


def forbidden(pod: Pod, rules: NamespaceRules | None) -> Iterator[str]:
    """The namespace rule that the pod breaks. A pod without UID gets the default class first."""
    violation = rules and rules.violation(pod.runtime_class_name, takes_default=not pod.uid)
    if violation:
        yield f"{violation.text}: policy {violation.policy}, where it is applied, refuses " + (
            "such a pod when it is created; this one came before, one in its place would not"
            if pod.uid
            else "it when it is created"
        )


def unreadable(terms: Sequence[UnreadableTerm]) -> Iterator[str]:
    """kube-scheduler silently drops unreadable terms (Ignore parsing errors, node_affinity.go)."""
    for each in terms[:_MAX_ENTRIES]:
        yield (
            f"nodeSelectorTerms[{each.index}] of the pod's required node affinity does not parse"
            f" and so matches no node: {each.field}: {shown(each.fault)}"
        )


def doubtful_kubelets(asked: Question, passing: Iterable[ShapeId]) -> Iterator[str]:
    """The kubelets that may reject the pod's hostUsers, on nodes where the pod passes.

    A Node does not show the gate that decides: `features.userNamespaces` depends on another gate.
    """
    pod, shapes = asked.pod, asked.candidates.shapes
    if not pod.sets_host_users or asked.policy.kubelet_check is KubeletCheck.OFF:
        return
    versions = Counter(shapes[each].kubelet.may_lack_user_namespaces for each in passing)
    way_out = (
        "--kubelet-check strict keeps such pods away"
        if pod.features.user_namespaces
        else "spec.hostUsers: true says no more than leaving it out"
    )
    for version in sorted(filter(None, versions)):
        yield (
            f"{number_of(versions[version], 'node has', 'nodes have')} a kubelet {shown(version)},"
            " which rejects a pod with hostUsers after it is bound unless the gate"
            " UserNamespacesSupport is on there, which the Node does not show: upgrade to v1.33,"
            f" or turn the gate on; {way_out}"
        )


def suspect_nodes(asked: Question, passing: Iterable[ShapeId]) -> Iterator[str]:
    """Nodes where the pod fits, but the class's handler has failed to start other pods."""
    runtime_class, shapes = asked.runtime_class, asked.candidates.shapes
    if runtime_class is None:
        return
    found = (shapes[each].suspect(runtime_class.handler) for each in passing if each)
    told = Counter(reasons.failed_to_start(each.handler, each.pods) for each in found if each)
    for text, nodes in told.items():
        yield (
            f"on {number_of(nodes, 'node')} where it fits, {text}: these nodes score lowest until"
            " one starts there"
        )


def missing_tolerations(asked: Question, held_off: Mapping[ShapeId, int]) -> Iterator[str]:
    """A line for each toleration to add, with the number of nodes that only taints keep away."""
    pod, runtime_class = asked.pod, asked.runtime_class
    if runtime_class is None:
        return
    own = TolerationSet(pod.tolerations, comparison_operators=asked.policy.comparison_operators)
    taints = Counter[Taint]()
    # On a node that passes the class's checks, the pod or the class tolerates every taint.
    for shape_id, nodes in held_off.items():
        for taint in asked.candidates.shapes[shape_id].taints:
            if not own.tolerates(taint):
                taints[taint] += nodes
    told = set[Toleration]()
    by_admission = " (admission may add the class's tolerations when the pod is created)"
    unless = "" if pod.uid else by_admission
    for taint, nodes in sorted(taints.items(), key=lambda item: (-item[1], str(item[0]))):
        tolerating = (e for e in runtime_class.tolerations if TolerationSet([e]).tolerates(taint))
        toleration = next(tolerating, None)
        if toleration is None or toleration in told:
            continue
        told.add(toleration)
        yield (
            f"{number_of(nodes, 'node has', 'nodes have')} taint {shown(str(taint))}, which"
            f' RuntimeClass "{shown(runtime_class.name)}" tolerates, but not the pod, and'
            f" kube-scheduler looks at the pod alone{unless}. Add to its spec.tolerations, which a"
            f" Pending pod still accepts: {toleration_json(toleration)}"
        )


def toleration_json(toleration: Toleration) -> str:
    return json.dumps(fields_of(toleration))


def stale_merge(pod: Pod, runtime_class: RuntimeClass | None) -> Iterator[str]:
    """Fields that admission copied from an older version of the class.

    A pod's overhead can't be changed later. Nobody records who wrote a nodeSelector entry, so an
    entry is suspicious only beside a stale overhead.
    """
    if runtime_class is None:
        return
    name, of_class = shown(runtime_class.name), pairs_text(runtime_class.overhead)
    if not pod.overhead:
        if pod.uid and of_class:
            yield (
                f'the pod carries no overhead, RuntimeClass "{name}" has {of_class}: it was created'
                " without the admission plugin or before the class had one, and is scheduled as if"
                " it cost nothing; overhead can't be changed, re-create the pod"
            )
        return
    if same_amounts(pod.overhead, runtime_class.overhead):
        return
    today = dict(runtime_class.node_selector)
    entries = [
        f"{shown(key)}={shown(value)}"
        for key, value in sorted(pod.node_selector.items())
        if today.get(key) != value and not key.startswith(_PLACES)
    ]
    for entry in entries[:_MAX_ENTRIES]:
        yield (
            f'the pod carries nodeSelector {entry}, which RuntimeClass "{name}" does not have'
            " today: if the admission plugin merged it, the class has changed since the pod was"
            " created; re-create the pod"
        )
    yield (
        f'the pod carries overhead {pairs_text(pod.overhead)}, RuntimeClass "{name}" has'
        f" {of_class or 'none'} today: the class has changed since the pod was created;"
        " re-create the pod"
    )
