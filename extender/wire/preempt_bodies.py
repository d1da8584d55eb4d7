"""The wire format of the preempt verb.

k8s.io/kube-scheduler/extender/v1 types.go ExtenderPreemptionArgs, v1.36.2.
"""

from collections.abc import Callable, Mapping
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


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """ExtenderPreemptionArgs: a pod, and by node name the pods that would be evicted.

    text is what the pod was read from.
    """

    pod: Pod
    victims: Mapping[str, MetaVictims]
    text: PodText = b""


def decode_preemption_args(body: bytes, last: LastPod | None = None) -> PreemptionArgs:
    """Read ExtenderPreemptionArgs in either form, with the help of the last pod.

    Raises BadRequestError.
    """
    if len(body) > MAX_PREEMPTION_BYTES:
        limit = f"{MAX_PREEMPTION_BYTES:,} bytes"
        raise BadRequestError(f"body: over the limit of {limit} for preemption")
    usual = _as_kube_scheduler_sends(body, LastPod() if last is None else last)
    if usual is not None:
        return usual
    fields = top_level(body)
    text = fields.get("pod", NULL)
    pod = decode_pod(text)
    by_uid = fields.get("nodenametometavictims", NULL)
    if by_uid != NULL:
        return PreemptionArgs(pod, _meta_victims(by_uid), text)
    whole = fields.get("nodenametovictims", NULL)
    if whole == NULL:
        raise BadRequestError(
            "NodeNameToVictims, NodeNameToMetaVictims: both are null, one of them must be an object"
        )
    return PreemptionArgs(pod, _identified(whole), text)


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
    if mark < 0 or not body.endswith(b"}") or not body.isascii():
        return None
    head = body[:mark]
    bound_pod(head)
    try:
        pod = last.get(head) or pod_of(decode(head + b"}", _PodHead).Pod)
        victims = decode(memoryview(body)[mark + len(_VICTIMS_MARK) : -1], _MetaVictimsMap)
    except DecodeError:
        return None
    if len(victims) > MAX_NODES:
        raise BadRequestError(f"NodeNameToMetaVictims: more than {MAX_NODES:,} nodes")
    return PreemptionArgs(pod, victims, head)


def _meta_victims(raw: Raw) -> Mapping[str, MetaVictims]:
    place = "NodeNameToMetaVictims"
    try:
        found = decode(raw, _MetaVictimsMap, place)
    except DecodeError:
        return _victims_in_any_spelling(raw, place, _meta_pod)
    if len(found) > MAX_NODES:
        raise BadRequestError(f"{place}: more than {MAX_NODES:,} nodes")
    return found


def _identified(raw: Raw) -> Mapping[str, MetaVictims]:
    """Victims given as whole pods, as their UIDs."""
    place = "NodeNameToVictims"
    try:
        found = decode(raw, _VictimsMap, place)
    except DecodeError:
        return _victims_in_any_spelling(raw, place, _whole_pod)
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
) -> Mapping[str, MetaVictims]:
    """Victims whose keys are written in another case, or stand beside unknown ones, or nulls.

    A null among the pods is Go's zero value: a pod without a UID. Raises BadRequestError.
    """
    by_node = decode_or_refuse(raw, dict[str, Raw], place)
    return {
        name: MetaVictims() if victims == NULL else _loose(victims, f"{place}[...]", read_pod)
        for name, victims in by_node.items()
    }


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


def encode_victims(victims: Mapping[str, MetaVictims]) -> Chunks:
    """ExtenderPreemptionResult."""
    return [b'{"NodeNameToMetaVictims":', encode(victims), b"}"]
