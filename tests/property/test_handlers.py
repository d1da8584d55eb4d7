"""Laws of a node's handlers: of those listed twice the first one counts, as in the kubelet."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from extender.cluster.node_and_class_feeds import NodeFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.decoding.decoder import decode
from extender.decoding.nodes import NodeReader, RawNode, node_of
from extender.objects import Features, Pod, RuntimeClass
from extender.predicates.node_checks import Policy, Requirements
from extender.shape import shape_of

NAMES = ["", "runsc", "kata"]

features = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {}, optional={"userNamespaces": st.booleans(), "recursiveReadOnlyMounts": st.booleans()}
    ),
)
handlers = st.lists(
    st.one_of(
        st.none(),
        st.fixed_dictionaries(
            {},
            optional={"name": st.one_of(st.none(), st.sampled_from(NAMES)), "features": features},
        ),
    ),
    max_size=6,
)


def document(listed: list[dict[str, Any] | None]) -> bytes:
    return orjson.dumps({"metadata": {"name": "n1"}, "status": {"runtimeHandlers": listed}})


def first_of(listed: list[dict[str, Any] | None], name: str) -> dict[str, Any] | None:
    """What HandlerSupportsUserNamespaces of kubelet_getters.go (v1.36.2) finds by a name."""
    return next(
        (each for each in (i or {} for i in listed) if (each.get("name") or "") == name), None
    )


@given(
    listed=handlers,
    name=st.sampled_from(NAMES),
    needed=st.builds(Features, st.booleans(), st.booleans()),
)
def test_of_handlers_listed_twice_the_first_decides(
    listed: list[dict[str, Any] | None], name: str, needed: Features
) -> None:
    """For all lists: a pod that needs features passes if the first of its handler has them."""
    raw = document(listed)
    node = node_of(decode(raw, RawNode))
    found = first_of(listed, name)
    offered = (found or {}).get("features") or {}
    has_all = (not needed.user_namespaces or offered.get("userNamespaces", False)) and (
        not needed.recursive_read_only_mounts or offered.get("recursiveReadOnlyMounts", False)
    )
    expected = has_all and (found is not None or not listed)
    runtime_class = RuntimeClass("c", name)
    requirements = Requirements.of(Pod(features=needed), runtime_class, Policy())
    assert (requirements.mismatch(shape_of(node, ())) is None) == expected


@given(listed=handlers)
def test_whoever_reads_a_node_finds_the_same_handlers(listed: list[dict[str, Any] | None]) -> None:
    """node_of = NodeReader = the feed that follows the API server, for all lists."""
    raw = document(listed)
    node = node_of(decode(raw, RawNode))
    assert NodeReader().read(raw) == node
    store = SnapshotStore()
    feed = NodeFeed(store)
    feed.begin()
    feed.collect(Raw(raw))
    feed.commit()
    shape = store.snapshot.shape(b"n1")
    assert shape is not None
    assert shape.handlers == node.handlers
    names = [each.name for each in node.handlers]
    assert len(names) == len(set(names))
