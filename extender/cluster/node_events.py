"""Writes Events about nodes, for `kubectl describe node`."""

import hashlib
import logging
import time
from datetime import UTC, datetime
from typing import Final, NamedTuple

import orjson

from extender.cluster.api.connection import (
    ApiConnection,
    ConnectionFaultError,
    StatusError,
    whole_body,
)
from extender.cluster.rate_limit import LogLimit, TokenBucket

_LOG: Final = logging.getLogger(__name__)

#: Events of objects without a namespace are in this one.
_PATH: Final = "/api/v1/namespaces/default/events"

_ANSWER_SECONDS: Final = 5.0
_MAX_BYTES: Final = 4 * 2**20

#: Events a second, and in a burst.
RATE: Final = 5.0
BURST: Final = 100.0


class NodeEvent(NamedTuple):
    """One change of a node's state; occasion tells it from others of the same text."""

    node: str
    reason: str
    message: str
    occasion: str
    is_warning: bool

    @property
    def name(self) -> str:
        """The same for each replica of this service, and after a restart; 253 bytes at the most."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:16]
        return f"{self.node[:200].rstrip('.-')}.{digest}"


class NodeEvents:
    """For one thread. Each Event is logged; of too many, and in an outage, some are dropped."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self._limit = LogLimit(_LOG, time.monotonic)
        self._bucket = TokenBucket(RATE, BURST, time.monotonic)

    def write(self, event: NodeEvent) -> None:
        if not self._bucket.take():
            return
        level = logging.WARNING if event.is_warning else logging.INFO
        _LOG.log(level, event.message, extra={"node": event.node})
        try:
            response = self._connection.post(_PATH, _body(event), silence=_ANSWER_SECONDS)
            body = whole_body(response, _ANSWER_SECONDS, _MAX_BYTES)
            if response.status == 401:
                self._connection.rejected()
            # 409: another replica has created it.
            if response.status not in (201, 409):
                raise StatusError(response.status, body)
        except ConnectionFaultError as error:
            text = "Event of a node not written (--distrust needs the right to create events)"
            self._limit.say(logging.WARNING, "event", text, cause=str(error))

    def stop(self) -> None:
        self._connection.interrupt()


def _body(event: NodeEvent) -> bytes:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    # A kubelet's Events of its node have the node's name for its UID, and kubectl looks for that.
    node = {"apiVersion": "v1", "kind": "Node", "name": event.node, "uid": event.node}
    about = {"reason": event.reason, "message": event.message, "involvedObject": node}
    times = {"firstTimestamp": now, "lastTimestamp": now, "count": 1}
    document = {
        "apiVersion": "v1",
        "kind": "Event",
        **about,
        **times,
        "metadata": {"name": event.name, "namespace": "default"},
        "type": "Warning" if event.is_warning else "Normal",
        "source": {"component": "runtimeclass-extender"},
        "reportingComponent": "runtimeclass-extender",
    }
    return orjson.dumps(document)
