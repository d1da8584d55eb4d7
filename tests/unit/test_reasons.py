"""Our reasons are recognised in kube-scheduler's messages."""

import random

from hypothesis import given
from hypothesis import strategies as st

from extender.model import reasons
from extender.model.objects import Taint
from extender.model.reasons import Code, Reason, has_ours

names = st.sampled_from(["kata", "gvisor-2", "a.b"])
keys = st.sampled_from(["sandbox", "node.example.com/runtime", "k8s.io/x_y"])
values = st.sampled_from(["", "true", "kata-2.0"])
taints = st.builds(Taint, keys, values, st.just("NoSchedule"))

#: A way to make each reason of our own.
REASONS: dict[Code, list[st.SearchStrategy[Reason]]] = {
    Code.SELECTOR: [
        st.builds(
            reasons.selector_mismatch,
            names,
            st.dictionaries(keys, values, min_size=1).map(lambda each: tuple(sorted(each.items()))),
        )
    ],
    Code.TAINT: [st.builds(reasons.untolerated_taint, names, taints)],
    Code.HANDLER: [
        st.builds(reasons.handler_absent, names, st.sampled_from(["runsc", "kata-qemu"])),
        st.builds(reasons.handlers_not_reported, names),
    ],
    Code.FEATURE: [
        st.builds(
            reasons.feature_lacking,
            st.one_of(st.just(""), names),
            st.just("runsc"),
            st.sampled_from(["user namespaces", "recursive read-only mounts"]),
        )
    ],
    Code.CONDITION: [
        st.builds(
            reasons.condition_lacking,
            names,
            st.tuples(
                st.sampled_from(["KataReady", "a.b/c"]), st.sampled_from(["True", "Unknown"])
            ),
        )
    ],
    Code.SUSPECT: [
        st.builds(reasons.suspect_handler, names, st.just("kata-qemu"), st.integers(1, 9))
    ],
    Code.UNSUPPORTED: [
        st.builds(reasons.unsupported, names, st.sampled_from(["host-network", "resource:a.b/gpu"]))
    ],
    Code.CONFLICT: [st.builds(reasons.selector_conflict, names, keys, values, values)],
    Code.NOT_FOUND: [st.builds(reasons.not_found, names)],
    Code.OS: [
        st.builds(reasons.system_mismatch, st.sampled_from(["linux", "windows"])),
        st.builds(reasons.system_label_mismatch, st.sampled_from(["", "w", "windows", "a.b_c-d"])),
    ],
    Code.NODE_FEATURE: [
        st.just(reasons.STRICT_GROUPS_LACKING),
        st.builds(reasons.user_namespaces_gated, st.sampled_from(["v1.31", "v1.32"])),
        st.just(reasons.POD_RESOURCES_LACKING),
    ],
    Code.UNKNOWN_NODE: [st.just(reasons.UNKNOWN_NODE)],
}

IN_TREE = (
    reasons.POD_SELECTOR,
    reasons.POD_AFFINITY,
    reasons.POD_TAINT,
    reasons.CORDONED,
    reasons.UNDECLARED_FEATURES,
    reasons.resources_lacking(["cpu", "pods"]),
)

ours = st.one_of(*(each for found in REASONS.values() for each in found))
texts = st.one_of(ours.map(lambda each: each.text), ours.map(lambda each: each.plain))
theirs = st.sampled_from(
    [*(each.text for each in IN_TREE), "Insufficient cpu", "Preemption is not helpful"]
)


def test_each_code_is_ours_or_kube_scheduler_s() -> None:
    assert {*REASONS, *(each.code for each in IN_TREE)} == set(Code)


@given(
    counted=st.dictionaries(texts, st.integers(1, 150_000), max_size=6),
    others=st.dictionaries(theirs, st.integers(1, 150_000), max_size=4),
    order=st.randoms(),
    tail=st.sampled_from(
        [
            "",
            " preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling.",
            " no new claims to deallocate, preemption: 0/9 nodes are available: 9 No victims.",
        ]
    ),
)
def test_our_reasons_are_found_in_whatever_kube_scheduler_joins(
    counted: dict[str, int], others: dict[str, int], order: random.Random, tail: str
) -> None:
    parts = [f"{count} {text}" for text, count in (counted | others).items()]
    order.shuffle(parts)
    message = f"0/9 nodes are available: {', '.join(parts)}.{tail}"
    assert has_ours(message) is bool(counted)
