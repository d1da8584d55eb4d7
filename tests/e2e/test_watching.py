"""How soon the filter heeds a change, in a cluster where nothing else happens."""

import time
from functools import partial

import orjson
import pytest

from tests.e2e.cluster import Cluster
from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, Json
from tests.processes import Server, until

#: The time between kube-apiserver's answer to the change and the filter's answer that heeds it.
#: On a quiet machine it is 0.1 s at most; a busy one must not be taken for a late event, which
#: comes after 30 s and more.
HEEDED_SECONDS = 10.0

#: The longest key of an annotation, and what kube-apiserver keeps of it: the annotation itself, and
#: its name in managedFields.
_KEY = 253 + 1 + 63
_TWICE = 2 * _KEY + 20


def annotations(kilobytes: int) -> dict[str, str]:
    """Annotations that make an object about this large, in the 256 KiB that they may have."""
    texts = (f"{number:0{_KEY - 254}}" for number in range(1000 * kilobytes // _TWICE))
    return {f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}/{text}": "" for text in texts}


def answers(server: Server, passes: bool) -> bool:
    """Whether the filter lets the pod pass, or refuses it, on the one node."""
    pod = {"metadata": {"name": "web", "uid": "u"}, "spec": {"runtimeClassName": "kata"}}
    answer = server.post("/filter", orjson.dumps({"Pod": pod, "NodeNames": ["n1"]}))
    assert isinstance(answer, dict)
    return bool(answer["NodeNames"]) is passes


def handlers(*names: str) -> Json:
    return {"status": {"runtimeHandlers": [{"name": name} for name in names]}}


def selector(**labels: str) -> Json:
    return {"scheduling": {"nodeSelector": labels}}


NODE = f"{NODES}/n1"
KATA = f"{RUNTIME_CLASSES}/kata"
TAINT = {"key": "t", "effect": "NoSchedule"}

#: What is changed, where, how, and whether the pod passes then.
CHANGES: list[tuple[str, str, Json, bool]] = [
    ("a label that goes", NODE, {"metadata": {"labels": {"k": None}}}, False),
    ("a label", NODE, {"metadata": {"labels": {"k": "v"}}}, True),
    ("a taint", NODE, {"spec": {"taints": [TAINT]}}, False),
    ("a taint that goes", NODE, {"spec": {"taints": None}}, True),
    ("a handler that goes", f"{NODE}/status", handlers(""), False),
    ("a handler", f"{NODE}/status", handlers("", "kata-qemu"), True),
    ("a selector", KATA, selector(k="w"), False),
    ("another selector", KATA, selector(k="v"), True),
]


@pytest.mark.parametrize("kilobytes", [1, 4, 16, 100, 500])
@pytest.mark.parametrize("flag", ["--watch-list=true", "--watch-list=false"])
def test_a_change_is_heeded_at_once_whatever_the_size_of_its_object(
    flag: str, kilobytes: int, instead: Cluster
) -> None:
    instead.add_node("n1", {"k": "v"}, handlers=["", "kata-qemu"], images=[])
    instead.add_class("kata", "kata-qemu", {"k": "v"})
    for path in (NODE, KATA):
        instead.patch(path, {"metadata": {"annotations": annotations(kilobytes)}})
    size = len(orjson.dumps(instead.get(NODE)))
    assert size > 900 * kilobytes, size
    took: dict[str, float] = {}
    with instead.serving(flag) as server:
        assert answers(server, passes=True)
        for name, path, document, passes in CHANGES:
            instead.patch(path, document)
            began = time.monotonic()
            until(partial(answers, server, passes), 90)
            took[name] = time.monotonic() - began
    print(f"{size // 1000} KB {flag}:", {name: round(seconds, 3) for name, seconds in took.items()})
    assert max(took.values()) < HEEDED_SECONDS, took
