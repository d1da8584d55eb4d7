"""Request bodies: their limits, the Pod and the whole Nodes in them. Also JSON answers."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import orjson
from msgspec import Raw

from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.explained_pods import uses_in
from extender.kubernetes.nodes import NodeReader, RawNode
from extender.kubernetes.pods import RawPod, pod_of
from extender.model.errors import BadRequestError, TooLargeError
from extender.model.names import NameRun
from extender.model.objects import Node, Pod

T = TypeVar("T")

Chunks = Sequence[bytes | memoryview]

NULL: Final = Raw(b"null")

#: The most names in one request: six times the nodes of the largest known cluster.
MAX_NAMES: Final = 1_000_000

#: Limits on JSON in a form other than kube-scheduler's, as people and tests write it: its bytes,
#: which are decoded in one piece in 0.1 s, and its values. A Node of 10 KB has 400 values.
MAX_OTHER_BYTES: Final = 8 * 2**20
MAX_OTHER_VALUES: Final = 400_000

#: The most bytes of JSON in a Pod or Node: etcd stores no object of more than 1.5 MiB.
MAX_OBJECT_BYTES: Final = 2 * 2**20

#: The most values in a Pod, decoded in 0.1 s. A value in managedFields takes 15 bytes.
MAX_POD_VALUES: Final = 100_000

#: The end of the JSON of a name that ends with a quote and a comma. It contains a false separator.
_DOUBTFUL: Final = b'\\","'


def run_of(names: Sequence[str]) -> NameRun:
    """The run of any names: the content of their JSON array.

    A JSON string contains no unescaped quote, so it does not contain the separator. A false
    separator can only begin in a name that ends with a quote and a comma: then commas are escaped.
    """
    dumped = orjson.dumps(names)
    if _DOUBTFUL in dumped:
        contents = (orjson.dumps(name)[1:-1] for name in names)
        return NameRun.of([each.replace(b",", b"\\u002c") for each in contents])
    return NameRun.known(dumped, 2, max(2, len(dumped) - 2), len(names))


def in_lower_case(fields: Mapping[str, Raw] | None) -> Mapping[str, Raw]:
    """The fields of an object by lower-case key: Go's encoding/json ignores the case of keys."""
    return {key.casefold(): value for key, value in (fields or {}).items()}


def bound_other(body: bytes) -> None:
    """Raises BadRequestError if JSON in another form than kube-scheduler's is over a limit."""
    if len(body) > MAX_OTHER_BYTES:
        raise TooLargeError(
            f"body: over the limit of {MAX_OTHER_BYTES:,} bytes for JSON that is not exactly as"
            " kube-scheduler writes it: its keys in its order, no blanks, no escapes in names"
        )
    bound_values(body, MAX_OTHER_VALUES, "body")
    if not is_utf8(body):
        raise BadRequestError("body: not JSON: not UTF-8")


def is_utf8(text: bytes) -> bool:
    """Whether a text is UTF-8. msgspec does not check the parts that it skips."""
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
    return True


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Turns a DecodeError into a BadRequestError."""
    try:
        yield
    except DecodeError as error:
        raise BadRequestError(str(error)) from None


def decode_or_refuse(raw: bytes | Raw, kind: type[T], place: str) -> T:
    with refused():
        return decode(raw, kind, place)


def bound_values(raw: bytes | Raw, most: int, place: str) -> None:
    # In a list or an object, every value but the first follows a comma.
    if len(raw) > most and bytes(raw).count(b",") > most:
        raise BadRequestError(f"{place}: more than {most:,} values")


def bound_pod(raw: bytes | Raw) -> None:
    """Raises BadRequestError if there are more bytes or values than a Pod can have."""
    if len(raw) > MAX_OBJECT_BYTES:
        raise BadRequestError(f"Pod: more than {MAX_OBJECT_BYTES:,} bytes")
    bound_values(raw, MAX_POD_VALUES, "Pod")


def decode_pod(raw: bytes | Raw) -> Pod:
    """Raises BadRequestError."""
    text = bytes(raw)
    if text == b"null":
        raise BadRequestError("Pod: missing")
    if not is_utf8(text):
        raise BadRequestError("Pod: not JSON: not UTF-8")
    bound_pod(text)
    with refused():
        return pod_of(decode(text, RawPod, "Pod"))


def with_uses(pod: Pod, text: bytes | Raw) -> Pod:
    """The pod with the features that it uses. text: its JSON. Raises BadRequestError."""
    with refused():
        return replace(pod, uses=uses_in(text))


def encode(document: Mapping[str, object] | Sequence[object]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


#: The most Nodes in one request: at 3 KB each, less than a kubelet writes, they fill the largest
#: body. So many empty Nodes are decoded in 0.2 s.
MAX_NODES: Final = 20_000

#: The most taints, handlers, conditions and pairs of labels in all Nodes of a request: 7,000 Nodes
#: with 15 conditions and 50 labels each have so many. Decoding them takes 0.8 s.
MAX_PARTS: Final = 300_000

#: The most bytes of JSON in the cache of Nodes: 6,000 Nodes of 10 KB.
MAX_KNOWN_BYTES: Final = 64 * 2**20

#: A Node is cached only if its JSON has so many bytes per part. A part takes twice that in memory.
_PART_SIZE: Final = 80

#: The most characters in a DNS subdomain.
_MAX_NAME: Final = 253

# kube-scheduler's form: every Node begins with its metadata, and the metadata with the name.
_OPENING: Final = b'{"metadata":{'
_OPENING_WITH_NAME: Final = _OPENING + b'"name":"'
_CLOSING: Final = b"}"
_BETWEEN: Final = _CLOSING + b"," + _OPENING
_MARK: Final = b',"Nodes":{"metadata":{},"items":[' + _OPENING

#: The end of a body in this form.
ITEMS_END: Final = _CLOSING + b']},"NodeNames":null}'


@dataclass(frozen=True, slots=True)
class NodeItems:
    """The Nodes of a request: each item as received, and the node decoded from it."""

    raw: Sequence[Raw | bytes]
    nodes: Sequence[Node]

    @property
    def count(self) -> int:
        return len(self.raw)


def too_many_nodes() -> BadRequestError:
    return BadRequestError(f"Nodes.items: more than {MAX_NODES:,} Nodes")


class Parts:
    """Counts the parts of a request's Nodes, and refuses too many before they are decoded."""

    def __init__(self) -> None:
        self.count = 0

    def read(self, reader: NodeReader, item: bytes | Raw, place: str = "") -> Node:
        """Raises BadRequestError, DecodeError."""
        raw = decode(item, RawNode, place)
        self.count += reader.parts_of(raw)
        if self.count > MAX_PARTS:
            raise BadRequestError(
                f"Nodes.items: more than {MAX_PARTS:,} taints, handlers, conditions, label pairs"
            )
        return reader.node_of(raw, place)


class SeenNodes:
    """Reads whole Nodes, and caches them by name. Safe to use from any thread.

    Beyond MAX_KNOWN_BYTES of JSON the cache is cleared. See _PART_SIZE.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, Node]] = {}
        self._reader = NodeReader()

    def read(self, body: bytes, most: int) -> tuple[NodeItems, int] | None:
        """The Nodes of a request in kube-scheduler's form, and the end of the text before them.

        The body is cut wherever an item may begin. If each piece is a JSON object by itself, the
        pieces are the items. None for any other form, and if the items do not begin in the first
        `most` bytes. Raises BadRequestError for too many Nodes.
        """
        mark = body.find(_MARK, 0, most)
        if mark < 0:
            return None
        parts, found, new = Parts(), list[tuple[bytes, Node]](), dict[bytes, tuple[bytes, Node]]()
        last_end = len(body) - len(ITEMS_END) + len(_CLOSING)
        end = mark + len(_MARK) - len(_OPENING) - 1
        while end != last_end:
            if len(found) == MAX_NODES:
                raise too_many_nodes()
            start = end + 1
            name = _name_at(body, start)
            known = self._known.get(name)
            if known is None or not body.startswith(known[0], start):
                end = body.find(_BETWEEN, start, start + MAX_OBJECT_BYTES) + 1 or last_end
                before = parts.count
                known = self._read(body[start:end], parts)
                if known is None:
                    return None
                if _PART_SIZE * (parts.count - before) <= len(known[0]):
                    new[name] = known
            end = start + len(known[0])
            found.append(known)
            if end != last_end and not body.startswith(_BETWEEN, end - 1):
                return None
        if new:
            self._remember(new)
        return NodeItems([raw for raw, _ in found], [node for _, node in found]), mark

    def _read(self, item: bytes, parts: Parts) -> tuple[bytes, Node] | None:
        if len(item) > MAX_OBJECT_BYTES or not is_utf8(item):
            return None
        try:
            return item, parts.read(self._reader, item)
        except DecodeError:
            return None

    def _remember(self, new: dict[bytes, tuple[bytes, Node]]) -> None:
        new.pop(b"", None)
        known = {**self._known, **new}
        size = sum(len(raw) for raw, _ in known.values())
        self._known = known if size <= MAX_KNOWN_BYTES else {}


def _name_at(body: bytes, item: int) -> bytes:
    """The likely name of the item that begins here, used only as its cache key."""
    start = item + len(_OPENING_WITH_NAME)
    if not body.startswith(_OPENING_WITH_NAME, item):
        return b""
    return body[start : max(start, body.find(b'"', start, start + _MAX_NAME + 1))]
