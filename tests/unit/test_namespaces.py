"""Annotations of Namespaces; tests/e2e/test_policies.py tests them on a real API server."""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from extender.cluster import pod_and_namespace_feeds as namespace_feed
from extender.cluster.pod_and_namespace_feeds import NamespaceFeed
from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.namespaces import ALLOWED_ANNOTATION, rules_of
from extender.model.errors import UndecidedError
from tests.namespace_rules import CASES, NAMESPACE
from tests.stores import raw

NAMES = st.sampled_from(["kata", "gvisor", "wasm", "", "*", "k*"])


@pytest.mark.parametrize(("annotations", "name", "refusal"), CASES)
def test_a_pod_is_refused_for_what_the_annotations_say(
    annotations: dict[str, str], name: str | None, refusal: str
) -> None:
    assert rules_of(NAMESPACE, annotations).refusal(name or "") == refusal


@given(st.lists(NAMES), st.sampled_from(["kata", "gvisor", "wasm"]))
def test_a_longer_list_never_refuses_what_a_shorter_one_allows(names: list[str], more: str) -> None:
    shorter = rules_of(NAMESPACE, {ALLOWED_ANNOTATION: ",".join(names)})
    longer = rules_of(NAMESPACE, {ALLOWED_ANNOTATION: ",".join([*names, more])})
    assert longer.allows(more)
    for each in ("kata", "gvisor", "wasm", ""):
        assert longer.allows(each) or not shorter.allows(each)


@given(st.text())
def test_a_class_is_allowed_by_its_own_name_or_by_a_star_alone(text: str) -> None:
    rules = rules_of(NAMESPACE, {ALLOWED_ANNOTATION: text})
    entries = {each.strip() for each in text.split(",")}
    assert rules.allows("kata") == bool(entries & {"kata", "*"})
    assert rules.allows("")


def test_a_refusal_stays_short_and_on_one_line_whatever_the_annotation_holds() -> None:
    many = ",".join(f"class-{index}\x1b[31m" for index in range(10_000))
    refusal = rules_of("a" * 1000 + "\n", {ALLOWED_ANNOTATION: many}).refusal("kata")
    assert refusal.isprintable()
    assert refusal.endswith(" and 9980 more")
    assert len(refusal) < 10_000


# What the webhook knows of Namespaces in a live cluster


def namespace(name: str, version: int = 1, default: str | None = None) -> Raw:
    key = "other" if default is None else "runtimeclass-extender/default-class"
    annotations = {key: "x" if default is None else default}
    metadata = {"name": name, "resourceVersion": str(version), "annotations": annotations}
    return raw({"kind": "Namespace", "metadata": metadata})


def listed(*items: Raw) -> NamespaceFeed:
    feed = NamespaceFeed()
    feed.begin()
    for item in items:
        feed.collect(item)
    feed.commit()
    return feed


def test_nothing_is_known_before_the_first_list_is_complete() -> None:
    feed = NamespaceFeed()
    feed.begin()
    feed.collect(namespace("a"))
    synced = [feed.synced]
    with pytest.raises(UndecidedError, match="Namespaces not synced yet"):
        feed.rules_of("a")
    feed.commit()
    synced.append(feed.synced)
    assert synced == [False, True]
    assert feed.rules_of("a").default == ""


def test_a_change_counts_at_once() -> None:
    feed = listed(namespace("a", default="kata"), namespace("b"))
    assert feed.rules_of("a").default == "kata"
    feed.change(namespace("a", 2, "gvisor"), deleted=False)
    assert feed.rules_of("a").default == "gvisor"


def test_a_namespace_that_was_just_created_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace_feed, "WAIT_SECONDS", 20.0)
    feed = listed()
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(feed.rules_of("new").default))
    asking.start()
    feed.change(namespace("new", 2, "kata"), deleted=False)
    asking.join()
    assert answers == ["kata"]


def test_a_namespace_that_stays_unknown_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace_feed, "WAIT_SECONDS", 0.01)
    feed = listed(namespace("gone"))
    feed.change(namespace("gone", 2), deleted=True)
    with pytest.raises(UndecidedError, match='namespace "gone" is not known yet'):
        feed.rules_of("gone")


@pytest.mark.parametrize(
    "document",
    [{"kind": "Pod"}, {"metadata": {}}, {"metadata": {"name": "a", "annotations": 7}}],
    ids=["other kind", "no name", "annotations of a wrong type"],
)
def test_other_objects_are_not_taken(document: dict[str, Any]) -> None:
    feed = NamespaceFeed()
    feed.begin()
    with pytest.raises(DecodeError):
        feed.collect(raw(document))
