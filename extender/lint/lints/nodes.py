"""Lints of nodes, and the labels that nodes may set on themselves."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from extender.lint.facts import Facts
from extender.model.finding import Finding, advice, error, warning
from extender.model.names import ShapeId, text_of
from extender.model.objects import RuntimeClass
from extender.model.reasons import listed, number_of, shown
from extender.rules.class_nodes import ClassIndex
from extender.rules.kubelet_checks import KubeletCheck
from extender.rules.node_checks import HandlerCheck, has_handler, is_condition_taint
from extender.rules.snapshot import Snapshot


def untainted_special_nodes(snapshot: Snapshot, check: HandlerCheck) -> list[str]:
    """The sorted names of untainted nodes from which prioritize keeps pods without a class away."""
    index = ClassIndex(snapshot.runtime_classes.values(), check)
    costs = {
        shape_id: len({group.constraints for group in index.served(shape)})
        for shape_id, shape, _ in snapshot.shapes_in_use()
        if all(map(is_condition_taint, shape.taints))
    }
    least = min(costs.values(), default=0)
    special = {shape_id for shape_id, cost in costs.items() if cost > least}
    found = snapshot.nodes.items() if special else ()
    return sorted(text_of(name) for name, shape_id in found if shape_id in special)


def doubtful_user_namespaces(facts: Facts) -> Iterator[Finding]:
    """Nodes that may lack the user namespaces they report. Only with --kubelet-check auto."""
    if facts.policy.kubelet_check is not KubeletCheck.AUTO:
        return
    nodes: Counter[str] = Counter()
    for _, shape, count in facts.snapshot.shapes_in_use():
        version = shape.kubelet.may_lack_user_namespaces
        if version and any(each.user_namespaces for each in shape.handlers):
            nodes[version] += count
    for version, count in sorted(nodes.items()):
        have = number_of(count, "node has", "nodes have")
        yield warning(
            "user-namespaces-doubtful",
            f"{have} a kubelet {shown(version)} and report user namespaces, which are switched off"
            " there by default",
            "a pod with hostUsers is bound there and then rejected, unless the kubelet's gate"
            " UserNamespacesSupport is on",
            "upgrade the kubelets, or run serve with --kubelet-check strict",
        )


RESTRICTED: Final = "node-restriction.kubernetes.io"
_KUBERNETES: Final = ("kubernetes.io", "k8s.io")
_KUBELETS_OWN: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
#: Labels that describe the node in general, not just for one RuntimeClass.
WELL_KNOWN: Final = {
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "node.kubernetes.io/windows-build",
}


def own_labels(runtime_class: RuntimeClass) -> list[tuple[str, str]]:
    """The entries of a class's nodeSelector but the well-known labels, as people can set them."""
    return [entry for entry in runtime_class.node_selector if entry[0] not in WELL_KNOWN]


def _is_within(namespace: str, domain: str) -> bool:
    return namespace == domain or namespace.endswith(f".{domain}")


def is_set_by_kubelet(key: str) -> bool:
    """Whether NodeRestriction lets a kubelet set a label of this key on its own Node."""
    namespace, _, _ = key.rpartition("/")
    if _is_within(namespace, RESTRICTED):
        return False
    if not any(_is_within(namespace, domain) for domain in _KUBERNETES):
        return True
    return key in WELL_KNOWN or any(_is_within(namespace, each) for each in _KUBELETS_OWN)


#: Proposes no reported handler in place of the missing one: its binary may be missing too.
INSTALL: Final = (
    "install the runtime, or delete the class and create it with another handler: a handler can't"
    " be changed"
)


def unreported_handlers(facts: Facts) -> Iterator[Finding]:
    """Handlers that no node reports, of classes that no node matches: a silent one may match."""
    shapes = [shape for _, shape, _ in facts.snapshot.shapes_in_use()]
    counts = (nodes for _, shape, nodes in facts.snapshot.shapes_in_use() if shape.handlers)
    nodes = number_of(sum(counts), "node that reports", "nodes that report")
    matching = facts.support.counts(facts.snapshot).nodes
    by_handler: dict[str, list[str]] = {}
    for each in facts.classes if facts.policy.handler_check is not HandlerCheck.OFF else ():
        if not matching[each.name]:
            by_handler.setdefault(each.handler, []).append(each.name)
    for handler, names in by_handler.items():
        found = {has_handler(shape, handler) for shape in shapes}
        if False in found and True not in found:
            yield error(
                "unreported-handler",
                f'handler "{shown(handler)}" of RuntimeClass {listed(names)} is on none of the'
                f" {nodes} handlers",
                f'pods of the class never start: no runtime for "{shown(handler)}" is configured',
                INSTALL,
                *names,
            )


def broken_promises(facts: Facts) -> Iterator[Finding]:
    """Nodes whose labels say they run a class while their runtime lacks its handler."""
    for each in facts.classes if facts.policy.handler_check is not HandlerCheck.OFF else ():
        nodes = facts.names(
            shape_id
            for shape_id, shape, _ in facts.snapshot.shapes_in_use()
            if shape.selector_entries.issuperset(each.node_selector)
            and has_handler(shape, each.handler) is False
        )
        if not (nodes and each.node_selector):
            continue
        own = " ".join(f"{shown(key)}-" for key, _ in own_labels(each))
        unlabel = f"kubectl label node {shown(nodes[0])} {own}"
        unlabel = f", or take the label off if no other class needs it: {unlabel}"
        yield error(
            "handler-absent",
            f'{number_of(len(nodes), "node")} with the labels of RuntimeClass "{each.name}" lack'
            f'{"s" if len(nodes) == 1 else ""} its handler "{shown(each.handler)}":'
            f" {listed(nodes)}",
            "without the extender its pods are bound there and never start",
            f"install the runtime there{unlabel if own else ''}",
            each.name,
        )


def suspect_handlers(facts: Facts) -> Iterator[Finding]:
    """Handlers that failed to start pods, whatever their nodes report."""
    for each in facts.classes if facts.snapshot.suspects else ():
        found = [
            (name, suspect)
            for name, here in sorted(facts.snapshot.suspects.items())
            for suspect in here
            if suspect.handler == each.handler
        ]
        nodes = [text_of(name) for name, _ in found]
        refused = sum(each.name in suspect.refused for _, suspect in found)
        kept_off = f", and {number_of(refused, 'node is', 'nodes are')} refused for a time"
        if nodes:
            yield error(
                "suspect-handler",
                f'on {number_of(len(nodes), "node")} the runtime handler "{shown(each.handler)}" of'
                f' RuntimeClass "{each.name}" fails to start pods: {listed(nodes)}',
                f"they score lowest until a pod starts there{kept_off if refused else ''}",
                "see the events of its pods there (FailedCreatePodSandBox), and install the"
                f" runtime: kubectl describe node {shown(nodes[0])}",
                each.name,
            )


def featureless_handlers(facts: Facts) -> Iterator[Finding]:
    """Handlers of classes that a node reports without features, if its other handlers have some.

    containerd 2.1 reports a handler without features if its binary or shim is missing.
    """
    featureless = dict[str, set[ShapeId]]()
    for shape_id, shape, _ in facts.snapshot.shapes_in_use():
        featured = [e for e in shape.handlers if e.user_namespaces or e.recursive_read_only_mounts]
        for each in shape.handlers.difference(featured) if featured else ():
            featureless.setdefault(each.name, set()).add(shape_id)
    for handler in sorted(featureless.keys() & {each.handler for each in facts.classes}):
        nodes = facts.names(featureless[handler])
        yield advice(
            "featureless-handler",
            f"{number_of(len(nodes), 'node reports', 'nodes report')} handler {shown(handler)}"
            f" without any feature, and other handlers with some: {listed(nodes)}",
            "containerd reports a handler so when its binary is missing: pods are bound there and"
            " never start. Some handlers that work look the same, such as gVisor's runsc",
            "start a pod of the class there; if its condition PodReadyToStartContainers stays"
            " False, install the runtime",
            *(each.name for each in facts.classes if each.handler == handler),
        )
