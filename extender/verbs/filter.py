"""The filter verb: which nodes of a request can run the pod, and why the others can't.

k8s.io/kube-scheduler/extender/v1 types.go, v1.36.2. The structs carry no JSON tags, so their keys
are the Go field names, read without regard to case; Pod and Node inside use their own names.

All refusals belong in FailedAndUnresolvableNodes: no preemption makes a node match a RuntimeClass
(pkg/scheduler/extender.go Filter and framework/preemption, v1.36.2).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import orjson
from msgspec import Raw, Struct

from extender.kubernetes.decoder import decode, nullable
from extender.kubernetes.nodes import NodeReader
from extender.model.errors import ERROR_PREFIX, BadRequestError, UndecidedError
from extender.model.names import NameRun, text_of
from extender.model.objects import Node, Pod, RuntimeClass, Suspect
from extender.model.reasons import Code, Reason
from extender.rules.node_checks import Policy, Requirements
from extender.rules.node_shape import Shape, Wanted
from extender.rules.snapshot import Snapshot
from extender.rules.verdicts import Verdicts, group_refusals
from extender.verbs import bodies

# kube-scheduler's form in mode NodeNames: encoding/json writes the fields in this order.
_POD_MARK: Final = b'{"Pod":'
_NAMES_MARK: Final = b',"Nodes":null,"NodeNames":["'
_NAMES_END: Final = b'"]}'


class _NodeList(Struct):
    items: list[Raw] | None = None


class Args(NamedTuple):
    """ExtenderArgs: a pod and its candidate nodes, in either mode. text: the pod's JSON."""

    pod: Pod
    nodes: NameRun | bodies.NodeItems
    text: bytes | Raw = b""


def decode_args(body: bytes, seen: bodies.SeenNodes | None = None) -> Args:
    """Raises BadRequestError."""
    if not body:
        raise BadRequestError("body: empty, expected ExtenderArgs as JSON")
    args = decode_usual(body, seen)
    return decode_other(body) if args is None else args


def decode_usual(body: bytes, seen: bodies.SeenNodes | None = None) -> Args | None:
    """Decodes either mode in kube-scheduler's form (Go's encoding/json). None for any other form.

    The text before the nodes must be a Pod, and the rest plain names or Nodes. So marks that also
    occur within the pod's text do no harm. Raises BadRequestError.
    """
    nodes: NameRun | bodies.NodeItems | None = None
    mark = -1
    if body.endswith(_NAMES_END):
        mark = body.find(_NAMES_MARK, 0, bodies.MAX_OBJECT_BYTES)
        start, end = mark + len(_NAMES_MARK), len(body) - len(_NAMES_END)
        # start > end: the opening quote of the first name would also be the last closing quote.
        nodes = NameRun.read(body, start, end) if mark >= 0 and start <= end else None
        if nodes is not None and nodes.count > bodies.MAX_NAMES:
            raise BadRequestError(f"NodeNames: more than {bodies.MAX_NAMES:,} names")
    elif body.endswith(bodies.ITEMS_END):
        seen = bodies.SeenNodes() if seen is None else seen
        nodes, mark = seen.read(body, bodies.MAX_OBJECT_BYTES) or (None, mark)
    if nodes is None or not body.startswith(_POD_MARK):
        return None
    text = body[len(_POD_MARK) : mark]
    try:
        return Args(bodies.decode_pod(text), nodes, text)
    except BadRequestError:
        if len(body) > bodies.MAX_OTHER_BYTES:
            raise
        return None


def decode_other(body: bytes) -> Args:
    """Decodes either mode from JSON in any form. Raises BadRequestError."""
    bodies.bound_other(body)
    with bodies.refused():
        fields = bodies.in_lower_case(decode(body, dict[str, Raw]))
        text = fields.get("pod", bodies.NULL)
        pod = bodies.decode_pod(text)
        names = nullable(fields.get("nodenames", bodies.NULL), list[str | None], "NodeNames")
        if names is not None:
            return Args(pod, bodies.run_of([name or "" for name in names]), text)
        nodes = nullable(fields.get("nodes", bodies.NULL), _NodeList, "Nodes")
        if nodes is None:
            raise BadRequestError("NodeNames, Nodes: both are null, one of them must be a list")
        return Args(pod, _decode_items(nodes.items or []), text)


def _decode_items(items: list[Raw]) -> bodies.NodeItems:
    """Raises BadRequestError, DecodeError."""
    if len(items) > bodies.MAX_NODES:
        raise bodies.too_many_nodes()
    parts, reader = bodies.Parts(), NodeReader()
    nodes = [
        Node("") if item == bodies.NULL else parts.read(reader, item, f"Nodes.items[{index}]")
        for index, item in enumerate(items)
    ]
    return bodies.NodeItems(items, nodes)


def names_of(nodes: bodies.NodeItems) -> NameRun:
    return bodies.run_of([node.name for node in nodes.nodes])


def match_names(
    pod: Pod, runtime_class: RuntimeClass | None, snapshot: Snapshot, names: NameRun, policy: Policy
) -> Verdicts:
    """Judge nodes of the snapshot by name.

    runtime_class: the class that the pod names, None if it names none or the class does not exist.
    """
    if pod.is_unconstrained:
        return Verdicts.uniform(names.count, None)
    table = snapshot.shapes.verdicts(pod, runtime_class, policy)
    verdicts = Verdicts(snapshot.table.nodes.translate(names, table.codes), table.reasons)
    return _own_node_passes(verdicts, pod, map(text_of, names.names)) if pod.is_bound else verdicts


def _own_node_passes(verdicts: Verdicts, pod: Pod, names: Iterable[str]) -> Verdicts:
    """The verdicts for a bound pod: its own node passes, whatever the node's state is now.

    From 1.37 on kube-scheduler asks about bound pods, to make room for a pod that is resized in
    place (KEP-5836).
    """
    own = pod.state.node_name
    return verdicts.with_passing([place for place, name in enumerate(names) if name == own])


def match_nodes(
    pod: Pod,
    runtime_class: RuntimeClass | None,
    nodes: Sequence[Node],
    policy: Policy,
    suspects: Mapping[bytes, frozenset[Suspect]] = MappingProxyType({}),
) -> Verdicts:
    """Judge whole Nodes of a request. Of the snapshot, only its suspects are used."""
    if pod.is_unconstrained:
        return Verdicts.uniform(len(nodes), None)
    requirements = Requirements.of(pod.needs, runtime_class, policy)
    wanted = Wanted.of((runtime_class,) if runtime_class else ())
    number: dict[Reason | None, int] = {None: 0}

    def code_of(shape: Shape) -> int:
        return number.setdefault(requirements.mismatch(shape), len(number))

    codes = wanted.judge(nodes, code_of)
    for place, node in enumerate(nodes) if suspects else ():
        there = suspects.get(node.name.encode())
        if there:
            codes[place] = code_of(replace(wanted.shape_of(node), suspects=there))
    verdicts = Verdicts.of(codes, tuple(number))
    names = (node.name for node in nodes)
    return _own_node_passes(verdicts, pod, names) if pod.is_bound else verdicts


#: The group of the nodes that pass in FilterResult.groups. The groups of texts count from 1.
PASSES: Final = 0

#: Reasons that do not depend on the nodes.
_DECIDED_WITHOUT_NODES: Final = frozenset({Code.NOT_FOUND, Code.CONFLICT, Code.UNSUPPORTED})


class FilterResult(NamedTuple):
    """The nodes of a request by group. groups: a byte for each node, in the request's order.

    Group PASSES passes; it has `passing` nodes. Group n is refused with texts[n - 1]; it has
    refused[n - 1] nodes. reasons: the number of refused nodes by reason code.
    """

    groups: bytes
    texts: Sequence[str]
    passing: int
    refused: Sequence[int]
    reasons: Mapping[Code, int]

    @property
    def depends_on_nodes(self) -> bool:
        """Whether a node is refused because of its own state, which may change."""
        return not self.reasons.keys() <= _DECIDED_WITHOUT_NODES

    @property
    def leaves_none(self) -> bool:
        return not self.passing and bool(self.groups)

    @property
    def why(self) -> tuple[tuple[int, str], ...]:
        return tuple(zip(self.refused, self.texts, strict=True))


def sort_nodes(verdicts: Verdicts) -> FilterResult:
    refusals = group_refusals(verdicts)
    codes = verdicts.codes
    group_of = bytearray(max(len(verdicts.reasons), 256))
    for number, group in enumerate(refusals.groups, PASSES + 1):
        for code in group.codes:
            group_of[code] = number
    if isinstance(codes, bytes):
        groups = codes.translate(group_of[:256])
    else:
        groups = bytes(map(group_of.__getitem__, codes))
    sizes = [group.size for group in refusals.groups]
    texts = [group.text for group in refusals.groups]
    return FilterResult(groups, texts, len(groups) - sum(sizes), sizes, refusals.counts)


class Reasons(StrEnum):
    """When an answer names the refused nodes with their reasons: always, or if no node passes."""

    ALWAYS = "always"
    UNPLACED = "unplaced"

    def are_sent(self, result: FilterResult) -> bool:
        return self is Reasons.ALWAYS or not result.passing


#: An answer with no more names than this never reaches MAX_ANSWER_BYTES.
_FEW_NAMES: Final = 20_000

#: The most bytes of a filter answer: 150,000 nodes with a name of 100 and a reason of 700 bytes.
MAX_ANSWER_BYTES: Final = 120 * 10**6


@lru_cache(maxsize=1024)
def _ending(text: str) -> bytes:
    """The bytes after a refused node's name: its text, and the opening quote of the next name."""
    return b'":' + orjson.dumps(text) + b',"'


def _sorted_names(names: NameRun, result: FilterResult) -> tuple[bytes, bytes]:
    """The passing names joined, and the members of the JSON object refused name → text.

    The members lack their first quote. Raises UndecidedError for an answer over the limit, before
    memory is allocated for it.
    """
    endings = list(map(_ending, result.texts))
    if names.count > _FEW_NAMES:
        size = names.end - names.start
        size += sum(n * len(each) for n, each in zip(result.refused, endings, strict=True))
        if size > MAX_ANSWER_BYTES:
            limit = f"{MAX_ANSWER_BYTES:,} bytes"
            raise UndecidedError(f"{ERROR_PREFIX}the answer would be over the limit of {limit}")
    return names.part(result.groups, endings, cut=len(b',"'))


# ExtenderFilterResult before and after the passing names or Nodes, in the order of Go's struct.
_AROUND_NAMES: Final = (b'{"Nodes":null,"NodeNames":["', b'"]')
_AROUND_NO_NAMES: Final = (b'{"Nodes":null,"NodeNames":[', b"]")
_AROUND_NODES: Final = (b'{"Nodes":{"metadata":{},"items":[', b']},"NodeNames":null')

_FAILED: Final = b',"FailedNodes":{},"FailedAndUnresolvableNodes":{'
_NO_ERROR: Final = b'},"Error":""}'


def _answer(
    around: tuple[bytes, bytes], passing: bytes | memoryview, refused: bytes = b""
) -> bodies.Chunks:
    """refused: the JSON members of the refused nodes, without the first quote."""
    before, behind = around
    if refused:
        return (before, passing, behind + _FAILED + b'"', refused, _NO_ERROR)
    return (before, passing, behind + _FAILED + _NO_ERROR)


def encode_passed_all(nodes: NameRun | bodies.NodeItems) -> bodies.Chunks:
    """ExtenderFilterResult for a request of which all nodes pass."""
    if isinstance(nodes, NameRun):
        names = memoryview(nodes.buffer)[nodes.start : nodes.end]
        return _answer(_AROUND_NAMES if nodes.count else _AROUND_NO_NAMES, names)
    return _answer(_AROUND_NODES, b",".join(nodes.raw))


def encode_filtered_names(
    names: NameRun, result: FilterResult, reasons: Reasons = Reasons.ALWAYS
) -> bodies.Chunks:
    """ExtenderFilterResult of mode NodeNames."""
    if reasons.are_sent(result):
        passing, refused = _sorted_names(names, result)
    else:
        passing, refused = names.part(result.groups, [b""] * len(result.texts))[0], b""
    return _answer(_AROUND_NAMES if result.passing else _AROUND_NO_NAMES, passing, refused)


def encode_filtered_nodes(
    asked: bodies.NodeItems, result: FilterResult, reasons: Reasons = Reasons.ALWAYS
) -> bodies.Chunks:
    """ExtenderFilterResult of mode Nodes: the items that pass, byte for byte as received."""
    refused = _sorted_names(names_of(asked), result)[1] if reasons.are_sent(result) else b""
    passing = (raw for raw, group in zip(asked.raw, result.groups, strict=True) if group == PASSES)
    return _answer(_AROUND_NODES, b",".join(passing), refused)


def encode_filter_error(nodes: NameRun | bodies.NodeItems, text: str) -> bodies.Chunks:
    """ExtenderFilterResult with Error set: kube-scheduler tries the pod again later."""
    before, behind = _AROUND_NO_NAMES if isinstance(nodes, NameRun) else _AROUND_NODES
    return (before, behind + _FAILED, b'},"Error":' + orjson.dumps(text) + b"}")
