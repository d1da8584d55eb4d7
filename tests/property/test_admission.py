"""Laws of the admission webhook, asked of its application."""

from collections.abc import Iterator
from decimal import ROUND_CEILING
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.admission.covering import covers, surviving
from extender.admission.merging import Merge
from extender.objects import Taint, Toleration
from extender.validation.quantity import parse_quantity
from tests.naive import tolerates
from tests.reviews import Webhook

LAW = settings(max_examples=200, deadline=None)

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


def _name(runtime_class: Any) -> str:
    return str(runtime_class["metadata"]["name"])


classes = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.sampled_from(NAMES)}), "handler": st.just("h")},
    optional={
        "overhead": maybe(podFixed=overheads),
        "scheduling": maybe(nodeSelector=selectors, tolerations=toleration_lists),
    },
)
class_lists = st.lists(classes, max_size=3, unique_by=_name)

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


def fields_of(raw: dict[str, Any] | None) -> Toleration:
    raw = raw or {}
    return Toleration(
        raw.get("key") or "",
        raw.get("operator") or "",
        raw.get("value") or "",
        raw.get("effect") or "",
        raw.get("tolerationSeconds"),
    )


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
    return [fields_of(raw) for raw in tolerations or []]


@settings(max_examples=400, deadline=None)
@given(toleration_lists, toleration_lists)
def test_merging_by_look_ups_is_merging_by_comparing_each_with_each(
    of_pod: list[Any], of_class: list[Any]
) -> None:
    """surviving(pod, class) = what the upstream loops leave over."""
    both = listed([*of_pod, *of_class])
    assert surviving(listed(of_pod), listed(of_class)) == list(naively_surviving(both))


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
    found = {}
    for name, text in overhead.items():
        thousandths = parse_quantity((text or "0").strip()) * 1000
        found[name] = f"{thousandths.to_integral_value(ROUND_CEILING).normalize():f}m"
    return found


@LAW
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


@LAW
@given(pods, class_lists, merges)
def test_mutating_is_idempotent(pod: Any, classes: list[Any], merge: Merge) -> None:
    """mutate(apply(mutate(pod), pod)) brings no patch."""
    webhook = Webhook(*classes, merge=merge)
    response = webhook.mutate(pod)
    if response.allowed:
        again = webhook.mutate(response.applied_to(pod))
        assert again.allowed
        assert again.operations is None


@LAW
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


@LAW
@given(pods, class_lists, merges)
def test_what_mutate_allows_validate_allows(pod: Any, classes: list[Any], merge: Merge) -> None:
    """mutate allows pod, and it brings no overhead that no class defines ⇒ validate allows it."""
    webhook = Webhook(*classes, merge=merge)
    response = webhook.mutate(pod)
    if not response.allowed:
        return
    name = pod["spec"].get("runtimeClassName")
    defining = any(
        each["metadata"]["name"] == name and each.get("overhead") is not None for each in classes
    )
    patched = response.applied_to(pod)
    allowed = defining or pod["spec"].get("overhead") is None
    assert webhook.validate(patched).allowed is allowed
    # Behind a webhook's patch kube-apiserver defaults the pod again.
    if patched["spec"].get("overhead"):
        patched["spec"]["overhead"] = rounded(patched["spec"]["overhead"])
    assert webhook.validate(patched).allowed is allowed
    again = webhook.mutate(patched)
    assert again.allowed
    assert not again.operations


TAINTS = [
    Taint(key, value, effect)
    for key in [*KEYS[:2], "other"]
    for value in VALUES
    for effect in EFFECTS
]


def tolerated(tolerations: list[Toleration]) -> set[Taint]:
    each_of = [Toleration(*each[:4]) for each in tolerations]
    return {taint for taint in TAINTS if any(tolerates(each, taint) for each in each_of)}


@LAW
@given(pods, class_lists, merges)
def test_merging_tolerations_loses_and_adds_none(
    pod: Any, classes: list[Any], merge: Merge
) -> None:
    """tolerated(mutated pod) = tolerated(pod) ∪ tolerated(class)."""
    response = Webhook(*classes, merge=merge).mutate(pod)
    if not response.allowed:
        return
    name = pod["spec"].get("runtimeClassName")
    of_class = [
        (each.get("scheduling") or {}).get("tolerations")
        for each in classes
        if each["metadata"]["name"] == name
    ]
    before = tolerated(listed(pod["spec"].get("tolerations")))
    after = tolerated(listed(response.applied_to(pod)["spec"].get("tolerations")))
    assert after == before.union(*(tolerated(listed(each)) for each in of_class))
