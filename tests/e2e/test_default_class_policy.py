"""scheduler-config/policies/default-class on a real kube-apiserver, beside plugin and webhooks."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Raw

from extender.admission.defaults import takes_default
from extender.admission.reviewed_pod import ReviewedPod
from extender.kubernetes.namespaces import (
    ALLOWED_ANNOTATION,
    DEFAULT_ANNOTATION,
    REQUIRED_ANNOTATION,
)
from tests.e2e.cluster import Cluster
from tests.e2e.policies import (
    KATA,
    OVERHEAD,
    SELECTOR,
    TOLERATION,
    Answer,
    add_namespace,
    applied,
    ask,
    defaulting,
    marking,
    needs_mutating_policies,
)
from tests.e2e.test_webhook import ASKS, DEFAULT_CLASS, installed
from tests.fakes.apiserver import RUNTIME_CLASSES, Json
from tests.processes import until

GENERATED: Final = 200


def ready(where: Cluster) -> Cluster:
    needs_mutating_policies(where)
    where.create(RUNTIME_CLASSES, KATA)
    where.add_class("gvisor", "runsc")
    return where


@pytest.fixture
def where(beside: Cluster) -> Cluster:
    return ready(beside)


@pytest.fixture
def without_plugin(instead: Cluster) -> Cluster:
    return ready(instead)


@pytest.fixture
def given(where: Cluster) -> Iterator[Cluster]:
    with defaulting(where):
        yield where


def merged(answer: Answer) -> tuple[Any, Any, bool]:
    """What of the class stands in the pod: overhead, nodeSelector, its toleration."""
    spec = answer.spec
    return spec.get("overhead"), spec.get("nodeSelector"), TOLERATION in spec["tolerations"]


def test_the_in_tree_plugin_merges_the_class_that_the_policy_gives(given: Cluster) -> None:
    """The plugin comes before the policies; kube-apiserver asks it again after a change."""
    answer = ask(given, add_namespace(given, "given", {DEFAULT_ANNOTATION: "kata"}))
    assert answer.runtime_class == "kata"
    assert merged(answer) == (OVERHEAD, SELECTOR, True)


def test_our_webhook_comes_after_the_policy_and_merges_its_class(
    without_plugin: Cluster, tmp_path: Path
) -> None:
    namespace = add_namespace(without_plugin, "merged-by-webhook", {DEFAULT_ANNOTATION: "kata"})
    with defaulting(without_plugin), installed(without_plugin, tmp_path):
        until(lambda: merged(ask(without_plugin, runtimeClassName="kata"))[2], 30.0)
        assert merged(ask(without_plugin, namespace)) == (OVERHEAD, SELECTOR, True)


def test_a_class_that_a_webhook_gives_is_marked(without_plugin: Cluster, tmp_path: Path) -> None:
    """The mark's policy was asked before the webhook, and is asked again."""
    where = without_plugin
    add_namespace(where, "given-by-webhook", {DEFAULT_ANNOTATION: "kata"}, **ASKS)
    with marking(where), installed(where, tmp_path, values=DEFAULT_CLASS):
        until(lambda: ask(where, "given-by-webhook").runtime_class == "kata", 30.0)
        answer = ask(where, "given-by-webhook")
        assert answer.marks == [("1", "1")]
        assert merged(answer) == (OVERHEAD, SELECTOR, True)


def test_without_a_default_and_with_a_class_of_their_own_pods_stay_as_they_are(
    given: Cluster,
) -> None:
    for name, annotations in (
        ("no-annotation", {}),
        ("empty", {DEFAULT_ANNOTATION: ""}),
        ("no-default", {DEFAULT_ANNOTATION: "false"}),
    ):
        assert ask(given, add_namespace(given, name, annotations)).runtime_class is None, name
    namespace = add_namespace(given, "named", {DEFAULT_ANNOTATION: "kata"})
    assert ask(given, namespace, runtimeClassName="gvisor").runtime_class == "gvisor"
    mirror = {"kubernetes.io/config.mirror": "x"}
    assert ask(given, namespace, annotations=mirror, nodeName="n1").runtime_class is None


def test_a_default_that_does_not_exist_or_is_not_allowed_refuses_the_pod(given: Cluster) -> None:
    missing = add_namespace(given, "missing", {DEFAULT_ANNOTATION: "gone"})
    assert ask(given, missing).refusal.endswith('pod rejected: RuntimeClass "gone" not found')
    rules = {DEFAULT_ANNOTATION: "kata", ALLOWED_ANNOTATION: "gvisor"}
    namespace = add_namespace(given, "not-allowed", rules)
    with applied(given, "allowed-classes", lambda: ask(given, namespace).status == 403):
        assert ask(given, namespace).refusal.endswith(
            f'RuntimeClass "kata" is not allowed in namespace "{namespace}", which allows "gvisor"'
        )


def test_a_pod_that_is_given_a_class_names_one(given: Cluster) -> None:
    required = {REQUIRED_ANNOTATION: "true"}
    bare = add_namespace(given, "required", required)
    namespace = add_namespace(given, "required-given", {**required, DEFAULT_ANNOTATION: "kata"})
    with applied(given, "required-class", lambda: ask(given, bare).status == 403):
        assert ask(given, namespace).runtime_class == "kata"


def some_pod(choose: random.Random) -> tuple[Mapping[str, str], Json]:
    """Annotations and spec of a pod that a sandbox might break."""
    own = (DEFAULT_ANNOTATION, choose.choice(["false", "true", "kata"]))
    annotations = dict(choose.sample([own, ("other", "false")], choose.randint(0, 2)))
    context: Json = choose.choice([{}, {"privileged": True}, {"privileged": False}])
    containers: list[Json] = [{"name": name, "image": "i"} for name in "ab"]
    spec: Json = {"containers": containers}
    if choose.random() < 0.3:
        spec["initContainers"] = [{"name": "init", "image": "i", "securityContext": context}]
    elif choose.random() < 0.3:
        containers[choose.randint(0, 1)]["securityContext"] = context
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if choose.random() < 0.15:
            spec[key] = choose.choice([True, False])
    if choose.random() < 0.2:
        spec["os"] = {"name": choose.choice(["linux", "windows"])}
    if choose.random() < 0.2:
        spec["nodeSelector"] = {"kubernetes.io/os": choose.choice(["linux", "windows"])}
    if choose.random() < 0.2:
        windows = [{"windowsOptions": {}}, {"windowsOptions": {"runAsUserName": "a"}}]
        spec["securityContext"] = choose.choice([{}, {"runAsUser": 1}, *windows])
    return annotations, spec


def test_the_policy_gives_a_class_to_the_pods_that_the_webhook_gives_one(given: Cluster) -> None:
    namespace = add_namespace(given, "generated", {DEFAULT_ANNOTATION: "gvisor"})
    choose = random.Random(18)
    seen: Counter[bool] = Counter()
    for _ in range(GENERATED):
        annotations, spec = some_pod(choose)
        answer = ask(given, namespace, annotations=annotations, **spec)
        if answer.status == 422:
            continue  # such as hostNetwork on Windows
        document = {"metadata": {"annotations": annotations}, "spec": spec}
        expected = takes_default(ReviewedPod(Raw(json.dumps(document).encode())))
        assert (answer.runtime_class == "gvisor") is expected, document
        seen[expected] += 1
    assert min(seen[True], seen[False]) > GENERATED // 5, seen


@pytest.mark.parametrize("size", [100, 3000])
def test_the_default_and_the_mark_stay_far_from_the_limit_of_what_an_expression_may_cost(
    given: Cluster, size: int
) -> None:
    namespace = add_namespace(given, f"costs-default-{size}", {DEFAULT_ANNOTATION: "kata"})
    many = [
        {"name": f"c{index}", "image": "i", "securityContext": {"privileged": False}}
        for index in range(size)
    ]
    with marking(given):
        answer = ask(given, namespace, containers=many)
        assert (answer.runtime_class, answer.marks[0]) == ("kata", ("1", "1"))
