"""Laws of the filter, for any cluster and request."""

from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.model.objects import ClassRules, Node, Pod, PodResources, PodState, RuntimeClass
from extender.rules.node_checks import Policy
from extender.rules.verdicts import Shapes
from tests.property import strategies as some
from tests.stores import snapshot_of

#: Values for every field of a Pod.
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "namespace": st.sampled_from(["default", "team"]),
    "name": some.KEYS,
    "uid": some.KEYS,
    "runtime_class_name": st.one_of(st.just(""), some.CLASS_NAMES),
    "node_selector": some.labels,
    "tolerations": some.toleration_lists,
    "features": some.features,
    "kubelet_needs": some.kubelet_needs,
    "group": some.KEYS,
    "node_affinity": st.sampled_from([None, ()]),
    "overhead": st.sampled_from([{}, {"cpu": "1"}]),
    "state": st.sampled_from([PodState(), PodState(scheduler_name="other", priority=7)]),
    "sets_host_users": st.booleans(),
    "declared_needs": st.sampled_from([frozenset(), frozenset({"Feature"})]),
    "is_marked": st.booleans(),
    "resources": st.sampled_from([None, PodResources()]),
    "uses": st.sampled_from([None, frozenset(), frozenset({"hostNetwork"})]),
}


@given(some.node_lists, some.class_lists, some.pods, some.policies, st.data())
def test_a_verdict_is_the_same_whichever_pods_were_judged_before(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, policy: Policy, data: st.DataObject
) -> None:
    """The cache key of verdicts has each field that a check reads.

    Each pod differs from the first in one field. Pods without a class, and pods of a class without
    requirements, are judged by their own needs.
    """
    assert FIELDS.keys() == {field.name for field in fields(Pod)}
    rules = data.draw(st.sampled_from([None, ClassRules(unsupported=("hostNetwork",))]))
    classes = [*classes, RuntimeClass("easy", "runc")]
    snapshot = snapshot_of(nodes, [replace(each, rules=rules) for each in classes])
    changed = data.draw(st.fixed_dictionaries(FIELDS))
    pods = [pod, *(replace(pod, **{name: value}) for name, value in changed.items())]
    easy = [replace(each, runtime_class_name=name) for name in ("", "easy") for each in pods]
    codes = range(len(snapshot.shapes) + 1)
    for each in (*pods, *easy):
        runtime_class = snapshot.runtime_classes.get(each.runtime_class_name)
        kept = snapshot.shapes.verdicts(each, runtime_class, policy)
        fresh = Shapes(snapshot.shapes.shapes).verdicts(each, runtime_class, policy)
        assert [*map(kept.reason, codes)] == [*map(fresh.reason, codes)]
