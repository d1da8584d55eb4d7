"""The wire format of the preempt verb.

k8s.io/kube-scheduler/extender/v1 types.go ExtenderPreemptionArgs, v1.36.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

from msgspec import Meta, Raw, Struct
from msgspec.json import encode

from extender.decoding import DecodeError, RawPod, convert, decode
from extender.http.wire import (
    NULL,
    BadRequestError,
    Chunks,
    decode_or_refuse,
    decode_pod,
    top_level,
)
from extender.objects import Pod

T = TypeVar("T")


_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _MetaPod(Struct, forbid_unknown_fields=True, gc=False, rename={"uid": "UID"}):
    uid: str | None = None


class MetaVictims(
    Struct,
    forbid_unknown_fields=True,
    gc=False,
    rename={"pods": "Pods", "violations": "NumPDBViolations"},
):
    """extenderv1.MetaVictims: the pods to evict from one node, by UID."""

    pods: list[_MetaPod] | None = None
    violations: _Int64 | None = None


class _Victims(
    Struct,
    forbid_unknown_fields=True,
    gc=False,
    rename={"pods": "Pods", "violations": "NumPDBViolations"},
):
    pods: list[RawPod] | None = None
    violations: _Int64 | None = None


_MetaVictimsMap = dict[str, MetaVictims | None]
_VictimsMap = dict[str, _Victims | None]


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """ExtenderPreemptionArgs: a pod, and by node name the pods that would have to go."""

    pod: Pod
    victims: Mapping[str, MetaVictims]


def decode_preemption_args(body: bytes) -> PreemptionArgs:
    """Read ExtenderPreemptionArgs in either form. Raises BadRequestError."""
    fields = top_level(body)
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
        plain = decode_or_refuse(raw, dict[str, object], place)
    try:
        return convert(
            {name: _canonical(victims, kind is _VictimsMap) for name, victims in plain.items()},
            kind,
            place,
        )
    except DecodeError as error:
        raise BadRequestError(str(error)) from None


_VICTIM_KEYS: Final = {"pods": "Pods", "numpdbviolations": "NumPDBViolations"}


def _canonical(victims: object, whole: bool) -> object:
    if not isinstance(victims, dict):
        return victims
    known: dict[str, object] = {}
    for key, value in victims.items():
        name = _VICTIM_KEYS.get(str(key).casefold())
        if name == "Pods" and isinstance(value, list):
            known[name] = [_canonical_pod(pod, whole) for pod in value]
        elif name:
            known[name] = value
    return known


def _canonical_pod(pod: object, whole: bool) -> object:
    """A MetaPod's UID in any case; a whole pod, whose keys are exact, stays as it is."""
    if not isinstance(pod, dict) or whole:
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
    return [b'{"NodeNameToMetaVictims":', encode(victims), b"}"]
