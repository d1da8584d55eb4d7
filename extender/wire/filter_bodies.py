"""The extender's wire format: request bodies → pods and nodes, results → answer bodies.

k8s.io/kube-scheduler/extender/v1 types.go, v1.36.2. The structs carry no JSON tags, so their keys
are the Go field names, read without regard to case; Pod and Node inside use their own names.

Names are kept as the bytes between the quotes of their JSON strings: most of a request of 65,000
names never becomes Python strings, but is split, looked up and joined again.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import orjson
from msgspec import Raw, Struct

from extender.decoding.decoder import DecodeError, decode
from extender.decoding.nodes import NodeReader
from extender.decoding.pods import RawPod, pod_of
from extender.names import QUICK_RUN_BYTES, SEPARATOR, NameRun
from extender.objects import Node, Pod
from extender.undecided_errors import ERROR_PREFIX, UndecidedError
from extender.verbs.filter import PASSES, FilterResult
from extender.verbs.prioritize import MAX_SCORE
from extender.wire import slices
from extender.wire.bodies import (
    FREE_POD_BYTES,
    MAX_NAMES,
    NULL,
    BadRequestError,
    Chunks,
    LastPod,
    PodText,
    bound_pod,
    decode_pod,
    refused,
    run_of,
    top_level,
)
from extender.wire.node_items import (
    ITEMS_END,
    MAX_NODES,
    NodeItems,
    SeenNodes,
    TooManyNodesError,
    find_items,
)
from extender.wire.slices import MAX_OBJECT_BYTES

# What kube-scheduler sends in mode NodeNames: encoding/json writes the fields in this order.
_NAMES_MARK: Final = b',"Nodes":null,"NodeNames":["'
_NAMES_END: Final = b'"]}'


#: Any body up to this size is answered within 20 ms, on the event loop, unless it has more objects
#: than the Nodes that could be real: 10,000 that are empty take 60 ms. Behind a Pod of this size
#: there may be more bytes of names, and up to so many names: compiled, 200,000 take 8 ms.
QUICK_BYTES: Final = 32 * 1024
QUICK_OBJECTS: Final = 1000
QUICK_NAMES_BYTES: Final = QUICK_RUN_BYTES
QUICK_NAMES: Final = 200_000

#: An answer with long reasons may be many times as long as its request; of a few names it never is
#: as long as this, nor as MAX_ANSWER_BYTES.
QUICK_ANSWER_BYTES: Final = 32 * 2**20
_FEW_NAMES: Final = 20_000

#: A filter's answer: 150,000 nodes, each with a name of 100 bytes and a reason of 700.
MAX_ANSWER_BYTES: Final = 120 * 10**6


class _PodHead(Struct, forbid_unknown_fields=True, rename={"pod": "Pod"}):
    """The body up to the names, closed: nothing but a Pod."""

    pod: RawPod | None = None


_StringList = list[str | None]


_RawList = list[Raw]


class _NodeList(Struct):
    items: Raw = Raw()


_NO_ITEMS: Final = Raw(b"[]")


class Args(NamedTuple):
    """ExtenderArgs: a pod and the nodes it may go to, in one of the two modes.

    text is what the pod was read from.
    """

    pod: Pod
    nodes: NameRun | NodeItems
    text: PodText = b""


def is_quick(body: bytes) -> bool:
    """Whether the body is answered in a few milliseconds, whatever its content."""
    return len(body) <= QUICK_BYTES


def decode_args_quickly(body: bytes, seen: SeenNodes, last: LastPod) -> Args | None:
    """Read ExtenderArgs; None for a body that may take more than a few milliseconds.

    Raises BadRequestError.
    """
    is_short = len(body) <= QUICK_BYTES
    args = None
    if body.endswith(_NAMES_END) and (is_short or len(body) <= QUICK_NAMES_BYTES):
        mark = body.find(_NAMES_MARK, 0, QUICK_BYTES)
        args = _decode_go_names(body, mark, last) if mark >= 0 else None
    if args is None and is_short:
        objects = body.count(b"{") + body.count(b"null")
        args = decode_args(body, seen, last) if objects <= QUICK_OBJECTS else None
    return args if args is not None and args.nodes.count <= QUICK_NAMES else None


def decode_args(body: bytes, seen: SeenNodes | None = None, last: LastPod | None = None) -> Args:
    """Read ExtenderArgs; whole Nodes with the help of those seen before, the pod of the last one.

    Raises BadRequestError.
    """
    if not body:
        raise BadRequestError("body: empty, expected ExtenderArgs as JSON")
    usual = decode_usual(
        body, SeenNodes(limit=0) if seen is None else seen, LastPod() if last is None else last
    )
    return usual if usual is not None else decode_any(body)


def decode_usual(body: bytes, seen: SeenNodes, last: LastPod) -> Args | None:
    """Either mode exactly as encoding/json writes it, as kube-scheduler does; None for all else."""
    if body.endswith(_NAMES_END):
        mark = slices.find(body, _NAMES_MARK)
        return _decode_go_names(body, mark, last) if 0 <= mark <= MAX_OBJECT_BYTES else None
    if body.endswith(ITEMS_END):
        return _decode_go_items(body, seen, last)
    return None


def _decode_go_names(body: bytes, mark: int, last: LastPod) -> Args | None:
    """The names mode exactly as encoding/json writes it; None for anything else.

    mark is the first place of _NAMES_MARK. If the part before it is, closed by a brace, a JSON
    object of nothing but a Pod, and the part behind it nothing but plain strings, then the whole is
    what it looks like, wherever else the mark may stand in the pod's text.
    """
    first, end = mark + len(_NAMES_MARK), len(body) - len(_NAMES_END)
    # Before it when the quote that opens the first name would be the one that closes the last.
    names = NameRun.read(body, first, end) if first <= end else None
    if names is None:
        return None
    if names.count > MAX_NAMES:
        raise _too_many_names()
    head = body[:mark]
    pod = last.get(head) or _decode_head(head, last)
    return Args(pod, names, head) if pod is not None else None


def _too_many_names() -> BadRequestError:
    return BadRequestError(f"NodeNames: more than {MAX_NAMES:,} names")


def _decode_head(head: bytes, last: LastPod) -> Pod | None:
    if len(head) > FREE_POD_BYTES:
        bound_pod(head)
    if not (head.isascii() or _is_utf8(head)):
        return None
    try:
        raw = decode(head + b"}", _PodHead).pod
    except DecodeError:
        return None
    if raw is None:
        return None
    pod = pod_of(raw)
    last.keep(head, pod)
    return pod


def _is_utf8(text: bytes) -> bool:
    """msgspec does not check this in the parts that it skips."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decode_go_items(body: bytes, seen: SeenNodes, last: LastPod) -> Args | None:
    """The nodes mode exactly as encoding/json writes it; None for anything else."""
    places = find_items(body)
    if places is None:
        return None
    end_of_head, start = places
    if end_of_head > MAX_OBJECT_BYTES:
        return None
    head = body[:end_of_head]
    pod = last.get(head) or _decode_head(head, last)
    try:
        items = seen.read(body, start) if pod is not None else None
    except TooManyNodesError as error:
        raise BadRequestError(str(error)) from None
    return Args(pod, items, head) if pod is not None and items is not None else None


def names_body(head: bytes, names: NameRun) -> bytes:
    """ExtenderArgs as kube-scheduler sends them; head is the text before the names."""
    first, end = len(head) + len(_NAMES_MARK), len(names.buffer) - len(_NAMES_END)
    if (names.start, names.end) == (first, end) and names.buffer.startswith(head):
        return names.buffer  # the body that they were read from
    return b"".join((head, _NAMES_MARK, names.joined, _NAMES_END))


def names_of(nodes: NodeItems) -> NameRun:
    return run_of([node.name for node in nodes.nodes])


def decode_any(body: bytes) -> Args:
    """Either mode in whatever JSON. Raises BadRequestError."""
    fields = top_level(body, ("pod", "nodenames", "nodes"))
    text = fields.get("pod", NULL)
    pod = decode_pod(text)
    names = decode_names(fields.get("nodenames", NULL))
    nodes = fields.get("nodes", NULL)
    if names is not None:
        if not slices.is_checked(nodes):
            with refused():
                slices.check(nodes, "Nodes")
        return Args(pod, names, text)
    if nodes == NULL:
        raise BadRequestError("NodeNames, Nodes: both are null, one of them must be a list")
    return Args(pod, _decode_items(nodes), text)


def decode_names(raw: Raw) -> NameRun | None:
    if raw == NULL:
        return None
    runs, count = [], 0
    with refused():
        for names in slices.lists_of(raw, _StringList, "NodeNames"):
            count += len(names)
            if count > MAX_NAMES:
                raise _too_many_names()
            runs.append(run_of([name or "" for name in names]))
    if len(runs) == 1:
        return runs[0]
    joined = SEPARATOR.join([run.joined for run in runs])
    return NameRun.known(joined, 0, len(joined), count)


def _decode_items(raw: Raw) -> NodeItems:
    items: list[Raw] = []
    reader = NodeReader()
    nodes: list[Node] = []
    with refused():
        for part in slices.lists_of(_items(raw), _RawList, "Nodes.items"):
            items += part
            if len(items) > MAX_NODES:
                raise BadRequestError(f"Nodes.items: more than {MAX_NODES:,} Nodes")
        for index, item in enumerate(items):
            slices.bound(item, f"Nodes.items[{index}]")
            nodes.append(Node("") if item == NULL else reader.read(item, f"Nodes.items[{index}]"))
    return NodeItems(items, nodes)


def _items(raw: Raw) -> Raw:
    """The items of a NodeList; all else in it is checked to be JSON. Raises DecodeError."""
    found = _NO_ITEMS
    for part in slices.members(raw, "Nodes"):
        if not isinstance(part, slices.Member):
            items = decode(part, _NodeList, "Nodes").items
        elif part.key == "items":
            items = part.value
        else:
            slices.check(part.value, "Nodes")
            continue
        if items and not slices.is_checked(found):
            # Only the last one of a key is read, but all of a body must be JSON.
            slices.check(found, "Nodes.items")
        found = items or found
    return _NO_ITEMS if found == NULL else found


_NEXT_HOST: Final = b',{"Host":"'
_SCORES: Final = tuple(b'","Score":%d}' % score + _NEXT_HOST for score in range(1, MAX_SCORE + 1))


def encode_scores(names: NameRun, above: bytes | None) -> Chunks:
    """HostPriorityList: a bare array of the hosts above the lowest score, in the order asked.

    above has the difference for each name, None where all are equal. kube-scheduler adds the
    scores it receives and nothing for the others (schedule_one.go, prioritizeNodes, v1.36.2).
    """
    if above is None:
        return [b"[]"]
    listed = names.ended(above, _SCORES, cut=len(_NEXT_HOST))
    return [b'[{"Host":"', listed, b"]"]


def string(text: str) -> bytes:
    """A JSON string, quotes included."""
    return orjson.dumps(text)


@lru_cache(maxsize=1024)
def _ending(text: str) -> bytes:
    """What follows a refused node's name: its text, and the quote of the next name."""
    return b'":' + string(text) + b',"'


def is_long_answer(names: NameRun, result: FilterResult) -> bool:
    """Whether the answer is so long that it takes more than a few milliseconds to write."""
    if names.count <= _FEW_NAMES:
        return False
    return _answer_size(names, result, list(map(_ending, result.texts))) > QUICK_ANSWER_BYTES


def _answer_size(names: NameRun, result: FilterResult, endings: Sequence[bytes]) -> int:
    """The bytes of names and reasons in the answer."""
    size = names.end - names.start
    for ending, count in zip(endings, result.refused, strict=True):
        size += count * len(ending)
    return size


def _sorted_names(names: NameRun, result: FilterResult) -> tuple[bytes, bytes]:
    """The passing names joined, and the members of a JSON object of refused name → text.

    The latter without their first quote. Raises UndecidedError for an answer over the limit, before
    memory is taken for it.
    """
    endings = list(map(_ending, result.texts))
    if names.count > _FEW_NAMES and _answer_size(names, result, endings) > MAX_ANSWER_BYTES:
        limit = f"{MAX_ANSWER_BYTES:,} bytes"
        raise UndecidedError(f"{ERROR_PREFIX}the answer would be over the limit of {limit}")
    return names.part(result.groups, endings, cut=len(b',"'))


# ExtenderFilterResult in the order of Go's struct: what stands before and behind the names, or the
# Nodes, that pass.
_AROUND_NAMES: Final = (b'{"Nodes":null,"NodeNames":["', b'"]')
_AROUND_NO_NAMES: Final = (b'{"Nodes":null,"NodeNames":[', b"]")
_AROUND_NODES: Final = (b'{"Nodes":{"metadata":{},"items":[', b']},"NodeNames":null')

_FAILED: Final = b',"FailedNodes":{},"FailedAndUnresolvableNodes":{'
_NO_ERROR: Final = b'},"Error":""}'


def _answer(
    around: tuple[bytes, bytes], passing: bytes | memoryview, refused: bytes = b""
) -> Chunks:
    """refused has a member for each refused node, but for its first quote."""
    before, behind = around
    if refused:
        return (before, passing, behind + _FAILED + b'"', refused, _NO_ERROR)
    return (before, passing, behind + _FAILED + _NO_ERROR)


def encode_passed_all(nodes: NameRun | NodeItems) -> Chunks:
    """ExtenderFilterResult for a request whose every node passes."""
    if isinstance(nodes, NameRun):
        names = memoryview(nodes.buffer)[nodes.start : nodes.end]
        return _answer(_AROUND_NAMES if nodes.count else _AROUND_NO_NAMES, names)
    return _answer(_AROUND_NODES, b",".join(nodes.raw))


def encode_filtered_names(names: NameRun, result: FilterResult) -> tuple[Chunks, bytes]:
    """ExtenderFilterResult of mode NodeNames, and of it the names that pass, joined."""
    passing, refused = _sorted_names(names, result)
    return _answer(_AROUND_NAMES if result.passing else _AROUND_NO_NAMES, passing, refused), passing


def encode_filtered_nodes(asked: NodeItems, names: NameRun, result: FilterResult) -> Chunks:
    """ExtenderFilterResult of mode Nodes: the items that pass, byte for byte as they came."""
    _, refused = _sorted_names(names, result)
    return _answer(_AROUND_NODES, b",".join(result.pick(asked.raw, PASSES)), refused)


def encode_filter_error(nodes: NameRun | NodeItems, text: str) -> Chunks:
    """ExtenderFilterResult with Error set: kube-scheduler tries the pod again later."""
    before, behind = _AROUND_NO_NAMES if isinstance(nodes, NameRun) else _AROUND_NODES
    return (before, behind + _FAILED, b'},"Error":' + string(text) + b"}")
