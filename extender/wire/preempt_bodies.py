"""The wire format of the preempt verb.

k8s.io/kube-scheduler/extender/v1 types.go ExtenderPreemptionArgs, v1.36.2.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import compress
from typing import Final

from msgspec import Struct
from msgspec.json import encode

from extender.decoding.decoder import DecodeError, decode
from extender.decoding.pods import RawPod, pod_of
from extender.names import NameRun
from extender.objects import Pod
from extender.wire import slices
from extender.wire.bodies import (
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
from extender.wire.filter_bodies import QUICK_BYTES
from extender.wire.node_items import MAX_NODES
from extender.wire.victim_entries import VictimEntries
from extender.wire.victims import (
    OddVictimsError,
    Victims,
    bound_nodes,
    decoded_in_slices,
    identified,
    meta_victims,
)

#: The limit of a preempt body: 200,000 candidates by UID, or 5,000 victims as whole pods. A map of
#: nothing but nulls takes 15 times its size in memory.
MAX_PREEMPTION_BYTES: Final = 32 * 2**20

# What kube-scheduler writes between the Pod and the victims.
_VICTIMS_MARK: Final = b',"NodeNameToVictims":null,"NodeNameToMetaVictims":{'

# What ends the victims and the body.
_END: Final = b"}}"

#: For each node of a run whether its victims are kept, as a byte that is not 0.
Keeps = Callable[[NameRun], bytes]


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """ExtenderPreemptionArgs: a pod, and the pods that would be evicted; text is the pod's.

    The victims are either found where they stand, or in parts, some nodes at a time; these may be
    decoded on the way, and then raise OddVictimsError where only all of them together can be read.
    """

    body: bytes
    pod: Pod
    victims: VictimEntries | Iterable[Victims]
    text: PodText = b""


def decode_preemption_args(body: bytes, last: LastPod | None = None) -> PreemptionArgs:
    """Read ExtenderPreemptionArgs in either form, with the help of the last pod.

    Raises BadRequestError; for victims that can't be read only encode_kept does.
    """
    if len(body) > MAX_PREEMPTION_BYTES:
        limit = f"{MAX_PREEMPTION_BYTES:,} bytes"
        raise BadRequestError(f"body: over the limit of {limit} for preemption")
    usual = _as_kube_scheduler_sends(body, LastPod() if last is None else last)
    return usual if usual is not None else _in_any_form(body)


def decode_quickly(body: bytes, last: LastPod) -> PreemptionArgs | None:
    """The same, if it can be read and answered in a few milliseconds; None if not.

    It can, whatever it is, if it is short; else if the Pod is, and no victim has to be decoded.
    Raises BadRequestError.
    """
    if len(body) <= QUICK_BYTES:
        return decode_preemption_args(body, last)
    if body.find(_VICTIMS_MARK, 0, QUICK_BYTES) < 0:
        return None
    usual = _as_kube_scheduler_sends(body, last)
    return usual if usual is not None and isinstance(usual.victims, VictimEntries) else None


def _in_any_form(body: bytes) -> PreemptionArgs:
    """Raises BadRequestError."""
    fields = top_level(body, ("pod", "nodenametometavictims", "nodenametovictims"))
    text = fields.get("pod", NULL)
    pod = decode_pod(text)
    by_uid = fields.get("nodenametometavictims", NULL)
    whole = fields.get("nodenametovictims", NULL)
    if by_uid != NULL:
        if not slices.is_checked(whole):
            with refused():
                slices.check(whole, "NodeNameToVictims")
        return PreemptionArgs(body, pod, [meta_victims(by_uid)], text)
    if whole == NULL:
        raise BadRequestError(
            "NodeNameToVictims, NodeNameToMetaVictims: both are null, one of them must be an object"
        )
    return PreemptionArgs(body, pod, [identified(whole)], text)


class _PodHead(Struct, forbid_unknown_fields=True):
    """The body up to the victims, with a brace to close it: nothing but a Pod."""

    Pod: RawPod


def _as_kube_scheduler_sends(body: bytes, last: LastPod) -> PreemptionArgs | None:
    """A body of kube-scheduler with nodeCacheCapable: true, exactly as encoding/json writes it.

    If the part before the mark is, closed by a brace, a JSON object of nothing but a Pod, and the
    part behind it a JSON object of victims, then the whole is what it looks like. None for anything
    else. Raises BadRequestError for a Pod that is too large.
    """
    mark = slices.find(body, _VICTIMS_MARK)
    start = mark + len(_VICTIMS_MARK)
    end = len(body) - len(_END)
    if not 0 <= mark <= slices.MAX_OBJECT_BYTES or start > end or not body.endswith(_END):
        return None
    entries = VictimEntries.read(body, start, end, MAX_NODES)
    if entries is None and not slices.is_ascii(body):
        return None
    head = body[:mark]
    pod = last.get(head) or _decode_head(head)
    if pod is None:
        return None
    victims = decoded_in_slices(body, start) if entries is None else entries
    return PreemptionArgs(body, pod, victims, head)


def _decode_head(head: bytes) -> Pod | None:
    """Raises BadRequestError for a Pod that is too large."""
    if not head.isascii():
        return None
    bound_pod(head)
    try:
        return pod_of(decode(head + b"}", _PodHead).Pod)
    except DecodeError:
        return None


_ANSWER: Final = b'{"NodeNameToMetaVictims":{'


def encode_kept(args: PreemptionArgs, keeps: Keeps | None) -> tuple[Chunks, int]:
    """ExtenderPreemptionResult with the victims that are kept; the number of nodes asked.

    Without keeps all are. It may be called more often than once with the same nodes. Raises
    BadRequestError.
    """
    if isinstance(args.victims, VictimEntries):
        return _keep_entries(args.victims, keeps), args.victims.count
    try:
        return _encode_parts(args.victims, keeps)
    except OddVictimsError:
        return encode_kept(_in_any_form(args.body), keeps)


def _keep_entries(entries: VictimEntries, keeps: Keeps | None) -> Chunks:
    if keeps is None:
        # To the body's end, which is the answer's as well.
        return [_ANSWER, memoryview(entries.body)[entries.start :]]
    return [_ANSWER, entries.kept(keeps(entries.names)), _END]


def _encode_parts(parts: Iterable[Victims], keeps: Keeps | None) -> tuple[Chunks, int]:
    encoded, count = [], 0
    for victims in parts:
        count += len(victims)
        bound_nodes(count, "NodeNameToMetaVictims")
        kept = victims if keeps is None else _kept(victims, keeps)
        if kept:
            encoded.append(encode(kept)[len(b"{") : -len(b"}")])
    return [_ANSWER, b",".join(encoded), _END], count


def _kept(victims: Victims, keeps: Keeps) -> Victims:
    return dict(compress(victims.items(), keeps(run_of(list(victims)))))
