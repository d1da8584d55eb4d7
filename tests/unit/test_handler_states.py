"""Present, absent and unknown handlers, an example each: the laws meet some of these by chance."""

import pytest

from extender.objects import Handler, Node, Pod, RuntimeClass
from extender.predicates.node_checks import HandlerCheck, Policy, Requirements
from extender.shape import shape_of


@pytest.mark.parametrize(
    ("handler", "reported", "docker", "auto", "strict"),
    [
        pytest.param("kata", ["runc", "kata"], False, True, True, id="present"),
        pytest.param("kata", ["runc"], False, False, False, id="absent"),
        pytest.param("kata", [], False, True, False, id="unknown"),
        pytest.param("docker", ["runc"], True, True, True, id="cri-dockerd's own, not reported"),
        pytest.param("docker", [], True, True, True, id="cri-dockerd's own, nothing reported"),
        pytest.param(
            "docker", ["runc"], False, False, False, id="the same word of another runtime"
        ),
        pytest.param("kata", ["runc"], True, False, False, id="absent from cri-dockerd"),
        pytest.param("kata", [], True, True, False, id="unknown to cri-dockerd"),
    ],
)
def test_which_handlers_a_node_has(
    handler: str, reported: list[str], docker: bool, auto: bool, strict: bool
) -> None:
    node = Node("n", {}, (), frozenset(map(Handler, reported)), is_docker=docker)
    runtime_class, pod = RuntimeClass("c", handler), Pod(runtime_class_name="c")
    for check, passes in (
        (HandlerCheck.AUTO, auto),
        (HandlerCheck.STRICT, strict),
        (HandlerCheck.OFF, True),
    ):
        requirements = Requirements.of(pod, runtime_class, Policy(check))
        assert (requirements.mismatch(shape_of(node, frozenset())) is None) is passes
