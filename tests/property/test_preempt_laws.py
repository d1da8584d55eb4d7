"""Laws of preempt: its answer is a part of its question."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender import names
from extender.names import NameRun
from extender.objects import Node, Pod, RuntimeClass
from extender.predicates.node_checks import Policy
from extender.verbs.preempt import keeps_victims
from extender.wire import bodies, preempt_bodies, victims
from extender.wire.preempt_bodies import Keeps
from tests.property import strategies as some
from tests.property.test_filter_laws import POLICIES, snapshot_of
from tests.property.test_filter_laws import ask as ask_filter

LAW = settings(max_examples=200, deadline=None)

asked_victims = st.dictionaries(
    st.sampled_from([*some.NODE_NAMES, "stranger"]),
    st.tuples(st.lists(st.sampled_from(["u1", "u2", "u3"]), max_size=3), st.integers(0, 5)),
)


#: How victims are sent.
FORMS = ("whole pods", "by UID", "by UID, as Go writes it")


def _body(asked: dict[str, tuple[list[str], int]], form: str) -> bytes:
    if form == "by UID, as Go writes it":
        return as_go_writes(
            [
                (name, {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations})
                for name, (uids, violations) in sorted(asked.items())
            ]
        )
    if form == "whole pods":
        maps: dict[str, object] = {
            "NodeNameToVictims": {
                name: {
                    "Pods": [{"metadata": {"uid": uid}} for uid in uids],
                    "NumPDBViolations": violations,
                }
                for name, (uids, violations) in asked.items()
            },
            "NodeNameToMetaVictims": None,
        }
    else:
        maps = {
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": {
                name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
                for name, (uids, violations) in asked.items()
            },
        }
    return json.dumps({"Pod": {}, **maps}).encode()


def answered(body: bytes, keeps: Keeps | None = None) -> Any:
    """The answer as JSON. Raises BadRequestError."""
    chunks, _ = preempt_bodies.encode_kept(preempt_bodies.decode_preemption_args(body), keeps)
    return json.loads(b"".join(chunks))


@LAW
@given(
    some.node_lists,
    some.class_lists,
    some.pods,
    asked_victims,
    st.sampled_from(FORMS),
    POLICIES,
)
def test_the_answer_is_the_question_for_the_nodes_the_filter_passes(
    nodes: list[Node],
    classes: list[RuntimeClass],
    pod: Pod,
    asked: dict[str, tuple[list[str], int]],
    form: str,
    policy: Policy,
) -> None:
    """answer ⊆ question, node by node and UID by UID, for exactly the nodes filter passes."""
    snapshot = snapshot_of(nodes, classes)
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)

    def keeps(run: NameRun) -> bytes:
        return keeps_victims(pod, runtime_class, snapshot, run, policy)

    answer = answered(_body(asked, form), keeps)
    passing, _ = ask_filter(snapshot, pod, list(asked), policy)
    assert answer == {
        "NodeNameToMetaVictims": {
            name: {
                "Pods": [{"UID": uid} for uid in asked[name][0]],
                "NumPDBViolations": asked[name][1],
            }
            for name in passing
        }
    }


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [*("Pods", "pods", "UID", "uid", "NumPDBViolations", "metadata", "n1", "Pod")]
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=12,
)


@LAW
@given(json_values, st.sampled_from(["NodeNameToVictims", "NodeNameToMetaVictims"]))
def test_no_null_is_ever_answered(value: object, form: str) -> None:
    """Whatever is sent: a readable answer without null, which panics kube-scheduler, or a 400."""
    body = json.dumps({"Pod": {}, form: value}).encode()
    try:
        answer = answered(body)
    except bodies.BadRequestError:
        return
    for victims_of_node in answer["NodeNameToMetaVictims"].values():
        assert isinstance(victims_of_node["NumPDBViolations"], int)
        assert all(isinstance(pod["UID"], str) for pod in victims_of_node["Pods"])


def test_an_unknown_key_of_a_victim_is_ignored_and_int64_is_held() -> None:
    form = '{"Pod":{},"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"x","metadata":{}}],%s}}}'
    answer = answered((form % '"NumPDBViolations":1').encode())
    assert answer["NodeNameToMetaVictims"]["n"]["Pods"] == [{"UID": "x"}]
    too_many = (form % f'"NumPDBViolations":{2**70}').encode()
    with pytest.raises(bodies.BadRequestError, match="NumPDBViolations"):
        answered(too_many)


#: What kube-scheduler may send with a whole pod that plays no part in which pod it is.
REST_OF_A_POD: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": st.just("v1"),
        "status": st.just({"phase": "Running"}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "affinity": st.just({"nodeAffinity": {}}),
                "overhead": st.just({"memory": "160Mi"}),
                "tolerations": st.just([{"operator": "Exists"}, None]),
                "containers": st.just([{"name": "c"}]),
                "fieldOfANewerVersion": st.just([1, {"a": None}]),
            },
        ),
    },
)


def _spelt(data: st.DataObject, key: str) -> str:
    return data.draw(st.sampled_from([key, key, key.lower(), key.upper(), key.swapcase()]))


def _with_strangers(data: st.DataObject, known: dict[str, object]) -> dict[str, object]:
    more: dict[str, object]
    more = data.draw(st.sampled_from([{}, {}, {"Newer": {"Pods": [1]}}, {"": None, "é": "x"}]))
    return {**more, **known} if data.draw(st.booleans()) else {**known, **more}


@LAW
@given(
    st.dictionaries(
        st.sampled_from(some.NODE_NAMES),
        st.one_of(
            st.none(),
            st.tuples(
                st.lists(st.one_of(st.none(), st.sampled_from(["u1", "u2"])), max_size=3),
                st.integers(0, 3),
            ),
        ),
    ),
    st.booleans(),
    st.data(),
)
def test_victims_are_read_in_any_spelling_as_go_reads_them(
    asked: dict[str, tuple[list[str | None], int] | None], whole_pods: bool, data: st.DataObject
) -> None:
    """Keys in any case, keys of newer versions, whole pods with anything in them, nulls."""

    def pod(uid: str | None) -> object:
        if uid is None:
            return data.draw(st.sampled_from([None, {}]))
        if whole_pods:
            return {**data.draw(REST_OF_A_POD), "metadata": {"uid": uid, "labels": {"a": "b"}}}
        return _with_strangers(data, {_spelt(data, "UID"): uid})

    by_node = {
        name: None
        if victims is None
        else _with_strangers(
            data,
            {
                _spelt(data, "Pods"): [pod(uid) for uid in victims[0]],
                _spelt(data, "NumPDBViolations"): victims[1],
            },
        )
        for name, victims in asked.items()
    }
    form = "NodeNameToVictims" if whole_pods else "NodeNameToMetaVictims"
    body = json.dumps({_spelt(data, "Pod"): {}, _spelt(data, form): by_node}).encode()
    answer = answered(body)
    assert answer == {
        "NodeNameToMetaVictims": {
            name: {
                "Pods": [{"UID": uid or ""} for uid in (victims[0] if victims else [])],
                "NumPDBViolations": victims[1] if victims else 0,
            }
            for name, victims in asked.items()
        }
    }


@pytest.mark.parametrize("order", [("Pods", "pods", "Pods"), ("pods", "Pods", "PODS")])
def test_of_keys_that_differ_in_case_the_last_wins(order: tuple[str, str, str]) -> None:
    lists = ",".join(f'"{key}":[{{"UID":"u{n}"}}]' for n, key in enumerate(order))
    body = f'{{"Pod":{{}},"NodeNameToMetaVictims":{{"n":{{{lists}}}}}}}'
    answer = answered(body.encode())
    assert answer["NodeNameToMetaVictims"]["n"]["Pods"] == [{"UID": "u2"}]


def as_go_writes(pairs: list[tuple[str, dict[str, object]]]) -> bytes:
    """A body of kube-scheduler; the same node may stand in it twice, which it never does."""
    victims = ",".join(
        f"{json.dumps(name)}:{json.dumps(each, separators=(',', ':'))}" for name, each in pairs
    )
    return (
        '{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{' + victims + "}}"
    ).encode()


#: Texts in which one node's victims seem to end.
_ENDS = st.sampled_from(["a", "b", '},"', '}],"x":{', "\\", '"', "é"])


@LAW
@given(
    st.lists(
        st.tuples(
            st.lists(_ENDS, max_size=3).map("".join),
            st.fixed_dictionaries(
                {
                    "Pods": st.lists(
                        st.fixed_dictionaries({"UID": st.lists(_ENDS, max_size=3).map("".join)}),
                        max_size=3,
                    ),
                    "NumPDBViolations": st.integers(0, 3),
                },
                optional={"Newer": st.none(), "numpdbviolations": st.just(7)},
            ),
        ),
        max_size=8,
    ),
    st.integers(0, 60),
    st.sampled_from([b"", b"}", b",", b'"']),
)
def test_victims_in_slices_are_what_they_are_in_one_piece(
    pairs: list[tuple[str, dict[str, object]]], size: int, junk: bytes
) -> None:
    """Wherever the slices are cut, whatever the names look like, and with a byte too many."""
    body = as_go_writes(pairs)
    body = body[:-2] + junk + body[-2:]
    results = []
    for each in (size, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            # Without the compiled part all victims are decoded.
            patch.setattr(names, "_engine", names.PythonEngine())
            patch.setattr(victims, "SLICE", each)
            try:
                results.append(answered(body))
            except bodies.BadRequestError:
                results.append(None)
    assert results[0] == results[1]
