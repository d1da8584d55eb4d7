"""The bodies of POST /explain: a Pod as kubectl prints it, or kube-scheduler's ExtenderArgs."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Raw

from extender.decoding.decoder import DecodeError
from extender.decoding.explained_pods import explained_pod
from extender.names import NameRun
from extender.objects import Pod
from extender.wire.bodies import NULL, BadRequestError, bound_pod, decode_or_refuse, top_level
from extender.wire.filter_bodies import decode_args
from extender.wire.node_items import NodeItems


@dataclass(frozen=True, slots=True)
class ExplainArgs:
    """A pod with its affinity and overhead; nodes is None for all known ones."""

    pod: Pod
    nodes: NameRun | NodeItems | None


def decode_explain_args(body: bytes) -> ExplainArgs:
    """Read a Pod, or ExtenderArgs with or without nodes. Raises BadRequestError."""
    fields = top_level(body, ("pod", "nodenames", "nodes"))
    if "pod" not in fields:
        if not fields.keys() & {"metadata", "spec"} or _kind(fields) != "Pod":
            raise BadRequestError("body: expected a Pod or ExtenderArgs")
        return ExplainArgs(_decode_pod(Raw(body)), None)
    pod = _decode_pod(fields["pod"])
    if fields.get("nodenames", NULL) == NULL and fields.get("nodes", NULL) == NULL:
        return ExplainArgs(pod, None)
    return ExplainArgs(pod, decode_args(body).nodes)


def _kind(fields: Mapping[str, Raw]) -> str:
    return decode_or_refuse(fields["kind"], str, "kind") if "kind" in fields else "Pod"


def _decode_pod(raw: Raw) -> Pod:
    if raw == NULL:
        raise BadRequestError("Pod: missing")
    bound_pod(raw)
    try:
        return explained_pod(raw)
    except DecodeError as error:
        raise BadRequestError(str(error)) from None
