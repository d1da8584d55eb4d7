"""Whatever is sent to a verb, the answer is a 200 or a 400 of one line, never a 5xx."""

import json
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extender.cluster.manifest_objects import load_manifests
from extender.model import names
from extender.model.names import NameRun
from extender.model.objects import Node, Pod, RuntimeClass
from extender.model.pod_needs import Toleration
from extender.rules.node_checks import Policy
from extender.verbs.filter import match_names
from tests.asking import Client
from tests.cases_file import cases
from tests.processes import SAMPLES
from tests.property import strategies as some
from tests.services import client_over
from tests.stores import snapshot_of
from tests.vectors_file import RECORDED

VERBS = st.sampled_from(["filter", "prioritize", "preempt"])

BODIES = sorted(
    [*(RECORDED / "scheduler-names").glob("*.json"), *(RECORDED / "scheduler-nodes").glob("*.json")]
)


@lru_cache
def client() -> Client:
    manifests = load_manifests([str(SAMPLES / "cluster")])
    return client_over(manifests.nodes.values(), manifests.runtime_classes.values())


def check(verb: str, body: bytes) -> None:
    """A 200 or a 400 of one line, the same with the compiled part and without it."""
    response = client().post(f"/{verb}", data=body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "IS_COMPILED", False)
        in_python = client().post(f"/{verb}", data=body)
    assert (in_python.status_code, in_python.data) == (response.status_code, response.data)
    assert response.status_code in (200, 400), response.data
    document = json.loads(response.data)
    if response.status_code == 400:
        assert list(document) == ["error"]
        assert "\n" not in document["error"]


@given(VERBS, st.binary(max_size=200))
def test_random_bytes(verb: str, body: bytes) -> None:
    check(verb, body)


#: Node names: plain to both halves, plain to the compiled half only, plain to neither.
NAMES = st.sampled_from(["kata-1", "kata 1", "kata-1\u007f", "ä", "\n", ""])


@given(
    VERBS,
    st.lists(NAMES, max_size=3),
    st.binary(max_size=3),
    st.sampled_from(["annotations", "name", "uid"]),
)
def test_any_bytes_in_the_head_of_what_kube_scheduler_sends(
    verb: str, asked: list[str], noise: bytes, where: str
) -> None:
    noise = noise.translate(None, b'"\\')
    text = b'{"a":"' + noise + b'"}' if where == "annotations" else b'"' + noise + b'"'
    listed = json.dumps(asked, separators=(",", ":")).encode()
    check(
        verb,
        b'{"Pod":{"metadata":{"%s":%s},"spec":{"runtimeClassName":"kata"}}' % (where.encode(), text)
        + b',"Nodes":null,"NodeNames":%s}' % listed,
    )


@given(
    VERBS, st.sampled_from(BODIES), st.integers(0, 200_000), st.binary(max_size=4), st.booleans()
)
def test_recorded_bodies_cut_or_with_bytes_replaced(
    verb: str, file: Path, place: int, noise: bytes, cut: bool
) -> None:
    body = file.read_bytes()
    place %= len(body)
    check(verb, body[:place] + noise + (b"" if cut else body[place + len(noise) :]))


KEYS = st.sampled_from(
    [
        *("Pod", "pod", "Nodes", "NodeNames", "nodenames", "items", "metadata", "name", "labels"),
        *("spec", "runtimeClassName", "nodeSelector", "tolerations", "key", "operator", "value"),
        *("hostUsers", "containers", "volumeMounts", "recursiveReadOnly", "status", "taints"),
        *("runtimeHandlers", "NodeNameToVictims", "NodeNameToMetaVictims", "Pods", "UID"),
    ]
)
WORDS = st.sampled_from(["kata", "gvisor", "kata-1", "", "Exists", '","', "\\", "é", "\u2028"])
json_values = some.json_values(st.integers(-2, 2) | WORDS | st.floats(0, 1), KEYS, most=20)


@given(VERBS, st.dictionaries(KEYS, json_values, max_size=5))
def test_json_of_any_shape(verb: str, document: object) -> None:
    check(verb, json.dumps(document).encode())


@given(st.lists(st.text(max_size=8), max_size=6))
def test_any_strings_as_names_come_back_as_they_are(names: list[str]) -> None:
    """A pod without a RuntimeClass passes everywhere; the answer repeats the node names."""
    names = [name.encode("utf-8", "replace").decode() for name in names]
    args: dict[str, object] = {"Pod": {}, "Nodes": None, "NodeNames": names}
    for escaped in (True, False):
        body = json.dumps(args, ensure_ascii=escaped, separators=(",", ":"))
        assert client().post("/filter", data=body.encode()).json["NodeNames"] == names


@given(
    VERBS,
    st.lists(st.text(alphabet='ab",:\\\u00e4', max_size=6), max_size=6, unique=True),
    st.booleans(),
)
@example("filter", ['a",', "b"], True)
@example("filter", ["a\\", "b"], True)
def test_each_name_is_answered_once_whatever_it_is_made_of(
    verb: str, asked: list[str], compact: bool
) -> None:
    """passing ∪ refused = asked, even if a name contains the separator of names."""
    pod = {"spec": {"runtimeClassName": "kata"}}
    victims = {name: {"Pods": [{"UID": "v"}]} for name in [*asked, "kata-1"]}
    names = {"NodeNameToMetaVictims": victims} if verb == "preempt" else {"NodeNames": asked}
    separators = (",", ":") if compact else None
    body = json.dumps({"Pod": pod, "Nodes": None, **names}, separators=separators).encode()
    check(verb, body)
    document = json.loads(client().post(f"/{verb}", data=body).data)
    if verb == "filter":
        answered = [*document["NodeNames"], *document["FailedAndUnresolvableNodes"]]
        assert sorted(answered) == sorted(asked)
    elif verb == "preempt":
        assert list(document["NodeNameToMetaVictims"]) == ["kata-1"]


@given(st.lists(st.sampled_from(["kata-1", "kata-9", 'a","b', "general-1", ""]), max_size=6))
def test_a_pod_whose_text_imitates_the_names_changes_nothing(names: list[str]) -> None:
    """The shortcut to the names is not misled by a pod that holds the same bytes."""
    imitation = ',"Nodes":null,"NodeNames":["kata-1"]}'
    pod = {
        "metadata": {
            "annotations": {"a": imitation},
            "managedFields": [{"fieldsV1": {"x": 1, "Nodes": None, "NodeNames": ["kata-1"]}}],
        },
        "spec": {"runtimeClassName": "kata"},
    }
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}, separators=(",", ":"))
    answer = json.loads(client().post("/filter", data=body.encode()).data)
    assert answer["NodeNames"] == [name for name in names if name == "kata-1"]
    assert set(answer["FailedAndUnresolvableNodes"]) == set(names) - {"kata-1"}


def test_long_tolerations_are_not_remembered() -> None:
    """A pod may have 40,000 tolerations; 1,024 such pods would take gigabytes."""
    snapshot = snapshot_of([Node("n1")], [RuntimeClass("kata", "h")])
    runtime_class = snapshot.runtime_classes["kata"]
    for tolerations in ((Toleration("k", "Exists"),) * 33, (Toleration("k" * 5000, "Exists"),)):
        references = sys.getrefcount(tolerations)
        pod = Pod(runtime_class_name="kata", tolerations=tolerations)
        verdicts = match_names(pod, runtime_class, snapshot, NameRun.of([b"n1"]), Policy())
        assert list(verdicts.codes) == [0]
        del pod, verdicts
        assert sys.getrefcount(tolerations) == references


@pytest.mark.parametrize(
    "text",
    [
        *(r"\ud800", r"\udc00", r"\uDBFF and more", r"\ud800\n", r"\ud83d\ud83d", r"\\\ud800"),
        r"\ud83dx\ude00",
    ],
)
@pytest.mark.parametrize(
    "form", ['{"Pod":{"metadata":{"name":"%s"}},"NodeNames":[]}', '{"x":"%s"}']
)
@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
def test_half_of_a_surrogate_pair_is_no_json(verb: str, form: str, text: str) -> None:
    response = client().post(f"/{verb}", data=(form % text).encode())
    assert response.status_code == 400
    assert "not JSON: " in json.loads(response.data)["error"]


@cases
def test_a_wrong_type_is_a_400_that_names_the_place(pod: object, place: str) -> None:
    response = client().post("/filter", json.dumps({"Pod": pod, "NodeNames": ["n"]}))
    assert response.status_code == 400
    assert place in response.json["error"]


@pytest.mark.parametrize(
    "form", [b'{"Pod":%b,"Nodes":null,"NodeNames":["n"]}', b'{"NodeNames":[],"Pod":%b}']
)
@pytest.mark.parametrize("pod", [b'{"x":"\xff"}', b'{"metadata":{"labels":{"a":"\xc3"}}}'])
def test_text_that_is_no_utf_8_is_no_json_though_nobody_reads_it(form: bytes, pod: bytes) -> None:
    for body in (form % pod, form % b'{"x":"\xc3\xa9"}'):
        response = client().post("/filter", data=body)
        assert (response.status_code == 400) is (pod in body)


def test_the_name_of_a_system_is_told_in_part_when_it_is_long() -> None:
    """A pod's author can't have a megabyte repeated for each node, nor move a cursor."""
    long, odd = {"os": {"name": "x" * 10**6}}, {"kubernetes.io/os": "\x1b[2J"}
    for pod in ({"spec": long}, {"metadata": {"labels": odd}}):
        body = json.dumps({"Pod": pod, "NodeNames": ["kata-1"]})
        (text,) = client().post("/filter", body).json["FailedAndUnresolvableNodes"].values()
        assert "pod" in text
        assert len(text) < 300
        assert "\x1b" not in text
