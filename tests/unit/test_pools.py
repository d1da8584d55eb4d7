"""Node pools: by the labels of providers, by --pool-label, else by what classes look at."""

import pytest

from extender.model.objects import Handler, Node, RuntimeClass, Taint
from extender.rules.class_nodes import NodeCounts, nodes_of_each
from extender.rules.node_checks import Policy
from extender.rules.pools import PLAIN, POOL_LABELS, pools_of
from tests.stores import snapshot_of

CLASSES = [RuntimeClass("kata", "kata", (("sandbox", "kata"),))]


def pools(*nodes: Node, labels: tuple[str, ...] = ()) -> dict[tuple[str, str], list[str]]:
    """(label, name) → the names of the pool's nodes."""
    found = pools_of(snapshot_of(nodes, CLASSES), labels)
    for number, pool in enumerate(found.pools):
        assert all(found.of_node[name] == number for name in pool.nodes)
    assert len(found.of_node) == len(nodes)
    return {(each.label, each.name): [n.decode() for n in each.nodes] for each in found.pools}


@pytest.mark.parametrize("label", POOL_LABELS)
def test_the_labels_of_providers_name_a_pool(label: str) -> None:
    found = pools(Node("a", {label: "x"}), Node("b", {label: "y"}), Node("c", {label: "x"}))
    assert found == {(label, "x"): ["a", "c"], (label, "y"): ["b"]}


def test_a_label_asked_for_counts_before_the_known_ones_and_the_first_of_several() -> None:
    gke = "cloud.google.com/gke-nodepool"
    found = pools(
        Node("a", {gke: "x", "team": "red"}),
        Node("b", {gke: "x", "team": "red", "rack": "7"}),
        Node("c", {gke: "x"}),
        Node("d", {"team": ""}),
        labels=("rack", "team"),
    )
    assert found == {
        ("team", "red"): ["a"],
        ("rack", "7"): ["b"],
        (gke, "x"): ["c"],
        ("", PLAIN): ["d"],
    }


def test_nodes_without_a_label_are_a_pool_where_classes_can_t_tell_them_apart() -> None:
    gpu = Taint("gpu", "", "NoSchedule")
    found = pools(
        Node("a", {"sandbox": "kata", "kubernetes.io/hostname": "a"}, (), frozenset({Handler("")})),
        Node("b", {"sandbox": "kata", "kubernetes.io/hostname": "b"}, unschedulable=True),
        Node("c", {"sandbox": "kata"}, (Taint("node.kubernetes.io/not-ready", "", "NoExecute"),)),
        Node("d", {"sandbox": "kata"}, (gpu,)),
        Node("e", {"sandbox": "none"}),
        Node("f"),
    )
    assert found == {
        ("", "sandbox=kata"): ["a", "b", "c"],
        ("", "sandbox=kata, gpu:NoSchedule"): ["d"],
        ("", PLAIN): ["e", "f"],
    }


def test_a_label_s_value_may_need_an_escape() -> None:
    label = "cloud.google.com/gke-nodepool"
    assert pools(Node("a", {label: 'x"\\y'}), Node("b", {label: "x"})) == {
        (label, 'x"\\y'): ["a"],
        (label, "x"): ["b"],
    }


def test_nodes_are_counted_by_class_and_pool() -> None:
    labels = [{"sandbox": "kata", "agentpool": "x"}] * 2 + [{"agentpool": "y"}]
    nodes = [Node(name, each) for name, each in zip("abc", labels, strict=True)]
    snapshot = snapshot_of(nodes, CLASSES)
    found = nodes_of_each(CLASSES, snapshot, {b"b"}, Policy(), pools_of(snapshot, ()))
    of_pools = [NodeCounts(2, 1, 2), NodeCounts(0, 0, 1)]
    assert found == {"kata": (NodeCounts(2, 1, 3), of_pools)}
