"""Laws of the admission webhook, asked of its application."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.admission.merging import Merge, covers
from extender.kubernetes.quantity import billionths
from extender.model.objects import MARK
from extender.model.pod_needs import Toleration
from tests.conformance.test_merge_tolerations import toleration
from tests.reviews import Webhook

KEYS = ["sandbox", "k/~x", "a~1b", "topology.kubernetes.io/zone"]
VALUES = ["", "a", "b"]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
NAMES = ["kata", "gvisor", "plain"]

selectors = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
quantities = st.sampled_from(
    ["1", "1000m", "0.5", "500m", "1Gi", "1024Mi", "0", "100u", "0.5m", "1m", " 1", "1\u00a0"]
)
overheads = st.dictionaries(st.sampled_from(["cpu", "memory", "x/y"]), quantities, max_size=2)


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have, lack or null each of the fields."""
    return st.fixed_dictionaries(
        {}, optional={name: st.one_of(st.none(), value, value) for name, value in fields.items()}
    )


tolerations = maybe(
    key=st.sampled_from(["", *KEYS[:2]]),
    operator=st.sampled_from(["", "Equal", "Exists", "Exists", "Gt"]),
    value=st.sampled_from(VALUES),
    effect=st.sampled_from(["", *EFFECTS]),
    tolerationSeconds=st.sampled_from([0, 5, 300]),
)
toleration_lists = st.lists(tolerations, max_size=5)


classes: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.sampled_from(NAMES)}), "handler": st.just("h")},
    optional={
        "overhead": maybe(podFixed=overheads),
        "scheduling": maybe(nodeSelector=selectors, tolerations=toleration_lists),
    },
)
class_lists = st.lists(classes, max_size=3, unique_by=lambda each: str(each["metadata"]["name"]))

constraints = st.lists(
    maybe(
        whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        nodeAffinityPolicy=st.sampled_from(["Honor", "Ignore"]),
    ),
    max_size=2,
)
specs = maybe(
    runtimeClassName=st.sampled_from([*NAMES, *NAMES, "nope", ""]),
    overhead=overheads,
    nodeSelector=selectors,
    tolerations=toleration_lists,
    topologySpreadConstraints=constraints,
    containers=st.just([{"name": "c", "image": "i"}]),
)
pods = st.fixed_dictionaries({"metadata": st.just({"name": "p"}), "spec": specs})
merges = st.sampled_from(Merge)


def naively_surviving(both: list[Toleration]) -> Iterator[int]:
    """MergeTolerations as it is written upstream: each compared with each."""
    merged: list[Toleration] = []
    for place, one in enumerate(both):
        if any(covers(other, one) for other in merged):
            continue
        if any(other != one and covers(other, one) for other in both[place + 1 :]):
            continue
        merged.append(one)
        yield place


def listed(tolerations: list[Any] | None) -> list[Toleration]:
    return [toleration(raw) for raw in tolerations or []]


def naive(pod: Any, classes: list[Any], merge: Merge) -> tuple[Any, list[Toleration]] | None:
    """The fields of an admitted pod as (nodeSelector, overhead), tolerations; None: refused."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    overhead, selector = spec.get("overhead"), dict(spec.get("nodeSelector") or {})
    tolerations = listed(spec.get("tolerations"))
    if name is None:
        return (selector, overhead), tolerations
    found = [each for each in classes if each["metadata"]["name"] == name]
    if not found:
        return None
    (runtime_class,) = found
    if runtime_class.get("overhead") is not None:
        fixed = runtime_class["overhead"].get("podFixed") or {}
        if overhead and not same(overhead, fixed):
            return None
        overhead = fixed
    scheduling = runtime_class.get("scheduling")
    if scheduling is not None:
        wanted = scheduling.get("nodeSelector") or {}
        if any(selector.get(key, value) != value for key, value in wanted.items()):
            return None
        spread = any(
            each.get("whenUnsatisfiable") == "DoNotSchedule"
            and each.get("nodeAffinityPolicy") != "Ignore"
            for each in spec.get("topologySpreadConstraints") or []
        )
        if merge is Merge.ALL or spread:
            selector |= wanted
        both = tolerations + listed(scheduling.get("tolerations"))
        tolerations = [both[place] for place in naively_surviving(both)]
    return (selector, overhead), tolerations


def same(a: dict[str, str], b: dict[str, str]) -> bool:
    return rounded(a) == rounded(b)


def rounded(overhead: dict[str, str]) -> dict[str, str]:
    """As kube-apiserver's defaulting leaves a pod's overhead: nothing finer than 1m."""
    amounts = {name: billionths((text or "0").strip()) for name, text in overhead.items()}
    return {name: f"{-(-amount // 10**6)}m" for name, amount in amounts.items()}


@given(pods, class_lists, merges)
def test_the_patched_pod_is_the_naively_merged_one(
    pod: Any, classes: list[Any], merge: Merge
) -> None:
    """apply(mutate(pod), pod) = naive(pod), and nothing else of the pod changes."""
    response = Webhook(*classes, merge=merge).mutate(pod)
    expected = naive(pod, classes, merge)
    assert response.allowed is (expected is not None)
    if expected is None:
        return
    patched = response.applied_to(pod)
    (selector, overhead), tolerations = expected
    assert (patched["spec"].get("nodeSelector") or {}) == selector
    assert same(patched["spec"].get("overhead") or {}, overhead or {})
    assert listed(patched["spec"].get("tolerations")) == tolerations
    touched = ("nodeSelector", "overhead", "tolerations")
    rest = {name: value for name, value in patched["spec"].items() if name not in touched}
    assert rest == {name: value for name, value in pod["spec"].items() if name not in touched}
    assert {**patched, "spec": None} == {**pod, "spec": None}


@given(pods, class_lists, merges)
def test_a_patch_always_changes_the_pod(pod: Any, classes: list[Any], merge: Merge) -> None:
    """A patch is there only when apply(patch, pod) ≠ pod, and each operation is needed."""
    response = Webhook(*classes, merge=merge).mutate(pod)
    operations = response.operations or []
    if operations:
        assert response.applied_to(pod) != pod
    paths = [operation["path"] for operation in operations]
    appended = [path for path in paths if path.endswith("/-")]
    assert len(set(paths)) == len(paths) - max(0, len(appended) - 1)


@given(pods, class_lists, merges)
def test_what_mutate_lets_in_validate_lets_in_and_mutate_leaves_as_it_is(
    pod: Any, classes: list[Any], merge: Merge
) -> None:
    """validate allows a pod that mutate has patched, unless it has an overhead that no class
    defines; mutate leaves it as it is. The same holds after kube-apiserver's defaulting."""
    webhook = Webhook(*classes, merge=merge)
    response = webhook.mutate(pod)
    if not response.allowed:
        return
    name = pod["spec"].get("runtimeClassName")
    defining = any(
        each["metadata"]["name"] == name and each.get("overhead") is not None for each in classes
    )
    patched = response.applied_to(pod)
    defaulted = {**patched, "spec": {**patched["spec"]}}
    if patched["spec"].get("overhead"):
        defaulted["spec"]["overhead"] = rounded(patched["spec"]["overhead"])
    for each in (patched, defaulted):
        assert webhook.validate(each).allowed is (defining or pod["spec"].get("overhead") is None)
        again = webhook.mutate(each)
        assert again.allowed
        assert not again.operations


# webhook --mark-pods: a pod with a class asks for the mark, and nothing else changes

marks: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from([MARK, "cpu", "example.com/gpu"]),
    st.sampled_from(["1", "2", 1, 0, None, "1000m", "x", [], {}]),
    max_size=3,
)
containers = maybe(
    name=st.sampled_from(["c", "d"]),
    resources=maybe(requests=marks, limits=marks, claims=st.just([{"name": "x"}])),
)
markable = st.fixed_dictionaries(
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


def amounts_of(pod: Any) -> list[Any]:
    resources = ((pod["spec"].get("containers") or [None])[0] or {}).get("resources") or {}
    return [(resources.get(each) or {}).get(MARK) for each in ("requests", "limits")]


def without_mark(pod: Any) -> Any:
    """The pod without the mark, and without the maps that marking added."""
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


@given(class_lists, markable, merges)
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
    again = marking.mutate(after)
    assert again.allowed
    assert again.operations is None
