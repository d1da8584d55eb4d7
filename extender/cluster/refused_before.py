"""The pods that wait for a node and that an earlier process of this service may have refused.

What a process remembers of refusals is lost when it ends. But kube-scheduler writes why it found no
node into the pod's condition PodScheduled, and there our reasons are found again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

from msgspec import Raw, Struct

from extender.cluster.api_connection import ConnectionFaultError
from extender.cluster.api_objects import (
    ExpiredError,
    Page,
    Response,
    listed_in_pages,
    page_of,
    refusal_text,
    status_of,
    whole_body,
)
from extender.cluster.kinds import PODS
from extender.cluster.list_watch import LIST_SILENCE_SECONDS
from extender.decoding.decoder import DecodeError, decode
from extender.decoding.pods import RawPod, pod_of
from extender.decoding.used_features import uses_in
from extender.objects import Pod
from extender.reasons import counted_reasons

#: The pods without a node, except those that have ended without ever having had one.
_WAITING: Final = "spec.nodeName=,status.phase=Pending"

#: The condition of a pod in which kube-scheduler reports its last attempt (core/v1 PodScheduled).
_SCHEDULED: Final = "PodScheduled"


class Connection(Protocol):
    """What listing needs of a connection; see api_connection.ApiConnection."""

    def get(self, path: str, query: dict[str, str], *, silence: float) -> Response: ...
    def rejected(self) -> None: ...


class ForbiddenError(Exception):
    """The right to list pods is missing; the text is the API server's."""


class _Condition(Struct):
    type: str | None = None
    message: str | None = None


class _Status(Struct):
    conditions: list[_Condition | None] | None = None


class _Spec(Struct, rename="camel"):
    scheduling_gates: list[Raw] | None = None


class _Object(Struct):
    spec: _Spec | None = None
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod without a node; refusals counts the nodes by our reasons in kube-scheduler's message.

    was_judged: a scheduler has tried it in vain, and said why.
    """

    pod: Pod
    was_judged: bool
    refusals: dict[str, int]


def waiting_pods(connection: Connection) -> Iterator[WaitingPod]:
    """The pods without a node that require something of their node's runtime, a page at a time.

    When a continue token has expired, some pods come twice. Raises ConnectionFaultError where
    another try may help, and ForbiddenError.
    """
    found = listed_in_pages(partial(_page, connection), {"fieldSelector": _WAITING})
    try:
        yield from filter(None, map(_waiting, found))
    except ExpiredError as error:
        raise ConnectionFaultError(f"{PODS.path}: {error}") from None


def _page(connection: Connection, query: dict[str, str]) -> Page | None:
    """One page; None where its token has expired."""
    response = connection.get(PODS.path, query, silence=LIST_SILENCE_SECONDS)
    body = whole_body(response, LIST_SILENCE_SECONDS)
    if response.status == HTTPStatus.GONE and "continue" in query:
        return None
    if response.status == HTTPStatus.FORBIDDEN:
        raise ForbiddenError(status_of(body).message)
    if response.status == HTTPStatus.UNAUTHORIZED:
        connection.rejected()
    if response.status != HTTPStatus.OK:
        raise ConnectionFaultError(refusal_text(response, body))
    try:
        return page_of(body, PODS.name)
    except DecodeError as error:
        raise ConnectionFaultError(str(error)) from None


def _waiting(raw: Raw) -> WaitingPod | None:
    try:
        pod = pod_of(decode(raw, RawPod, "Pod"))
        # Most pods of a cluster require nothing, so the rest of their fields need not be read.
        if pod.is_unconstrained:
            return None
        pod.uses = uses_in(raw)
        other = decode(raw, _Object, "Pod")
    except DecodeError:
        # If the filter can't read it either, it answers with a 400.
        return None
    if other.spec and other.spec.scheduling_gates:
        return None
    conditions = (other.status.conditions if other.status else None) or ()
    said = next((each for each in conditions if each and each.type == _SCHEDULED), None)
    return WaitingPod(pod, said is not None, counted_reasons((said and said.message) or ""))
