"""The wire format of the preempt verb.

k8s.io/kube-scheduler/extender/v1 types.go ExtenderPreemptionArgs, v1.36.2.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta, Raw, Struct
from msgspec.json import encode

from extender.decoding.decoder import DecodeError, decode
from extender.decoding.pods import RawMetadata, RawPod, pod_of
from extender.objects import Pod
from extender.wire.bodies import (
    NULL,
    BadRequestError,
    Chunks,
    LastPod,
    PodText,
    bound_pod,
    decode_or_refuse,
    decode_pod,
    folded,
    top_level,
)
from extender.wire.node_items import MAX_NODES

_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _MetaPod(Struct, forbid_unknown_fields=True, gc=False, rename={"uid": "UID"}):
    uid: str = ""


class MetaVictims(
    Struct,
    forbid_unknown_fields=True,
    gc=False,
    rename={"pods": "Pods", "violations": "NumPDBViolations"},
):
    """extenderv1.MetaVictims: the pods to evict from one node, by UID.

    Without nulls, as kube-scheduler sends it and as it must be answered: it would dereference one.
    """

    pods: list[_MetaPod] = []
    violations: _Int64 = 0


class _WholePod(Struct, gc=False):
    """A victim given as a whole pod: only what identifies it."""

    metadata: RawMetadata | None = None

    @property
    def identified(self) -> _MetaPod:
        return _MetaPod((self.metadata.uid if self.metadata else None) or "")


class _Victims(
    Struct,
    forbid_unknown_fields=True,
    gc=False,
    rename={"pods": "Pods", "violations": "NumPDBViolations"},
):
    pods: list[_WholePod] | None = None
    violations: _Int64 | None = None


#: The limit of a preempt body: 200,000 candidates by UID, or 5,000 victims as whole pods. A map of
#: nothing but nulls takes 15 times its size in memory.
MAX_PREEMPTION_BYTES: Final = 32 * 2**20

# What kube-scheduler writes between the Pod and the victims.
_VICTIMS_MARK: Final = b',"NodeNameToVictims":null,"NodeNameToMetaVictims":'

_MetaVictimsMap = dict[str, MetaVictims]
_VictimsMap = dict[str, _Victims | None]

# decode() takes a type; unions and annotations are such to msgspec, though not to mypy.
_Pods: Final[type[list[Raw] | None]] = list[Raw] | None  # type: ignore[assignment]
_Violations: Final[type[int | None]] = _Int64 | None  # type: ignore[assignment]
_UID: Final[type[str | None]] = str | None  # type: ignore[assignment]


#: How much of the victims is decoded at a time. The objects of a slice fit into the processor's
#: cache, and the next slice takes their memory: 65,000 nodes in one piece take twice the time, and
#: keep the interpreter from other threads for all of it.
SLICE: Final = 128 * 1024

#: The pods that would be evicted, by node name.
Victims = Mapping[str, MetaVictims]


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """ExtenderPreemptionArgs: a pod, and the pods that would be evicted; text is the pod's.

    parts has the victims, some nodes at a time; they may be decoded on the way, and then raise
    _OddVictimsError where only all of them together can be read.
    """

    body: bytes
    pod: Pod
    parts: Iterable[Victims]
    text: PodText = b""


class _OddVictimsError(Exception):
    """The victims are not as kube-scheduler writes them."""


def decode_preemption_args(body: bytes, last: LastPod | None = None) -> PreemptionArgs:
    """Read ExtenderPreemptionArgs in either form, with the help of the last pod.

    Raises BadRequestError; for victims that can't be read only encode_kept does.
    """
    if len(body) > MAX_PREEMPTION_BYTES:
        limit = f"{MAX_PREEMPTION_BYTES:,} bytes"
        raise BadRequestError(f"body: over the limit of {limit} for preemption")
    usual = _as_kube_scheduler_sends(body, LastPod() if last is None else last)
    return usual if usual is not None else _in_any_form(body)


def _in_any_form(body: bytes) -> PreemptionArgs:
    """Raises BadRequestError."""
    fields = top_level(body)
    text = fields.get("pod", NULL)
    pod = decode_pod(text)
    by_uid = fields.get("nodenametometavictims", NULL)
    if by_uid != NULL:
        return PreemptionArgs(body, pod, [_meta_victims(by_uid)], text)
    whole = fields.get("nodenametovictims", NULL)
    if whole == NULL:
        raise BadRequestError(
            "NodeNameToVictims, NodeNameToMetaVictims: both are null, one of them must be an object"
        )
    return PreemptionArgs(body, pod, [_identified(whole)], text)


class _PodHead(Struct, forbid_unknown_fields=True):
    """The body up to the victims, with a brace to close it: nothing but a Pod."""

    Pod: RawPod


def _as_kube_scheduler_sends(body: bytes, last: LastPod) -> PreemptionArgs | None:
    """A body of kube-scheduler with nodeCacheCapable: true, exactly as encoding/json writes it.

    If the part before the mark is, closed by a brace, a JSON object of nothing but a Pod, and the
    part behind it a JSON object of victims, then the whole is what it looks like. None for anything
    else. Raises BadRequestError for a Pod that is too large.
    """
    mark = body.find(_VICTIMS_MARK)
    if mark < 0 or not body.endswith(b"}}") or not body.isascii():
        return None
    head = body[:mark]
    bound_pod(head)
    try:
        pod = last.get(head) or pod_of(decode(head + b"}", _PodHead).Pod)
    except DecodeError:
        return None
    start = mark + len(_VICTIMS_MARK)
    if not body.startswith(b"{", start) or start > len(body) - len(b"{}}"):
        return None
    return PreemptionArgs(body, pod, _decoded_in_slices(body, start), head)


def _decoded_in_slices(body: bytes, start: int) -> Iterator[Victims]:
    """The map of victims that begins at start and ends one byte before the body does.

    It is cut where one node's victims seem to end. Was that within a string, then a slice is no
    JSON; if each slice is an object, so are all of them together. Raises _OddVictimsError.
    """
    at, end = start + len(b"{"), len(body) - len(b"}}")
    whole = memoryview(body)
    while at < end:
        cut = body.find(b'},"', at + SLICE, end)
        stop = end if cut < 0 else cut + len(b"}")
        # A small map is one slice, and not copied.
        is_all = at == start + len(b"{") and stop == end
        part = whole[start:-1] if is_all else b"".join((b"{", whole[at:stop], b"}"))
        try:
            yield decode(part, _MetaVictimsMap)
        except DecodeError:
            raise _OddVictimsError from None
        at = stop + len(b",")


def _meta_victims(raw: Raw) -> Victims:
    place = "NodeNameToMetaVictims"
    try:
        found = decode(raw, _MetaVictimsMap, place)
    except DecodeError:
        return _victims_in_any_spelling(raw, place, _meta_pod)
    return found


def _identified(raw: Raw) -> Victims:
    """Victims given as whole pods, as their UIDs."""
    place = "NodeNameToVictims"
    try:
        found = decode(raw, _VictimsMap, place)
    except DecodeError:
        return _victims_in_any_spelling(raw, place, _whole_pod)
    _bound_nodes(len(found), place)
    identified = {}
    for name, victims in found.items():
        pods = (victims.pods if victims else None) or []
        identified[name] = MetaVictims(
            [pod.identified for pod in pods],
            (victims.violations if victims else None) or 0,
        )
    return identified


def _victims_in_any_spelling(
    raw: Raw, place: str, read_pod: Callable[[Raw, str], _MetaPod]
) -> Victims:
    """Victims whose keys are written in another case, or stand beside unknown ones, or nulls.

    A null among the pods is Go's zero value: a pod without a UID. Raises BadRequestError.
    """
    by_node = decode_or_refuse(raw, dict[str, Raw], place)
    _bound_nodes(len(by_node), place)
    return {
        name: MetaVictims() if victims == NULL else _loose(victims, f"{place}[...]", read_pod)
        for name, victims in by_node.items()
    }


def _bound_nodes(count: int, place: str) -> None:
    """Raises BadRequestError."""
    if count > MAX_NODES:
        raise BadRequestError(f"{place}: more than {MAX_NODES:,} nodes")


def _loose(raw: Raw, place: str, read_pod: Callable[[Raw, str], _MetaPod]) -> MetaVictims:
    fields = folded(raw, place)
    pods = decode_or_refuse(fields.get("pods", NULL), _Pods, f"{place}.Pods") or []
    violations = decode_or_refuse(
        fields.get("numpdbviolations", NULL), _Violations, f"{place}.NumPDBViolations"
    )
    return MetaVictims(
        [_MetaPod() if pod == NULL else read_pod(pod, f"{place}.Pods[...]") for pod in pods],
        violations or 0,
    )


def _meta_pod(raw: Raw, place: str) -> _MetaPod:
    uid = decode_or_refuse(folded(raw, place).get("uid", NULL), _UID, f"{place}.UID")
    return _MetaPod(uid or "")


def _whole_pod(raw: Raw, place: str) -> _MetaPod:
    """A pod's own keys are exact."""
    return decode_or_refuse(raw, _WholePod, place).identified


def encode_kept(args: PreemptionArgs, keep: Callable[[Victims], Victims]) -> tuple[Chunks, int]:
    """ExtenderPreemptionResult with what keep leaves of the victims; the number of nodes asked.

    keep may be called more often than once with the same nodes. Raises BadRequestError.
    """
    try:
        return _encode_parts(args.parts, keep)
    except _OddVictimsError:
        return _encode_parts(_in_any_form(args.body).parts, keep)


def _encode_parts(
    parts: Iterable[Victims], keep: Callable[[Victims], Victims]
) -> tuple[Chunks, int]:
    encoded, count = [], 0
    for victims in parts:
        count += len(victims)
        _bound_nodes(count, "NodeNameToMetaVictims")
        kept = keep(victims)
        if kept:
            encoded.append(encode(kept)[len(b"{") : -len(b"}")])
    return [b'{"NodeNameToMetaVictims":{', b",".join(encoded), b"}}"], count
