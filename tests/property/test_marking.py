"""Laws of `webhook --mark-pods`: a pod with a class asks for the mark, and nothing else changes."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.objects import MARK
from tests.property.test_admission import LAW, class_lists, maybe, merges, specs
from tests.reviews import Webhook

amounts: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from([MARK, "cpu", "example.com/gpu"]),
    st.sampled_from(["1", "2", 1, 0, None, "1000m", "x", [], {}]),
    max_size=3,
)
containers = maybe(
    name=st.sampled_from(["c", "d"]),
    resources=maybe(requests=amounts, limits=amounts, claims=st.just([{"name": "x"}])),
)
pods = st.fixed_dictionaries(
    {
        "metadata": st.just({"name": "p"}),
        "spec": st.builds(
            lambda spec, own: {**spec, **own},
            specs,
            maybe(
                containers=st.lists(st.one_of(containers, st.none()), max_size=2),
                nodeName=st.sampled_from(["", "n1"]),
            ),
        ),
    }
)


def first(pod: Any) -> Any:
    return ((pod["spec"].get("containers") or [None])[0] or {}).get("resources") or {}


def amounts_of(pod: Any) -> list[Any]:
    return [(first(pod).get(each) or {}).get(MARK) for each in ("requests", "limits")]


def without_mark(pod: Any) -> Any:
    """The pod as the webhook leaves it, but for the mark and for the lists that it made."""
    bare = copy.deepcopy(pod)
    for container in bare["spec"].get("containers") or ():
        resources = (container or {}).get("resources")
        for each in ("requests", "limits"):
            if resources and resources.get(each) is not None:
                resources[each].pop(MARK, None)
            if resources is not None and not resources.get(each):
                resources.pop(each, None)
        if container and not resources:
            container.pop("resources", None)
    return bare


@LAW
@given(class_lists, pods, merges)
def test_what_is_let_in_with_a_class_and_no_node_is_marked_and_else_as_without_the_flag(
    classes: list[dict[str, Any]], pod: dict[str, Any], merge: Any
) -> None:
    plain, marking = Webhook(*classes, merge=merge), Webhook(*classes, merge=merge, marks_pods=True)
    expected, answer = plain.mutate(pod), marking.mutate(pod)
    spec = pod["spec"]
    has_class = spec.get("runtimeClassName") is not None
    to_mark = has_class and not spec.get("nodeName") and spec.get("containers")
    if not answer.allowed:
        assert not expected.allowed or to_mark
        return
    before, after = expected.applied_to(pod), answer.applied_to(pod)
    if to_mark and (spec["containers"][0] is not None):
        assert all(each in ("1", 1) for each in amounts_of(after))
    else:
        assert after == before
    assert without_mark(after) == without_mark(before)


@LAW
@given(class_lists, pods)
def test_marking_again_changes_nothing(classes: list[dict[str, Any]], pod: dict[str, Any]) -> None:
    webhook = Webhook(*classes, marks_pods=True)
    answer = webhook.mutate(pod)
    if answer.allowed:
        again = webhook.mutate(answer.applied_to(pod))
        assert again.allowed
        assert again.operations is None
