"""Attacks of broken or malicious clients, each with the reaction expected of the service.

They use plain sockets, since no HTTP client sends such requests; under locust these are gevent's.
Each attack is bounded in bytes and in time, and closes its socket at the end.
"""

import contextlib
import random
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from extender.verbs.bodies import (
    MAX_NAMES,
    MAX_NODES,
    MAX_OTHER_BYTES,
    MAX_OTHER_VALUES,
    MAX_POD_VALUES,
)
from loadtest.generator import Cluster, ClusterSpec, go_json
from loadtest.processes import Address

#: The most seconds until a request is cut off. The service's deadline is 10 s after the request
#: began, checked once a second; the check comes later on a busy machine.
CUT_OFF_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.25
_RECEIVE: Final = 64 * 1024

#: The part that is sent of a body over the limit: the answer must not wait for the rest.
_SAMPLE: Final = b"x" * (256 * 1024)

_MALFORMED: Final = (
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"Pod":null,"Nodes":null,"NodeNames":["a"]}',
    b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":null}',
    b'{"Pod":{"metadata":{"name":7}},"Nodes":null,"NodeNames":["a"]}',
    b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a"]}}',
    b'{"Pod":{"spec":{"tolerations":"all"}},"Nodes":null,"NodeNames":["a"]}',
    b"\xff\xfe" * 500,
    b"[" * 50_000,
)

_NOT_HTTP: Final = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    b"GET\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
    b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /filter HTTP/1.1\r\nHost: x\r\n" + b"X-Long: " + b"y" * 100_000 + b"\r\n\r\n",
)

#: A node name as long as those of cloud providers.
_NAME: Final = b"node-00000000.of-a-cluster.example"

_FINE: Final = b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a"]}'
_FINE_LENGTH: Final = b"Content-Length: %d\r\n" % len(_FINE)

#: HTTP requests that some servers misread, with the correct statuses. Neither uvicorn nor the
#: service checks Host.
_ODD: Final = (
    (b"POST /filter HTTP/1.1\r\n" + _FINE_LENGTH, (200, 400)),
    (b"POST /filter HTTP/1.1\r\nHost: x\r\nHost: y\r\n" + _FINE_LENGTH, (200, 400)),
    (b"POST /filter HTTP/1.2\r\nHost: x\r\n" + _FINE_LENGTH, (400, 505)),
    (b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n", (400, 501)),
    (b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + _FINE_LENGTH, (400,)),
    (b"POST //filter HTTP/1.1\r\nHost: x\r\n" + _FINE_LENGTH, (404,)),
)

#: The request that a client repeats, without reading answers, until the service takes no more.
_MANY_NAMES: Final = b",".join(b'"node-%05d"' % number for number in range(20_000))
_LARGE: Final = b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":[%b]}' % _MANY_NAMES


class UnexpectedError(Exception):
    """The service did not react as it must."""


@dataclass(frozen=True, slots=True)
class Target:
    """The service's address and its --max-body-bytes."""

    address: Address
    max_body_bytes: int


Attack = Callable[[Target, random.Random], None]


def _connected(target: Target) -> contextlib.closing[socket.socket]:
    return contextlib.closing(socket.create_connection(target.address, timeout=CUT_OFF_SECONDS))


def _head(length: int | str, path: str = "/filter") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


def _status(connection: socket.socket) -> int:
    """The status of the answer; 0 when the connection ended without one."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while b"\r\n" not in received:
            data = connection.recv(_RECEIVE)
            if not data:
                break
            received += data
    words = received.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _expect(connection: socket.socket, *statuses: int) -> None:
    try:
        status = _status(connection)
    except TimeoutError:
        raise UnexpectedError(f"no answer within {CUT_OFF_SECONDS} s") from None
    if status not in statuses:
        raise UnexpectedError(f"answered {status}, expected one of {statuses}")


def over_the_limit(target: Target, _rng: random.Random) -> None:
    """Announces a body over the limit and begins to send it: 413 at once."""
    with _connected(target) as connection:
        connection.sendall(_head(target.max_body_bytes + 1))
        with contextlib.suppress(ConnectionError):
            connection.sendall(_SAMPLE)
        _expect(connection, 413)


def over_the_limit_in_chunks(target: Target, _rng: random.Random) -> None:
    """Sends chunks beyond the limit: 413 before the last chunk.

    Or 503 while others do the same: the memory of all requests together is limited too.
    """
    with _connected(target) as connection:
        head = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        with contextlib.suppress(ConnectionError):
            connection.sendall(head)
            for _ in range(target.max_body_bytes // len(_SAMPLE) + 2):
                connection.sendall(b"%x\r\n" % len(_SAMPLE) + _SAMPLE + b"\r\n")
        _expect(connection, 413, 503)


def malformed_body(target: Target, rng: random.Random) -> None:
    """Sends a body that is not ExtenderArgs: 400."""
    body = rng.choice(_MALFORMED)
    with _connected(target) as connection:
        connection.sendall(_head(len(body), rng.choice(("/filter", "/prioritize"))) + body)
        _expect(connection, 400)


#: Bodies that are expensive for their size: the path, the start, the part that is repeated, the
#: most repetitions that no limit of numbers refuses, and the end.
_COSTLY: Final = (
    ("/filter", b'{"Pod":{},"NodeNames":null,"Nodes":{"items":[', b"null", MAX_NODES, b"]}}"),
    ("/filter", b'{"Pod":{},"Nodes":null,"NodeNames":[', b'"%b"' % _NAME, MAX_NAMES, b"]}"),
    ("/prioritize", b'{"Pod":{},"Nodes":null,"NodeNames":[', b'"%b"' % _NAME, MAX_NAMES, b"]}"),
    ("/filter", b'{"Pod":{}, "NodeNames": [', b'"%b"' % _NAME, MAX_OTHER_BYTES // 40, b"]}"),
    ("/filter", b'{"Pod":{},"x":[', b"[]", MAX_OTHER_VALUES // 2, b'],"NodeNames":["a"]}'),
    (
        "/filter",
        b'{"Pod":{"spec":{"tolerations":[',
        b"{}",
        MAX_POD_VALUES - 10,
        b']}},"Nodes":null,"NodeNames":["a"]}',
    ),
    (
        "/preempt",
        b'{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{"a":{"Pods":[',
        b'{"UID":"u"}',
        MAX_OTHER_VALUES // 2,
        b"]}}}",
    ),
)
#: Whole Nodes, which the service caches: it holds more memory afterwards than before.
_REMEMBERED: Final = (
    "/filter",
    b'{"Pod":{},"Nodes":{"metadata":{},"items":[',
    go_json(Cluster(ClusterSpec(1)).node(0, fat=True)),
    MAX_NODES,
    b']},"NodeNames":null}',
)
#: A costly body has --max-body-bytes divided by one of these: other size limits differ by verb.
_COSTLY_SHARES: Final = (16, 4, 1)


_Kind = tuple[str, bytes, bytes, int, bytes]


@lru_cache(maxsize=len(_COSTLY) * len(_COSTLY_SHARES))
def _costly(kind: _Kind, size: int) -> tuple[str, bytes]:
    """The path, and a body of about this size, or with the most repetitions of its kind."""
    path, start, repeated, most, end = kind
    count = min(most, (size - len(start) - len(end)) // (len(repeated) + 1))
    return path, b"".join((start, b",".join([repeated] * count), end))


def _send(target: Target, path: str, body: bytes) -> None:
    with _connected(target) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(_head(len(body), path))
            connection.sendall(body)
        _expect(connection, 200, 400, 413, 503)


def send_largest(target: Target) -> None:
    """Send the largest body of each kind, from two clients at once. Raises UnexpectedError."""
    for kind in (*_COSTLY, _REMEMBERED):
        path, body = _costly(kind, target.max_body_bytes)
        with ThreadPoolExecutor(2) as clients:
            for sent in [clients.submit(_send, target, path, body) for _ in range(2)]:
                sent.result()


def costly_body(target: Target, rng: random.Random) -> None:
    """Sends a body within the limit that is as expensive as possible: 200 or 400.

    Or 413, since JSON in another form than kube-scheduler's has a lower limit. Or 503 while others
    send as much.
    """
    size = target.max_body_bytes // rng.choice(_COSTLY_SHARES)
    _send(target, *_costly(rng.choice(_COSTLY), size))


def not_http(target: Target, rng: random.Random) -> None:
    """Sends no HTTP, or ambiguous HTTP: a 4xx, or the connection is closed."""
    with _connected(target) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(rng.choice(_NOT_HTTP))
            connection.shutdown(socket.SHUT_WR)
        _expect(connection, 0, 400, 408, 413, 431)


def odd_http(target: Target, rng: random.Random) -> None:
    """Sends a request that some servers misread: a correct status."""
    head, statuses = rng.choice(_ODD)
    with _connected(target) as connection:
        connection.sendall(head + b"\r\n" + _FINE)
        _expect(connection, *statuses)


def half_sent(target: Target, rng: random.Random) -> None:
    """Sends half a head or half a body, then nothing: cut off in time."""
    whole = _head(100) + b"{" * 50
    with _connected(target) as connection:
        connection.sendall(whole[: rng.choice((5, 30, len(whole)))])
        _expect(connection, 0, 408)


def byte_by_byte(target: Target, _rng: random.Random) -> None:
    """Sends a request that never ends, byte by byte: cut off in time all the same."""
    with _connected(target) as connection:
        began = time.monotonic()
        connection.sendall(_head(1_000_000))
        connection.settimeout(_PAUSE_SECONDS)
        while time.monotonic() - began < CUT_OFF_SECONDS:
            try:
                connection.sendall(b"x")
                if not connection.recv(_RECEIVE):
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    raise UnexpectedError(f"not cut off within {CUT_OFF_SECONDS} s")


def silent(target: Target, _rng: random.Random) -> None:
    """Connects and sends nothing: closed in time."""
    with _connected(target) as connection:
        _expect(connection, 0, 408)


def never_reads(target: Target, _rng: random.Random) -> None:
    """Asks for large answers and reads none: cut off in time."""
    with _connected(target) as connection:
        request = memoryview(_head(len(_LARGE)) + _LARGE)
        connection.settimeout(_PAUSE_SECONDS)
        stuck_since: float | None = None
        began, sent = time.monotonic(), 0
        while time.monotonic() - (stuck_since or began) < CUT_OFF_SECONDS:
            try:
                sent = (sent + connection.send(request[sent:])) % len(request)
                stuck_since = None
            except TimeoutError:
                stuck_since = stuck_since or time.monotonic()
            except ConnectionError:
                return
    raise UnexpectedError(f"not cut off within {CUT_OFF_SECONDS} s")


def dropped(target: Target, rng: random.Random) -> None:
    """Sends some of a request and resets the connection."""
    with _connected(target) as connection:
        connection.sendall(_head(1_000_000) + b"x" * rng.choice((0, 1000, 200_000)))
        # Closing sends a reset instead of a FIN, as of a process that was killed.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


#: Attacks that end within a moment, with the weight by which each is chosen.
QUICK: Final[dict[Attack, int]] = {
    over_the_limit: 4,
    over_the_limit_in_chunks: 4,
    malformed_body: 8,
    costly_body: 2,
    not_http: 4,
    odd_http: 4,
    dropped: 4,
}

#: Attacks that hold a connection until the service cuts it off, with their weights.
SLOW: Final[dict[Attack, int]] = {half_sent: 4, byte_by_byte: 2, silent: 2, never_reads: 2}
