"""The extender's wire format: request bodies → pods and nodes, results → answer bodies.

k8s.io/kube-scheduler/extender/v1 types.go, v1.36.2. The structs carry no JSON tags, so their keys
are the Go field names, read without regard to case; Pod and Node inside use their own names.

Names travel as the bytes between the quotes of their JSON strings: most of a request of 65,000
names is never turned into Python strings, only split, looked up and joined again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeVar

import orjson
from msgspec import Raw, Struct
from msgspec.json import encode as json_encode

from extender.decoding import DecodeError, RawNode, RawPod, convert, decode, node_of, pod_of
from extender.objects import Node, Pod
from extender.verbs.filter import FilterResult

T = TypeVar("T")

Chunks = list[bytes]

NULL: Final = Raw(b"null")

# What kube-scheduler sends in mode NodeNames: encoding/json writes the fields in this order.
_NAMES_MARK: Final = b',"Nodes":null,"NodeNames":["'
_NAMES_END: Final = b'"]}'
_SEPARATOR: Final = b'","'

#: All characters of a DNS subdomain, and some: in a JSON string they stand for themselves.
_PLAIN: Final = b"abcdefghijklmnopqrstuvwxyz0123456789.-_ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class BadRequestError(ValueError):
    """The body can't be read; the message names the place. Becomes a 400."""


class _PodHead(Struct, forbid_unknown_fields=True, rename={"pod": "Pod"}):
    """The body up to the names, closed: nothing but a Pod."""

    pod: RawPod | None = None


_StringList = list[str | None]


class _NodeList(Struct):
    items: list[Raw] | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """The NodeNames of a request; `joined` is what stands between the first and last quote."""

    joined: bytes
    count: int

    def split(self) -> list[bytes]:
        return self.joined.split(_SEPARATOR) if self.count else []


@dataclass(frozen=True, slots=True)
class NodeItems:
    """The Nodes of a request: each item as it came, and what is read of it."""

    raw: Sequence[Raw]
    nodes: Sequence[Node]

    @property
    def count(self) -> int:
        return len(self.raw)

    def names(self) -> list[bytes]:
        return escape([node.name for node in self.nodes])


@dataclass(frozen=True, slots=True)
class Args:
    """ExtenderArgs: a pod and the nodes it may go to, in one of the two modes."""

    pod: Pod
    nodes: Names | NodeItems


def escape(names: Sequence[str]) -> list[bytes]:
    """Names as the contents of JSON strings.

    No such content holds an unescaped quote, so the separator can't occur within one.
    """
    return orjson.dumps(names)[2:-2].split(_SEPARATOR) if names else []


def decode_args(body: bytes) -> Args:
    """Read ExtenderArgs. Raises BadRequestError."""
    args = _decode_as_kube_scheduler_sends(body)
    return args if args is not None else _decode_any(body)


def _decode_as_kube_scheduler_sends(body: bytes) -> Args | None:
    """The names mode exactly as encoding/json writes it; None for anything else.

    If the part before the mark is, closed by a brace, a JSON object of nothing but a Pod, and the
    part behind it nothing but plain strings, then the whole is what it looks like, wherever else
    the mark may stand in the pod's text.
    """
    start = body.find(_NAMES_MARK)
    if start < 0 or not body.endswith(_NAMES_END):
        return None
    joined = body[start + len(_NAMES_MARK) : -len(_NAMES_END)]
    separators = joined.translate(None, _PLAIN)
    count, rest = divmod(len(separators), len(_SEPARATOR))
    if rest or separators != _SEPARATOR * count:
        return None
    try:
        head = decode(body[:start] + b"}", _PodHead)
    except DecodeError:
        return None
    if head.pod is None:
        return None
    return Args(pod_of(head.pod), Names(joined, count + 1))


def _fields(body: bytes) -> dict[str, Raw]:
    """The top-level fields by lower-case key; of keys that differ in case only, the last wins."""
    exact = _decode(body, dict[str, Raw], "")
    folded = {key.casefold(): value for key, value in exact.items()}
    if len(folded) < len(exact):
        # A dict keeps the first place of a key that comes twice, so the order is read again.
        pairs = json.loads(body, object_pairs_hook=list)
        folded = {key.casefold(): exact[key] for key, _ in pairs}
    return folded


def _decode(raw: bytes | Raw, kind: type[T], place: str) -> T:
    try:
        return decode(raw, kind, place)
    except DecodeError as error:
        raise BadRequestError(str(error)) from None


def _decode_any(body: bytes) -> Args:
    fields = _fields(body)
    pod = decode_pod(fields.get("pod", NULL))
    names = decode_names(fields.get("nodenames", NULL))
    if names is not None:
        return Args(pod, names)
    nodes = fields.get("nodes", NULL)
    if nodes == NULL:
        raise BadRequestError("NodeNames, Nodes: both are null, one of them must be a list")
    return Args(pod, _decode_items(nodes))


def decode_pod(raw: Raw) -> Pod:
    if raw == NULL:
        raise BadRequestError("Pod: missing")
    return pod_of(_decode(raw, RawPod, "Pod"))


def decode_names(raw: Raw) -> Names | None:
    if raw == NULL:
        return None
    names = _decode(raw, _StringList, "NodeNames")
    return Names(_SEPARATOR.join(escape([name or "" for name in names])), len(names))


def _decode_items(raw: Raw) -> NodeItems:
    items = _decode(raw, _NodeList, "Nodes").items or []
    nodes = []
    for index, item in enumerate(items):
        if item == NULL:
            nodes.append(Node(""))
        else:
            nodes.append(node_of(_decode(item, RawNode, f"Nodes.items[{index}]")))
    return NodeItems(items, nodes)


class _MetaPod(Struct, forbid_unknown_fields=True, rename={"uid": "UID"}):
    uid: str | None = None


class MetaVictims(
    Struct,
    forbid_unknown_fields=True,
    rename={"pods": "Pods", "violations": "NumPDBViolations"},
):
    """extenderv1.MetaVictims: the pods to evict from one node, by UID."""

    pods: list[_MetaPod] | None = None
    violations: int | None = None


class _Victims(
    Struct,
    forbid_unknown_fields=True,
    rename={"pods": "Pods", "violations": "NumPDBViolations"},
):
    pods: list[RawPod] | None = None
    violations: int | None = None


_MetaVictimsMap = dict[str, MetaVictims | None]
_VictimsMap = dict[str, _Victims | None]


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """ExtenderPreemptionArgs: a pod, and by node name the pods that would have to go."""

    pod: Pod
    victims: Mapping[str, MetaVictims]


def decode_preemption_args(body: bytes) -> PreemptionArgs:
    """Read ExtenderPreemptionArgs in either form. Raises BadRequestError."""
    fields = _fields(body)
    pod = decode_pod(fields.get("pod", NULL))
    by_uid = fields.get("nodenametometavictims", NULL)
    if by_uid != NULL:
        return PreemptionArgs(pod, _meta_victims(by_uid))
    whole = fields.get("nodenametovictims", NULL)
    if whole == NULL:
        raise BadRequestError(
            "NodeNameToVictims, NodeNameToMetaVictims: both are null, one of them must be an object"
        )
    return PreemptionArgs(pod, _identified(whole))


def _meta_victims(raw: Raw) -> Mapping[str, MetaVictims]:
    found = _decode_victims(raw, _MetaVictimsMap, "NodeNameToMetaVictims")
    return {name: victims or MetaVictims() for name, victims in found.items()}


def _identified(raw: Raw) -> Mapping[str, MetaVictims]:
    """Victims given as whole pods, as their UIDs."""
    found = _decode_victims(raw, _VictimsMap, "NodeNameToVictims")
    identified = {}
    for name, victims in found.items():
        pods = (victims.pods if victims else None) or []
        identified[name] = MetaVictims(
            [_MetaPod(pod.metadata.uid if pod.metadata else None) for pod in pods],
            victims.violations if victims else None,
        )
    return identified


def _decode_victims(raw: Raw, kind: type[T], place: str) -> T:
    """Victims as kube-scheduler spells their keys, else in any case and with unknown keys."""
    try:
        return decode(raw, kind, place)
    except DecodeError:
        plain = _decode(raw, dict[str, object], place)
    try:
        return convert({name: _canonical(victims) for name, victims in plain.items()}, kind, place)
    except DecodeError as error:
        raise BadRequestError(str(error)) from None


_VICTIM_KEYS: Final = {"pods": "Pods", "numpdbviolations": "NumPDBViolations"}


def _canonical(victims: object) -> object:
    if not isinstance(victims, dict):
        return victims
    known: dict[str, object] = {}
    for key, value in victims.items():
        name = _VICTIM_KEYS.get(str(key).casefold())
        if name == "Pods" and isinstance(value, list):
            known[name] = [_canonical_pod(pod) for pod in value]
        elif name:
            known[name] = value
    return known


def _canonical_pod(pod: object) -> object:
    """A MetaPod's UID in any case; a whole pod, whose keys are exact, stays as it is."""
    if not isinstance(pod, dict) or "metadata" in pod:
        return pod
    uids = [value for key, value in pod.items() if str(key).casefold() == "uid"]
    return {"UID": uids[-1]} if uids else {}


def encode_victims(victims: Mapping[str, MetaVictims]) -> Chunks:
    """ExtenderPreemptionResult. Never a null: kube-scheduler would dereference it."""
    for each in victims.values():
        each.pods = each.pods or []
        each.violations = each.violations or 0
        for pod in each.pods:
            pod.uid = pod.uid or ""
    return [b'{"NodeNameToMetaVictims":', json_encode(victims), b"}"]


def encode_scores(names: Sequence[bytes], scores: Sequence[int]) -> Chunks:
    """HostPriorityList: a bare array in the order of the names."""
    if not names:
        return [b"[]"]
    endings = [b'","Score":%d},{"Host":"' % score for score in range(max(scores) + 1)]
    if min(scores) == max(scores):
        joined = endings[scores[0]].join(names)
    else:
        pairs = zip(names, map(endings.__getitem__, scores), strict=True)
        joined = b"".join(chain.from_iterable(pairs))[: -len(endings[scores[-1]])]
    return [b'[{"Host":"', joined, b'","Score":%d}]' % scores[-1]]


def string(text: str) -> bytes:
    """A JSON string, quotes included."""
    return orjson.dumps(text)


def _string_map(groups: Iterable[tuple[str, Sequence[bytes]]]) -> Chunks:
    """A JSON object of name → text, given as (text, names) groups; no group is empty."""
    chunks = []
    for text, names in groups:
        value = string(text)
        chunks.append(b'"' + (b'":' + value + b',"').join(names) + b'":' + value)
    return [b"{", b",".join(chunks), b"}"]


def _filter_answer(nodes: Chunks, names: Chunks, refused: Chunks, error: str = "") -> Chunks:
    return [
        b'{"Nodes":',
        *nodes,
        b',"NodeNames":',
        *names,
        b',"FailedNodes":{},"FailedAndUnresolvableNodes":',
        *refused,
        b',"Error":' + string(error) + b"}",
    ]


def _names_list(joined: bytes, count: int) -> Chunks:
    return [b'["', joined, b'"]'] if count else [b"[]"]


def encode_passed_all(nodes: Names | NodeItems) -> Chunks:
    """ExtenderFilterResult for a request whose every node passes."""
    if isinstance(nodes, Names):
        return _filter_answer([b"null"], _names_list(nodes.joined, nodes.count), [b"{}"])
    return _filter_answer(_node_list(nodes.raw), [b"null"], [b"{}"])


def _node_list(items: Iterable[Raw]) -> Chunks:
    return [b'{"metadata":{},"items":[', b",".join(items), b"]}"]


def encode_filtered_names(result: FilterResult[bytes]) -> Chunks:
    """ExtenderFilterResult of mode NodeNames."""
    passing = _names_list(_SEPARATOR.join(result.passing), len(result.passing))
    return _filter_answer([b"null"], passing, _string_map(result.refused))


def encode_filtered_nodes(result: FilterResult[Raw]) -> Chunks:
    """ExtenderFilterResult of mode Nodes: the items that pass, byte for byte as they came."""
    return _filter_answer(_node_list(result.passing), [b"null"], _string_map(result.refused))


def encode_filter_error(nodes: Names | NodeItems, text: str) -> Chunks:
    """ExtenderFilterResult with Error set: kube-scheduler tries the pod again later."""
    if isinstance(nodes, Names):
        return _filter_answer([b"null"], [b"[]"], [b"{}"], text)
    return _filter_answer(_node_list([]), [b"null"], [b"{}"], text)


def encode(document: Mapping[str, object] | Sequence[object]) -> bytes:
    """Any other answer: small documents for people."""
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
