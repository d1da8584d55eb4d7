"""Default classes: which pods get a RuntimeClass that they do not name, and which class."""

from typing import Any

import pytest

from extender.kubernetes.namespaces import NamespaceRules, rules_of
from extender.model.errors import UndecidedError
from tests.cases_file import cases
from tests.reviews import Webhook

CLUSTER = "runtimeclass-extender/is-default-class"
ELSEWHERE = "runtimeclass-extender/default-class"


def runtime_class(name: str, created: str = "", default: str | None = "true") -> dict[str, Any]:
    annotations = {} if default is None else {CLUSTER: default}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": created or None}
    return {
        "metadata": metadata,
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "1"}},
        "scheduling": {"nodeSelector": {"sandbox": name}},
    }


def rules(name: str, default: str | None, **annotations: str) -> NamespaceRules:
    defaults = {} if default is None else {ELSEWHERE: default}
    ours = {f"runtimeclass-extender/{key}-classes": text for key, text in annotations.items()}
    return rules_of(name, defaults | ours)


def webhook(*classes: dict[str, Any], namespace: str | None = None, **service: Any) -> Webhook:
    return Webhook(*classes, namespace_rules=lambda name: rules(name, namespace), **service)


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": {**spec}}


def given(webhook: Webhook, pod: Any) -> str | None:
    response = webhook.mutate(pod)
    assert response.allowed
    name = response.applied_to(pod)["spec"].get("runtimeClassName")
    assert name is None or isinstance(name, str)
    return name


def test_the_default_of_the_cluster_is_merged_like_a_class_that_was_named() -> None:
    hook = webhook(runtime_class("kata"), runtime_class("gvisor", default=None))
    patched = hook.mutate(pod()).applied_to(pod())
    assert patched["spec"] == {
        "runtimeClassName": "kata",
        "nodeSelector": {"sandbox": "kata"},
        "overhead": {"cpu": "1"},
    }
    assert hook.mutate(patched).operations is None
    assert hook.validate(patched).allowed


def test_without_the_flag_nobody_is_given_a_class() -> None:
    assert given(Webhook(runtime_class("kata")), pod()) is None


@pytest.mark.parametrize("value", ["True", "false", "1", ""])
def test_only_true_marks_a_default(value: str) -> None:
    assert given(webhook(runtime_class("kata", default=value)), pod()) is None


def test_the_newest_of_several_defaults_wins_and_a_warning_says_so() -> None:
    hook = webhook(
        runtime_class("a", "2026-01-01T00:00:00Z"),
        runtime_class("c", "2026-02-01T00:00:00Z"),
        runtime_class("b", "2026-02-01T00:00:00Z"),
        runtime_class("d"),
    )
    response = hook.mutate(pod())
    assert response.applied_to(pod())["spec"]["runtimeClassName"] == "b"
    (warning,) = response.raw["warnings"]
    assert warning == 'default RuntimeClass "b": the newest of several, not "c", "a", "d"'


def test_the_default_of_the_namespace_goes_before_that_of_the_cluster() -> None:
    classes = [runtime_class("kata"), runtime_class("gvisor", default=None)]
    assert given(webhook(*classes, namespace="gvisor"), pod()) == "gvisor"
    assert given(webhook(*classes, namespace=""), pod()) == "kata"
    assert given(webhook(*classes, namespace="false"), pod()) is None


def test_a_refusal_says_which_annotation_of_which_namespace_named_the_class() -> None:
    """A typo in the annotation refuses every plain pod. Their authors never heard of the class."""
    response = webhook(namespace="nope").mutate(pod(), namespace="team-a")
    origin = 'annotation runtimeclass-extender/default-class of namespace "team-a"'
    assert response.message == f'pod rejected: RuntimeClass "nope" not found ({origin})'
    assert response.raw["warnings"] == ['RuntimeClass "nope" was given to the pod by default']


@pytest.mark.parametrize("of_cluster", [True, False])
def test_a_default_that_is_not_allowed_in_the_namespace_refuses_the_pod(of_cluster: bool) -> None:
    default = None if of_cluster else "kata"
    hook = Webhook(
        runtime_class("kata", default="true" if of_cluster else None),
        namespace_rules=lambda name: rules(name, default, allowed="gvisor, wasm"),
    )
    response = hook.mutate(pod(), namespace="team-a")
    origin = (
        "annotation runtimeclass-extender/is-default-class of the RuntimeClass"
        if of_cluster
        else 'annotation runtimeclass-extender/default-class of namespace "team-a"'
    )
    assert response.message == (
        'pod rejected: RuntimeClass "kata" is not allowed in namespace "team-a", which allows'
        f' "gvisor", "wasm" ({origin})'
    )
    assert hook.count("mutate", "refused") == 1


def test_a_class_that_the_pod_itself_names_is_left_to_the_policy() -> None:
    """Some configurations call the webhook before kube-apiserver's policies judge the pod."""
    hook = Webhook(
        runtime_class("kata"), namespace_rules=lambda name: rules(name, None, allowed="gvisor")
    )
    assert hook.mutate(pod(runtimeClassName="kata"), namespace="team-a").allowed


@cases
def test_some_pods_are_never_given_a_class(
    annotations: dict[str, str], spec: dict[str, Any]
) -> None:
    own = runtime_class("own", default=None)
    own.pop("overhead")
    hook = webhook(runtime_class("kata"), own, namespace="kata")
    assert given(hook, pod(annotations, **spec)) == spec.get("runtimeClassName")


@cases
def test_ordinary_pods_are_given_the_default(
    annotations: dict[str, str], spec: dict[str, Any]
) -> None:
    assert given(webhook(runtime_class("kata")), pod(annotations, **spec)) == "kata"


def test_a_pod_that_conflicts_with_its_default_is_told_where_the_class_came_from() -> None:
    response = webhook(runtime_class("kata")).mutate(pod(nodeSelector={"sandbox": "no"}))
    assert response.message.startswith("conflict: ")
    assert response.message.endswith(
        " (annotation runtimeclass-extender/is-default-class of the RuntimeClass)"
    )
    assert response.raw["warnings"] == ['RuntimeClass "kata" was given to the pod by default']


def test_nothing_is_given_before_classes_and_namespaces_are_known() -> None:
    def unknown(namespace: str) -> str | None:
        raise UndecidedError("runtimeclass-extender: Namespaces not synced yet")

    for hook in (webhook(synced=False), Webhook(namespace_rules=unknown)):
        response = hook.mutate(pod())
        assert response.raw["status"]["code"] == 503
        assert response.message.endswith("not synced yet")
        assert hook.mutate(pod(hostNetwork=True)).allowed
        assert hook.validate(pod()).allowed
