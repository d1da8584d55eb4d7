"""HTTP: however the bytes of a client are cut, it asks the same and is answered the same."""

import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from extender.http.all_connections import Limits
from tests.conversing import conversation, whole

#: With fewer requests than may be sent before the first is answered.
MAX_SIZE: Final = 1_500

LIMITS: Final = Limits(max_body_bytes=200, max_held_bytes=10_000)

WORDS: Final = (
    *(b"POST /filter HTTP/1.1\r\n", b"GET / HTTP/1.0\r\n", b"HEAD ", b"CONNECT a:1 ", b"PRI * "),
    *(b"Host: a\r\n", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b"\r\n\r\n"),
    *(b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Connection: keep-alive\r\n"),
    *(b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Content-Encoding: gzip\r\n", b"0\r\n\r\n"),
    *(b"Trailer: x\r\n", b"5;a=b\r\nhello\r\n", b"\r\n ", b"\0", b"\t", b"HTTP/1.1", b"HTTP/2.0"),
)

#: What may depend on how the bytes were cut: 100 Continue is sent where the body is not there yet,
#: and a connection that is over is closed at once where junk has arrived behind the request.
_BY_TIMING: Final = re.compile(rb"HTTP/1\.1 100 Continue\r\n\r\n|(?:<eof>|<close>)+\Z")

_POST: Final = b"POST /filter HTTP/1.1\r\nHost: a\r\n"


def seeds() -> Iterator[bytes]:
    yield _POST + b"Content-Length: 2\r\n\r\n{}"
    yield (_POST + b"Content-Length: 2\r\n\r\n{}") * 3
    yield _POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    yield _POST + b"Transfer-Encoding: chunked\r\n\r\n1;a=b\r\n{\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n"
    yield _POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"
    yield _POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    yield _POST + b"Content-Length: 999\r\n\r\n"
    yield _POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "
    yield b"GET /readyz HTTP/1.0\r\n\r\n"
    yield b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    yield b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n" * 2
    yield b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield bytes.fromhex("16030100")


def _pieces(data: bytes) -> list[bytes]:
    """Cut anywhere, the same each time."""
    source = random.Random(data)
    places = sorted(source.randrange(len(data)) for _ in range(source.randrange(1, 6)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True) if a < b]


def _bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def _heard(data: bytes, cut: Callable[[bytes], list[bytes]]) -> tuple[list[Any], bytes]:
    asked, answered = conversation([data], cut, LIMITS)
    return asked, _BY_TIMING.sub(b"", answered)


def one(data: bytes) -> None:
    """Try one input. Raises whatever it should not."""
    if not data:
        return
    expected = _heard(data, whole)
    for cut in (_pieces, _bytes):
        found = _heard(data, cut)
        assert found == expected, f"cut in {cut.__name__}: {found}, not {expected}"
    answered = expected[1]
    assert not answered or answered.startswith(b"HTTP/1.1 "), answered
    assert b"HTTP/1.1 500" not in answered


TARGET: Final[Callable[[bytes], None]] = one
