"""The preempt verb: no pod is evicted from a node that can't run the pending pod.

kube-scheduler's dry run of preemption uses its in-tree filters only
(pkg/scheduler/framework/preemption, v1.36.2), so it may choose a node that the filter verb would
then refuse. This verb drops the nodes that don't match the pod's RuntimeClass. It returns the
victims on all other nodes unchanged, and never adds one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Annotated, Final

from msgspec import Meta, Raw, Struct
from msgspec.json import encode

from extender.kubernetes.decoder import DecodeError, decode, nullable
from extender.model.errors import BadRequestError, TooLargeError
from extender.model.names import NameRun
from extender.model.objects import Pod
from extender.verbs import bodies

#: The most candidate nodes: as many as the largest known cluster has.
MAX_CANDIDATES: Final = 150_000

#: The most values in victims by UID, all of which are kept: so many UIDs are 32 MiB of JSON.
_MAX_VALUES: Final = 800_000

#: The most victims as whole pods: at 300 bytes each they are as much JSON. And the least bytes per
#: value in their JSON; real pods have 20.
_MAX_PODS: Final = 100_000
_BYTES_A_VALUE: Final = 10

_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class MetaPod(Struct, forbid_unknown_fields=True, gc=False, rename={"uid": "UID"}):
    uid: str = ""


class MetaVictims(
    Struct,
    forbid_unknown_fields=True,
    gc=False,
    rename={"pods": "Pods", "violations": "NumPDBViolations"},
):
    """extenderv1.MetaVictims: the pods to evict from one node, by UID.

    No nulls: kube-scheduler sends none, and would dereference a null in an answer.
    """

    pods: list[MetaPod] = []
    violations: _Int64 = 0


class _Metadata(Struct, gc=False):
    uid: str | None = None


class _WholePod(Struct, gc=False):
    """A victim given as a whole pod: only its UID is decoded. Keys in a Pod are case-sensitive."""

    metadata: _Metadata | None = None


#: The pods that would be evicted, by node name.
Victims = Mapping[str, MetaVictims]


def _bound_nodes(by_node: Mapping[str, object], place: str) -> None:
    """Raises BadRequestError."""
    if len(by_node) > MAX_CANDIDATES:
        raise BadRequestError(f"{place}: more than {MAX_CANDIDATES:,} nodes")


def _loose_victims(by_uid: Raw, whole: Raw) -> Victims | None:
    """Decodes victims with nulls, unknown keys, or keys in any case. None if both forms are null.

    A null is Go's zero value: no victims, or a pod without a UID. Raises BadRequestError.
    """
    is_by_uid = by_uid != bodies.NULL
    place = "NodeNameToMetaVictims" if is_by_uid else "NodeNameToVictims"
    raw = by_uid if is_by_uid else whole
    if raw == bodies.NULL:
        return None
    bodies.bound_values(raw, max(_MAX_VALUES, len(raw) // _BYTES_A_VALUE), place)
    with bodies.refused():
        by_node = decode(raw, dict[str, Raw], place)
        _bound_nodes(by_node, place)
        victims = {name: _loose(each, f"{place}[...]", is_by_uid) for name, each in by_node.items()}
    if not is_by_uid and sum(len(each.pods) for each in victims.values()) > _MAX_PODS:
        raise BadRequestError(f"{place}: more than {_MAX_PODS:,} pods")
    return victims


def _loose(raw: Raw, place: str, is_by_uid: bool) -> MetaVictims:
    """Raises DecodeError."""
    fields = bodies.in_lower_case(nullable(raw, dict[str, Raw], place))
    listed, in_pods = fields.get("pods", bodies.NULL), f"{place}.Pods"
    if is_by_uid:
        pods = nullable(listed, list[dict[str, Raw] | None], in_pods) or ()
        raw_uids = (bodies.in_lower_case(each).get("uid", bodies.NULL) for each in pods)
        uids = [nullable(each, str, f"{in_pods}[...].UID") for each in raw_uids]
    else:
        uids = [
            each.metadata.uid if each and each.metadata else None
            for each in nullable(listed, list[_WholePod | None], in_pods) or ()
        ]
    number = fields.get("numpdbviolations", bodies.NULL)
    violations = nullable(number, _Int64, f"{place}.NumPDBViolations")
    return MetaVictims([MetaPod(uid or "") for uid in uids], violations or 0)


#: The most bytes of a preempt body: 150,000 candidates by UID, or 5,000 victims as whole pods.
MAX_PREEMPTION_BYTES: Final = 32 * 2**20

#: Returns a byte for each node of a run: not 0 if the node's victims are kept.
Keeps = Callable[[NameRun], bytes]


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """ExtenderPreemptionArgs: a pod, and the pods to evict for it. text: the pod's JSON."""

    pod: Pod
    victims: Victims
    text: bytes = b""


class _UsualArgs(Struct, forbid_unknown_fields=True, gc=False):
    """ExtenderPreemptionArgs with exactly the keys that kube-scheduler writes."""

    Pod: Raw = bodies.NULL
    NodeNameToVictims: Raw = bodies.NULL
    NodeNameToMetaVictims: Raw = bodies.NULL


def decode_preemption_args(body: bytes) -> PreemptionArgs:
    """Read ExtenderPreemptionArgs in either form. Raises BadRequestError."""
    if len(body) > MAX_PREEMPTION_BYTES:
        limit = f"{MAX_PREEMPTION_BYTES:,} bytes"
        raise TooLargeError(f"body: over the limit of {limit} for preemption")
    victims: Victims | None
    try:
        args = decode(body, _UsualArgs)
        by_uid, place, text = args.NodeNameToMetaVictims, "NodeNameToMetaVictims", bytes(args.Pod)
        bodies.bound_values(by_uid, _MAX_VALUES, place)
        victims = nullable(by_uid, dict[str, MetaVictims], place)
        _bound_nodes(victims or {}, place)
        if victims is None:
            victims = _loose_victims(by_uid, args.NodeNameToVictims)
    except DecodeError:
        bodies.bound_other(body)
        fields = bodies.in_lower_case(bodies.decode_or_refuse(body, dict[str, Raw], ""))
        text = bytes(fields.get("pod", bodies.NULL))
        victims = _loose_victims(
            fields.get("nodenametometavictims", bodies.NULL),
            fields.get("nodenametovictims", bodies.NULL),
        )
    if victims is None:
        raise BadRequestError(
            "NodeNameToVictims, NodeNameToMetaVictims: both are null, one of them must be an object"
        )
    return PreemptionArgs(bodies.decode_pod(text), victims, text)


def encode_kept(args: PreemptionArgs, keeps: Keeps | None) -> tuple[bodies.Chunks, int]:
    """ExtenderPreemptionResult with the victims that are kept, and the number of candidate nodes.

    keeps: None keeps all victims.
    """
    victims = args.victims
    if keeps is not None:
        victims = dict(compress(victims.items(), keeps(bodies.run_of(list(victims)))))
    return [b'{"NodeNameToMetaVictims":', encode(victims), b"}"], len(args.victims)
