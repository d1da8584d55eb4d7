"""Victims in all forms and spellings; test_plain_agrees.py tests which nodes preempt keeps."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.model import errors
from extender.verbs import bodies, preempt
from extender.verbs.filter import decode_args
from tests.property import strategies as some


def _body(nodes: int, form: str) -> bytes:
    """A request with one victim on each of that many nodes."""
    pod = {"metadata": {"uid": "u"}} if form == "whole pods" else {"UID": "u"}
    victims = {f"{n:06}": {"Pods": [pod], "NumPDBViolations": 0} for n in range(nodes)}
    maps = (victims, None) if form == "whole pods" else (None, victims)
    body = {"Pod": {}, "NodeNameToVictims": maps[0], "NodeNameToMetaVictims": maps[1]}
    return json.dumps(body, separators=(",", ":") if "Go" in form else None).encode()


def answered(body: bytes) -> Any:
    """The answer as JSON. Raises BadRequestError."""
    chunks, _ = preempt.encode_kept(preempt.decode_preemption_args(body), None)
    return json.loads(b"".join(chunks))


json_values = some.json_values(
    st.integers(-5, 5) | st.text(max_size=5),
    st.sampled_from(["Pods", "pods", "UID", "uid", "NumPDBViolations", "metadata", "n1", "Pod"]),
)


@given(json_values, st.sampled_from(["NodeNameToVictims", "NodeNameToMetaVictims"]))
def test_no_null_is_ever_answered(value: object, form: str) -> None:
    """Any request gets a 400 or an answer without null, which would make kube-scheduler panic."""
    body = json.dumps({"Pod": {}, form: value}).encode()
    try:
        answer = answered(body)
    except errors.BadRequestError:
        return
    for victims_of_node in answer["NodeNameToMetaVictims"].values():
        assert isinstance(victims_of_node["NumPDBViolations"], int)
        assert all(isinstance(pod["UID"], str) for pod in victims_of_node["Pods"])


def test_an_unknown_key_of_a_victim_is_ignored_and_int64_is_held() -> None:
    form = '{"Pod":{},"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"x","metadata":{}}],%s}}}'
    answer = answered((form % '"NumPDBViolations":1').encode())
    assert answer["NodeNameToMetaVictims"]["n"]["Pods"] == [{"UID": "x"}]
    too_many = (form % f'"NumPDBViolations":{2**70}').encode()
    with pytest.raises(errors.BadRequestError, match="NumPDBViolations"):
        answered(too_many)


#: Fields of a whole pod that do not tell which pod it is.
REST_OF_A_POD: Final[Any] = {
    "apiVersion": "v1",
    "status": {"phase": "Running"},
    "spec": {"affinity": {}, "overhead": {"a": "1"}, "tolerations": [None], "newer": [{"a": 1}]},
}


def _spelt(data: st.DataObject, key: str) -> str:
    return data.draw(st.sampled_from([key, key, key.lower(), key.upper(), key.swapcase()]))


def _with_strangers(data: st.DataObject, known: dict[str, object]) -> dict[str, object]:
    more: dict[str, object]
    more = data.draw(st.sampled_from([{}, {}, {"Newer": {"Pods": [1]}}, {"": None, "é": "x"}]))
    return {**more, **known} if data.draw(st.booleans()) else {**known, **more}


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
            return {**REST_OF_A_POD, "metadata": {"uid": uid, "labels": {"a": "b"}}}
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


@pytest.mark.parametrize("order", [("Pods", "Pods", "pods"), ("pods", "Pods", "PODS")])
def test_of_keys_that_differ_in_case_the_last_wins(order: tuple[str, str, str]) -> None:
    lists = ",".join(f'"{key}":[{{"UID":"u{n}"}}]' for n, key in enumerate(order))
    body = f'{{"Pod":{{}},"NodeNameToMetaVictims":{{"n":{{{lists}}}}}}}'
    answer = answered(body.encode())
    assert answer["NodeNameToMetaVictims"]["n"]["Pods"] == [{"UID": "u2"}]


def test_a_pod_of_any_language_is_read_as_the_filter_has_read_it() -> None:
    pod = '{"metadata":{"name":"web-1","annotations":{"a":"é"}}}'.encode()
    args = decode_args(b'{"Pod":%b,"Nodes":null,"NodeNames":["n"]}' % pod)
    victims = b'"NodeNameToVictims":null,"NodeNameToMetaVictims":{}'
    body = b'{"Pod":%b,%b}' % (pod, victims)
    assert preempt.decode_preemption_args(body).pod == args.pod


@pytest.mark.parametrize("form", ["whole pods", "by UID", "by UID, as Go writes it"])
@pytest.mark.parametrize("count", [50, 51])
def test_no_form_may_have_more_nodes(
    form: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preempt, "MAX_CANDIDATES", 50)
    body = _body(count, form)
    if count <= 50:
        assert len(answered(body)["NodeNameToMetaVictims"]) == count
    else:
        with pytest.raises(errors.BadRequestError, match="more than 50 nodes"):
            answered(body)


@pytest.mark.parametrize("form", ["NodeNameToVictims", "NodeNameToMetaVictims"])
def test_victims_are_refused_before_too_many_values_are_made_of_them(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preempt, "_MAX_VALUES", 20)
    pods = "{}," * 20 + "{}"
    body = '{"Pod":{},"%s":{"n":{"Pods":[%s]}}}'
    assert answered((body % (form, pods)).encode())
    with pytest.raises(errors.BadRequestError, match=f"{form}: more than 20 values"):
        answered((body % (form, pods + ",{}")).encode())


@pytest.mark.parametrize("commas", [100, 101])
def test_longer_victims_may_have_a_value_for_ten_bytes(
    commas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preempt, "_MAX_VALUES", 20)
    victims = '{"n":{"pods":[],"x":[%s],"y":"' % ("0," * (commas - 2) + "0")
    victims += "p" * (1000 - len(victims) - len('"}}')) + '"}}'
    body = f'{{"Pod":{{}},"NodeNameToVictims":{victims}}}'.encode()
    if commas <= 100:
        assert answered(body)
    else:
        with pytest.raises(errors.BadRequestError, match="more than 100 values"):
            answered(body)


def test_whole_pods_are_fewer_than_uids_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preempt, "_MAX_PODS", 2)
    body = '{"Pod":{},"NodeNameTo%sVictims":{"n":{"pods":[%s]},"m":{"pods":[{}]}}}'
    assert answered((body % ("", "{}")).encode())
    assert answered((body % ("Meta", "{},{}")).encode())
    with pytest.raises(errors.BadRequestError, match="NodeNameToVictims: more than 2 pods"):
        answered((body % ("", "{},{}")).encode())


def test_whole_pods_in_any_spelling_may_be_as_long_as_kube_scheduler_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "MAX_OTHER_BYTES", 10)
    victims = b'{"n":{"pods":[{"metadata":{"uid":"u"}}]}}'
    answer = answered(b'{"Pod":{},"NodeNameToVictims":%b,"NodeNameToMetaVictims":null}' % victims)
    assert answer["NodeNameToMetaVictims"]["n"]["Pods"] == [{"UID": "u"}]
