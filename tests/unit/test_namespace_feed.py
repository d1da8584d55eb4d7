"""What the webhook knows of Namespaces in a live cluster."""

import json
import threading
from typing import Any

import pytest
from msgspec import Raw

from extender.cluster import namespace_feed
from extender.cluster.namespace_feed import NamespaceFeed
from extender.decoding.decoder import DecodeError
from extender.undecided_errors import UndecidedError

KEY = "runtimeclass-extender/default-class"


def namespace(name: str, version: int = 1, default: str | None = None) -> Raw:
    annotations = {KEY: default} if default is not None else {"other": "x"}
    metadata = {"name": name, "resourceVersion": str(version), "annotations": annotations}
    return Raw(json.dumps({"kind": "Namespace", "metadata": metadata}).encode())


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


def test_changes_count_once_they_are_handed_on() -> None:
    feed = listed(namespace("a", default="kata"), namespace("b"))
    assert feed.rules_of("a").default == "kata"
    feed.change(namespace("a", 2, "gvisor"), deleted=False)
    assert feed.rules_of("a").default == "kata"
    feed.flush()
    assert feed.rules_of("a").default == "gvisor"
    feed.change(namespace("b", 3), deleted=False)
    assert not feed.has_changes


def test_a_namespace_that_was_just_created_is_waited_for() -> None:
    feed = listed()
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(feed.rules_of("new").default))
    asking.start()
    feed.change(namespace("new", 2, "kata"), deleted=False)
    feed.flush()
    asking.join()
    assert answers == ["kata"]


def test_a_namespace_that_stays_unknown_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace_feed, "WAIT_SECONDS", 0.01)
    feed = listed(namespace("gone"))
    feed.change(namespace("gone", 2), deleted=True)
    feed.flush()
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
        feed.collect(Raw(json.dumps(document).encode()))
