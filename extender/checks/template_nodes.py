"""Where the pods of a template could run: on all nodes, and on those of a DaemonSet."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from extender.checks.finding import Finding, Severity
from extender.checks.template_fields import Found, Template
from extender.objects import Pod, RuntimeClass, Taint
from extender.predicates.node_checks import Policy, tolerations_together
from extender.reasons import number_of, shown
from extender.snapshot import Snapshot
from extender.verbs.explain.candidate_nodes import nodes_of
from extender.verbs.explain.explanation import Explanation, explain

#: The number of explanations that are remembered: most of thousands of templates ask for the same.
_REMEMBERED: Final = 256

#: The number of reasons listed for the nodes of a DaemonSet.
_NAMED: Final = 5


class Placing:
    """Judges pods on the nodes of one snapshot, and remembers what it has judged."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._candidates = nodes_of(snapshot)
        self._known: dict[str, Explanation] = {}

    @property
    def taints(self) -> tuple[Taint, ...]:
        """All that nodes have with a hard effect."""
        return self._snapshot.shapes.taints

    def explain(self, pod: Pod, runtime_class: RuntimeClass | None) -> Explanation:
        """The explain verb's answer, which equal pods share."""
        nameless = replace(pod, namespace="", name="", uid="")
        key = f"{runtime_class.name if runtime_class else ''} {nameless!r}"
        found = self._known.get(key)
        if found is None:
            found = explain(nameless, runtime_class, self._candidates, self._policy)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found

    def untolerated(
        self, pod: Pod, runtime_class: RuntimeClass | None, name: bytes
    ) -> tuple[Taint, ...]:
        """The taints of a node that neither pod nor class tolerates."""
        shape = self._snapshot.shape(name)
        both = tolerations_together(pod, runtime_class, self._policy)
        return tuple(each for each in shape.taints if not both.tolerates(each)) if shape else ()

    def hanging(
        self,
        template: Template,
        by_itself: Pod,
        pod: Pod,
        runtime_class: RuntimeClass | None,
    ) -> Iterator[Found]:
        """Whether a DaemonSet's controller makes pods for nodes that they can't run on.

        The controller looks at the template, and neither at its class nor at what the kubelet needs
        (pkg/controller/daemon/daemon_controller.go, v1.36.2); by_itself is the pod that it sees.
        """
        meant = self.explain(by_itself, None).passing
        explanation = self.explain(pod, runtime_class)
        left = set(meant).difference(explanation.passing)
        if not left:
            return
        counts = Counter[str]()
        for group in explanation.reasons:
            counts[group.text] += len(left.intersection(group.nodes))
        told = [f"{count} {text}" for text, count in counts.most_common(_NAMED) if count]
        selector = dict(runtime_class.node_selector) if runtime_class else {}
        finding = Finding(
            Severity.ERROR,
            "daemonset_hangs",
            f"on {len(left)} of the {number_of(len(meant), 'node')} that the DaemonSet is meant for"
            " its pod would stay Pending for ever",
            "its controller makes a pod for each node that the template allows, and looks at no"
            f" RuntimeClass: {', '.join(told)}",
            f"nodeSelector: {_flow(selector)}" if selector else "give the template a nodeSelector",
            (runtime_class.name,) if runtime_class else (),
        )
        yield finding, template.spec("runtimeClassName")


def _flow(entries: Mapping[str, str]) -> str:
    return (
        "{" + ", ".join(f'{shown(key)}: "{shown(value)}"' for key, value in entries.items()) + "}"
    )
