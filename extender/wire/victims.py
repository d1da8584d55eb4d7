"""The victims of a preemption, decoded: as UIDs by node, in whatever form they were sent.

k8s.io/kube-scheduler/extender/v1 types.go MetaVictims and Victims, v1.36.2.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final

from msgspec import Meta, Raw, Struct

from extender.decoding.decoder import DecodeError, decode
from extender.decoding.pods import RawMetadata
from extender.wire import slices
from extender.wire.bodies import NULL, BadRequestError, decode_or_refuse, folded, refused
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


_MetaVictimsMap = dict[str, MetaVictims]
_VictimsMap = dict[str, _Victims | None]

# decode() takes a type; unions and annotations are such to msgspec, though not to mypy.
_Violations: Final[type[int | None]] = _Int64 | None  # type: ignore[assignment]
_UID: Final[type[str | None]] = str | None  # type: ignore[assignment]


#: How much of the victims is decoded at a time. The objects of a slice fit into the processor's
#: cache, and the next slice takes their memory: 65,000 nodes in one piece take twice the time, and
#: keep the interpreter from other threads for all of it.
SLICE: Final = 128 * 1024

#: The pods that would be evicted, by node name.
Victims = Mapping[str, MetaVictims]


#: Reads a pod whose keys may be written in any case.
_ReadPod = Callable[[Raw, str], _MetaPod]

#: The pods that a node may lose, where these are too many to be decoded at once: kubelets run 110,
#: unless they are told otherwise.
MAX_VICTIMS: Final = 10_000


class OddVictimsError(Exception):
    """The victims are not as kube-scheduler writes them."""


def decoded_in_slices(body: bytes, start: int) -> Iterator[Victims]:
    """The map of victims whose first entry begins at start and ends one byte before the body does.

    It is cut where one node's victims seem to end. Was that within a string, then a slice is no
    JSON; if each slice is an object, so are all of them together. Raises OddVictimsError.
    """
    at, end = start, len(body) - len(b"}}")
    whole = memoryview(body)
    while at < end:
        cut = body.find(b'},"', at + SLICE, min(end, at + 2 * SLICE))
        stop = end if cut < 0 else cut + len(b"}")
        if stop - at > 2 * SLICE:
            raise OddVictimsError  # in one piece it would keep other threads waiting
        # A small map is one slice, and not copied.
        is_all = at == start and stop == end
        part = whole[start - 1 : -1] if is_all else b"".join((b"{", whole[at:stop], b"}"))
        try:
            yield decode(part, _MetaVictimsMap)
        except DecodeError:
            raise OddVictimsError from None
        at = stop + len(b",")


def meta_victims(raw: Raw) -> Victims:
    def read(part: bytes) -> Victims:
        return decode(part, _MetaVictimsMap)

    return _by_node(raw, "NodeNameToMetaVictims", read, _meta_pod)


def identified(raw: Raw) -> Victims:
    """Victims given as whole pods, as their UIDs."""

    def read(part: bytes) -> Victims:
        return {
            name: MetaVictims(
                [pod.identified for pod in (victims.pods if victims else None) or []],
                (victims.violations if victims else None) or 0,
            )
            for name, victims in decode(part, _VictimsMap).items()
        }

    return _by_node(raw, "NodeNameToVictims", read, _whole_pod)


def _by_node(raw: Raw, place: str, read: Callable[[bytes], Victims], read_pod: _ReadPod) -> Victims:
    """The victims as read has them, which raises DecodeError for any odd spelling.

    Raises BadRequestError.
    """
    found: dict[str, MetaVictims] = {}
    with refused():
        for part in slices.members(raw, place):
            if isinstance(part, slices.Member):
                found[part.key] = _loose(part.value, f"{place}[...]", read_pod)
                continue
            # Nodes without victims take 20 times their text.
            if part.count(b":") > MAX_NODES:
                bound_nodes(len(decode(part, dict[str, Raw], place)), place)
            try:
                found |= read(part)
            except DecodeError:
                found |= _victims_in_any_spelling(part, place, read_pod)
            bound_nodes(len(found), place)
    return found


def _victims_in_any_spelling(raw: bytes, place: str, read_pod: _ReadPod) -> Victims:
    """Victims whose keys are written in another case, or stand beside unknown ones, or nulls.

    A null among the pods is Go's zero value: a pod without a UID. Raises BadRequestError.
    """
    return {
        name: MetaVictims() if victims == NULL else _loose(victims, f"{place}[...]", read_pod)
        for name, victims in decode_or_refuse(raw, dict[str, Raw], place).items()
    }


def bound_nodes(count: int, place: str) -> None:
    """Raises BadRequestError."""
    if count > MAX_NODES:
        raise BadRequestError(f"{place}: more than {MAX_NODES:,} nodes")


def _loose(raw: Raw, place: str, read_pod: _ReadPod) -> MetaVictims:
    """Raises BadRequestError, DecodeError."""
    fields = folded(raw, place)
    for key, value in fields.items():
        if key != "pods" and not slices.is_checked(value):
            slices.check(value, place)
    pods: list[_MetaPod] = []
    listed = fields.get("pods", NULL)
    for part in () if listed == NULL else slices.lists_of(listed, list[Raw], f"{place}.Pods"):
        if len(pods) + len(part) > MAX_VICTIMS:
            raise BadRequestError(f"{place}.Pods: more than {MAX_VICTIMS:,} pods")
        pods += [_MetaPod() if pod == NULL else read_pod(pod, f"{place}.Pods[...]") for pod in part]
    violations = decode_or_refuse(
        fields.get("numpdbviolations", NULL), _Violations, f"{place}.NumPDBViolations"
    )
    return MetaVictims(pods, violations or 0)


def _meta_pod(raw: Raw, place: str) -> _MetaPod:
    uid = decode_or_refuse(folded(raw, place).get("uid", NULL), _UID, f"{place}.UID")
    return _MetaPod(uid or "")


def _whole_pod(raw: Raw, place: str) -> _MetaPod:
    """A pod's own keys are exact."""
    return decode_or_refuse(raw, _WholePod, place).identified
