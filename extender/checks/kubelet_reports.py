"""Whether nodes have kubelets that do not do what they report."""

from collections import Counter
from collections.abc import Iterator

from extender.checks.finding import Finding, Severity
from extender.predicates.kubelet import KubeletCheck
from extender.reasons import number_of, shown
from extender.snapshot import Snapshot


def check_kubelets(snapshot: Snapshot, check: KubeletCheck) -> Iterator[Finding]:
    """Nodes whose user namespaces may be switched off though they report them.

    Nothing where --kubelet-check says how such nodes are to be judged.
    """
    if check is not KubeletCheck.AUTO:
        return
    nodes: Counter[str] = Counter()
    for _, shape, count in snapshot.shapes_in_use():
        version = shape.kubelet.may_lack_user_namespaces
        if version and any(each.user_namespaces for each in shape.handlers):
            nodes[version] += count
    for version, count in sorted(nodes.items()):
        have = number_of(count, "node has", "nodes have")
        yield Finding(
            Severity.WARNING,
            "user-namespaces-doubtful",
            f"{have} a kubelet {shown(version)} and report user namespaces, which are switched off"
            " there by default",
            "a pod with hostUsers is bound and then rejected, unless the gate"
            " UserNamespacesSupport was turned on",
            "serve --kubelet-check strict",
        )
