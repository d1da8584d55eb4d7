"""Node pools: by the labels of providers, by --pool-label, else by what classes look at."""

import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.objects import Handler, Node, RuntimeClass, Taint
from extender.verbs.pools import PLAIN, pools_of

CLASSES = [RuntimeClass("kata", "kata", (("sandbox", "kata"),))]


def pools(*nodes: Node, labels: tuple[str, ...] = ()) -> dict[tuple[str, str], list[str]]:
    """(label, name) → the names of the pool's nodes."""
    store = SnapshotStore()
    store.replace_all(nodes, CLASSES)
    found = pools_of(store.snapshot, labels)
    for number, pool in enumerate(found.pools):
        assert all(found.of_node[name] == number for name in pool.nodes)
    assert len(found.of_node) == len(nodes)
    return {(each.label, each.name): [n.decode() for n in each.nodes] for each in found.pools}


@pytest.mark.parametrize(
    "label",
    [
        pytest.param("cloud.google.com/gke-nodepool", id="GKE"),
        pytest.param("eks.amazonaws.com/nodegroup", id="EKS"),
        pytest.param("kubernetes.azure.com/agentpool", id="AKS"),
        pytest.param("karpenter.sh/nodepool", id="Karpenter"),
        pytest.param("kops.k8s.io/instancegroup", id="kops"),
    ],
)
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


def test_pools_of_one_name_and_different_labels_are_two() -> None:
    found = pools(
        Node("a", {"karpenter.sh/nodepool": "x"}), Node("b", {"eks.amazonaws.com/nodegroup": "x"})
    )
    assert len(found) == 2


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
