"""Warnings about a pod beside its reasons: tolerations to add, and stale fields."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.admission.namespace_rules import NamespaceRules
from extender.objects import Pod, RuntimeClass, Taint, Toleration, fields_of
from extender.predicates.node_selector import UnreadableTerm, conflicting_key
from extender.predicates.tolerations import TolerationSet
from extender.reasons import number_of, pairs_text, shown
from extender.validation.quantity import same_amounts

#: Keys that say where a node is, not what it runs: a pod's author selects by them, a class rarely
#: does.
_PLACES: Final = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/",
    "failure-domain.beta.kubernetes.io/",
)

#: The warning's end for a pod that no API server has seen yet.
_UNLESS_ADMITTED: Final = ", to which admission may add the class's when it is created"

#: How many stale entries are listed; a pod may have thousands.
_MAX_ENTRIES: Final = 8


@dataclass(frozen=True, slots=True)
class Findings:
    """The facts found out while nodes were judged.

    only_class_tolerates: taints with the number of nodes they keep the pod away from though the
    class tolerates them. refused_by_own_selector: nodes that the class lets pass and the pod's
    nodeSelector does not. unreadable_terms: those of its required node affinity.
    may_lack_user_namespaces: by a kubelet's version how many nodes that fit may reject the pod.
    """

    only_class_tolerates: Mapping[Taint, int]
    refused_by_own_selector: int
    may_lack_user_namespaces: Mapping[str, int]
    unreadable_terms: Sequence[UnreadableTerm] = ()


def warnings_of_rules(pod: Pod, rules: NamespaceRules | None) -> Iterator[str]:
    """The parts of the pod that its namespace forbids, with the policy that refuses it.

    A pod that no API server has seen yet is given the namespace's default class first.
    """
    if rules is None:
        return
    violation = rules.violation(pod.runtime_class_name, takes_default=not pod.uid)
    if violation is not None:
        yield f"{violation.text}: policy {violation.policy}, where it is applied, refuses " + (
            "such a pod when it is created; this one came before, one in its place would not"
            if pod.uid
            else "it when it is created"
        )


def warnings_of(pod: Pod, runtime_class: RuntimeClass | None, findings: Findings) -> Sequence[str]:
    of_pod = [
        *_unreadable(findings.unreadable_terms),
        *_doubtful_kubelets(pod, findings.may_lack_user_namespaces),
    ]
    if runtime_class is None:
        return of_pod
    return [
        *of_pod,
        *_missing_tolerations(pod, runtime_class, findings.only_class_tolerates),
        *_stale_selector(pod, runtime_class, findings.refused_by_own_selector),
        *_overhead(pod, runtime_class),
    ]


def _unreadable(terms: Sequence[UnreadableTerm]) -> Iterator[str]:
    """kube-scheduler drops such a term without a word (Ignore parsing errors, node_affinity.go)."""
    for each in terms[:_MAX_ENTRIES]:
        yield (
            f"nodeSelectorTerms[{each.index}] of the pod's required node affinity does not parse"
            f" and so matches no node: {each.field}: {shown(each.fault)}"
        )
    more = len(terms) - _MAX_ENTRIES
    if more > 0:
        yield f"{more} more terms of the pod's required node affinity do not parse"


def _doubtful_kubelets(pod: Pod, versions: Mapping[str, int]) -> Iterator[str]:
    """A Node does not show this: `features.userNamespaces` depends on another gate."""
    way_out = (
        "--kubelet-check strict keeps such pods away"
        if pod.features.user_namespaces
        else "spec.hostUsers: true says no more than leaving it out"
    )
    for version, nodes in sorted(versions.items()):
        yield (
            f"{number_of(nodes, 'node has', 'nodes have')} a kubelet {shown(version)}, which"
            " rejects a pod with hostUsers after it is bound unless the gate UserNamespacesSupport"
            " was turned on there; the Node does not tell: upgrade to v1.33, or turn it on;"
            f" {way_out}"
        )


def _missing_tolerations(
    pod: Pod, runtime_class: RuntimeClass, taints: Mapping[Taint, int]
) -> Iterator[str]:
    """A line per toleration to add, naming the taint it is for."""
    told = set()
    for taint, nodes in sorted(taints.items(), key=lambda item: (-item[1], str(item[0]))):
        tolerating = (
            index
            for index, each in enumerate(runtime_class.tolerations)
            if TolerationSet([each]).tolerates(taint)
        )
        index = next(tolerating, None)
        if index is None or index in told:
            continue
        told.add(index)
        toleration = runtime_class.tolerations[index]
        yield (
            f"{number_of(nodes, 'node has', 'nodes have')} taint {shown(str(taint))}, which only"
            f' RuntimeClass "{shown(runtime_class.name)}" tolerates; kube-scheduler looks at the'
            f" pod's own tolerations{_UNLESS_ADMITTED if not pod.uid else ''}. Add to its"
            " spec.tolerations, which a Pending pod still accepts: " + toleration_json(toleration)
        )


def toleration_json(toleration: Toleration) -> str:
    """The toleration as one line of JSON, which is YAML too."""
    return json.dumps(fields_of(toleration))


def _stale_selector(pod: Pod, runtime_class: RuntimeClass, refused: int) -> Iterator[str]:
    """Entries of the pod that today's class does not have.

    Who wrote them is not recorded, so they are reported only where they matter, or where the
    overhead shows that the class has changed since.
    """
    conflict = conflicting_key(pod.node_selector, runtime_class.node_selector)
    if conflict is not None:
        key, own, wanted = conflict
        yield (
            f"the pod carries nodeSelector {shown(key)}={shown(own)} where RuntimeClass"
            f' "{shown(runtime_class.name)}" has {shown(key)}={shown(wanted)}: if the admission'
            " plugin merged it, the class has changed since the pod was created; re-create the pod"
        )
    if not refused and not _overhead_is_stale(pod, runtime_class):
        return
    of_class = {key for key, _ in runtime_class.node_selector}
    entries = [
        f"{shown(key)}={shown(value)}"
        for key, value in sorted(pod.node_selector.items())
        if key not in of_class and not key.startswith(_PLACES)
    ]
    for entry in entries[:_MAX_ENTRIES]:
        yield (
            f"the pod carries nodeSelector {entry}, which RuntimeClass"
            f' "{shown(runtime_class.name)}" does not have today: if the admission plugin merged'
            " it, the class has changed since the pod was created; re-create the pod"
        )


def _overhead_is_stale(pod: Pod, runtime_class: RuntimeClass) -> bool:
    return bool(pod.overhead) and not same_amounts(pod.overhead, runtime_class.overhead)


def _overhead(pod: Pod, runtime_class: RuntimeClass) -> Iterator[str]:
    name = shown(runtime_class.name)
    if _overhead_is_stale(pod, runtime_class):
        today = pairs_text(runtime_class.overhead) or "none"
        yield (
            f'the pod carries overhead {pairs_text(pod.overhead)}, RuntimeClass "{name}" has'
            f" {today} today: the class has changed since the pod was created; re-create the pod"
        )
    elif pod.uid and runtime_class.overhead and not pod.overhead:
        yield (
            f"the pod carries no overhead, RuntimeClass"
            f' "{name}" has {pairs_text(runtime_class.overhead)}: it was created without the'
            " admission plugin or before the class had one, and is scheduled as if it cost nothing;"
            " overhead can't be changed, re-create the pod"
        )
