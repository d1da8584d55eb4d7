"""The Nodes of a request with whole Nodes: split, decoded, and remembered for the next request.

kube-scheduler sends the same Nodes for each pod, of 10 KB and more each, and few have changed in
between. An item with the same bytes as the last one of its name is not decoded again: it is the
same JSON object, so it ends at the same length.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Raw

from extender.decoding.decoder import DecodeError
from extender.decoding.nodes import NodeReader
from extender.objects import Node
from extender.wire import slices
from extender.wire.slices import MAX_OBJECT_BYTES

#: The limit of what is remembered: bytes of items, including the decoded nodes. 7,000 nodes of 12
#: KB with 30 labels.
DEFAULT_LIMIT: Final = 128 * 2**20

#: Nodes in one request: more than the largest cluster known has.
MAX_NODES: Final = 200_000

#: The bytes counted for what is kept with an item: its Node, and each of its labels, taints and
#: handlers.
_NODE_SIZE: Final = 1024
_PART_SIZE: Final = 160

#: A DNS subdomain has no more characters.
_MAX_NAME: Final = 253

# What kube-scheduler sends: every Node begins with its metadata, and that with the name.
_OPENING: Final = b'{"metadata":{'
_OPENING_WITH_NAME: Final = _OPENING + b'"name":"'
_CLOSING: Final = b"}"
_BETWEEN: Final = _CLOSING + b"," + _OPENING
_MARK: Final = b',"Nodes":{"metadata":{},"items":[' + _OPENING

#: The end of such a request's body.
ITEMS_END: Final = _CLOSING + b']},"NodeNames":null}'


class TooManyNodesError(ValueError):
    """More than MAX_NODES; becomes a 400."""


@dataclass(frozen=True, slots=True)
class NodeItems:
    """The Nodes of a request: each item as it came, and the node decoded from it."""

    raw: Sequence[Raw | bytes]
    nodes: Sequence[Node]

    @property
    def count(self) -> int:
        return len(self.raw)


@dataclass(slots=True)
class _Seen:
    raw: bytes
    node: Node
    #: The number of the last request that had this item.
    request: int

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        parts = len(self.node.labels) + len(self.node.taints) + len(self.node.handlers)
        return len(self.raw) + _NODE_SIZE + _PART_SIZE * parts


class SeenNodes:
    """Items of earlier requests by the name in them.

    Shared by the threads of the server: readers see an entry whole or not at all, and a thread that
    adds one holds the lock. All items together stay within `limit` bytes: when there is no room,
    those of neither this request nor the last one are dropped, and if that is not enough, an item
    is not remembered, but decoded each time.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._by_name: dict[bytes, _Seen] = {}
        self._size = 0
        self._requests = 0
        self._swept = 0
        self._reader = NodeReader()

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def size(self) -> int:
        """About how many bytes the items take, including the decoded nodes."""
        return self._size

    def read(self, body: bytes, start: int) -> NodeItems | None:
        """The items of a body from `start` on, which is where find_items has found the first one.

        None if they are not what kube-scheduler sends: JSON objects, ASCII, nothing in between but
        commas. Cut wherever an item may begin, the pieces are the items if each by itself is a
        JSON object. Raises TooManyNodesError.
        """
        self._requests += 1
        request, by_name = self._requests, self._by_name
        raw: list[bytes] = []
        nodes: list[Node] = []
        last_end = len(body) - len(ITEMS_END) + len(_CLOSING)
        first = start
        while True:
            name = _name_at(body, first)
            seen = by_name.get(name)
            if seen is not None and body.startswith(seen.raw, first):
                seen.request = request
                end = first + len(seen.raw)
            else:
                end = body.find(_BETWEEN, first, first + MAX_OBJECT_BYTES) + 1 or last_end
                if end - first > MAX_OBJECT_BYTES:
                    return None
                seen = self._read_item(body[first:end], name, request)
                if seen is None:
                    return None
            raw.append(seen.raw)
            nodes.append(seen.node)
            if end == last_end:
                return NodeItems(raw, nodes)
            if not body.startswith(_BETWEEN, end - 1):
                return None
            if len(raw) >= MAX_NODES:
                raise TooManyNodesError(f"Nodes.items: more than {MAX_NODES:,} Nodes")
            first = end + 1

    def _read_item(self, item: bytes, name: bytes, request: int) -> _Seen | None:
        # msgspec does not check the encoding of what it skips.
        if not item.isascii():
            return None
        with self._lock:
            try:
                seen = _Seen(item, self._reader.read(item), request)
            except DecodeError:
                return None
            self._remember(name, seen)
        return seen

    def _remember(self, name: bytes, seen: _Seen) -> None:
        self._drop(name)
        size = seen.size
        if self._size + size > self._limit and self._swept != seen.request:
            self._swept = seen.request
            kept = {
                name: each
                for name, each in self._by_name.items()
                if each.request >= seen.request - 1
            }
            for dropped in self._by_name.keys() - kept.keys():
                self._drop(dropped)
        if name and self._size + size <= self._limit:
            self._by_name[name] = seen
            self._size += size

    def _drop(self, name: bytes) -> None:
        seen = self._by_name.pop(name, None)
        if seen is not None:
            self._size -= seen.size


def _name_at(body: bytes, item: int) -> bytes:
    """The apparent name of the item that begins here; it is used only to find the earlier item."""
    if not body.startswith(_OPENING_WITH_NAME, item):
        return b""
    start = item + len(_OPENING_WITH_NAME)
    return body[start : max(start, body.find(b'"', start, start + _MAX_NAME + 1))]


def find_items(body: bytes) -> tuple[int, int] | None:
    """The end of what precedes the items, and the start of the first one."""
    mark = slices.find(body, _MARK)
    return None if mark < 0 else (mark, mark + len(_MARK) - len(_OPENING))
