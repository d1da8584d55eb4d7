"""A head that is known is read as the parser read it."""

import tracemalloc
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.http.all_connections import Limits
from extender.http.body_memory import BodyMemory
from extender.http.exchange import Refusal, Request
from extender.http.known_heads import MAX_HEADS, MAX_SIZE, KnownHeads
from extender.http.request_reader import RequestReader
from tests.conversing import conversation, head_first, in_two, whole

LIMITS = Limits(max_body_bytes=100, max_held_bytes=10_000)

HEADERS = st.lists(
    st.sampled_from(
        [
            b"Accept: */*",
            b"Connection: close",
            b"Connection: keep-alive",
            b"Connection: upgrade",
            b"Content-Encoding: gzip",
            b"content-encoding:identity",
            b"Expect: 100-continue",
            b"Host: other",
            b"Transfer-Encoding: chunked",
            b"Upgrade: h2c",
            b"X: \t folded? ",
        ]
    ),
    max_size=3,
)
LENGTHS = st.sampled_from([b"Content-Length: %d", b"content-length:   %d", b"Content-Length: 00%d"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from([b"POST", b"GET", b"HEAD", b"PUT", b"CONNECT"]))
    version = draw(st.sampled_from([b"1.1", b"1.1", b"1.1", b"1.0", b"1.2"]))
    body = draw(st.sampled_from([b"", b"{}", b"\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]))
    headers = draw(HEADERS)
    if b"Transfer-Encoding: chunked" in headers and draw(st.booleans()):
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    elif draw(st.booleans()) or body:
        headers.append(draw(LENGTHS) % len(body))
    lines = [b"%b /filter HTTP/%b" % (method, version), b"Host: a", *headers]
    return b"\r\n".join((*lines, b"\r\n")) + body


@given(st.lists(requests(), min_size=1, max_size=3))
def test_a_known_head_is_read_as_the_parser_read_it(asked: list[bytes]) -> None:
    twice = [*asked, *asked]
    parsed = conversation(twice, in_two, LIMITS)
    assert conversation(twice, whole, LIMITS) == parsed


@given(st.lists(requests(), min_size=1, max_size=3), st.integers(0, 20))
def test_content_without_the_parser_is_what_it_is_with_it(asked: list[bytes], more: int) -> None:
    """After the head, and with the next request on its heels."""
    asked = [*asked, *asked]
    # Whether a client is answered, or told to continue, before or after its next bytes arrive, it
    # sees in what it gets; what the application is asked is the same.
    assert conversation(asked, head_first, LIMITS)[0] == conversation(asked, in_two, LIMITS)[0]
    joined = b"".join(asked)

    def ragged(_: bytes) -> list[bytes]:
        end = joined.find(b"\r\n\r\n") + 4 + more
        return [joined[:end], joined[end:]]

    assert conversation([b""], ragged, LIMITS)[0] == conversation([joined], in_two, LIMITS)[0]


def read(heads: KnownHeads, data: bytes) -> tuple[Request, bytes] | None:
    """Where something else had arrived before."""
    found = heads.read(bytearray(data + b"\r\n\r\n"), len(data))
    return None if found is None else (found[0], bytes(found[1]))


def test_a_request_that_comes_again_is_not_parsed_again() -> None:
    request = b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
    heads = KnownHeads()
    learned = Request(b"POST", b"/filter", [(b"Host", b"a")], [b"{}"], 2)
    heads.learn(request + b"{}", learned, arrived=2)
    again = Request(b"POST", b"/filter", [(b"Host", b"a")], [], 2)
    assert read(heads, request + b"[]") == (again, b"[]")
    assert read(heads, request + b"[") == (again, b"[")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: b\r\n\r\n", id="another head"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nG", id="the next request has begun"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\n\r", id="not complete"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_is_not_exactly_known_is_left_to_the_parser(data: bytes) -> None:
    heads = KnownHeads()
    heads.learn(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Request(b"GET", b"/", [], [], 0), 0)
    assert read(heads, data) is None


def test_what_clients_send_can_not_fill_the_memory() -> None:
    heads = KnownHeads()
    long = b"GET /%b HTTP/1.1\r\n\r\n" % (b"x" * MAX_SIZE)
    heads.learn(long, Request(b"GET", b"/", [], [], 0), 0)
    assert read(heads, long) is None
    for number in range(MAX_HEADS + 1):
        heads.learn(b"GET /%d HTTP/1.1\r\n\r\n" % number, Request(b"GET", b"/", [], [], 0), 0)
    assert read(heads, b"GET /0 HTTP/1.1\r\n\r\n") is None
    assert read(heads, b"GET /%d HTTP/1.1\r\n\r\n" % MAX_HEADS) is not None


@pytest.mark.parametrize("fields", [96, 16])
def test_heads_of_many_fields_take_no_more_memory_than_others(fields: int) -> None:
    """A hundred short fields in a kilobyte took 14 KB a head, for a thousand of them 15 MB."""
    lines = b"".join(b"a%02d: bc\r\n" % each for each in range(1, fields))
    tracemalloc.start()
    try:
        heads = KnownHeads()
        for number in range(MAX_HEADS):
            head = b"GET /%04d HTTP/1.1\r\nhost: x\r\n%b\r\n" % (number, lines)
            asked: deque[Request | Refusal] = deque()
            RequestReader(asked, 0, BodyMemory(0)).feed(head)
            request = asked.pop()
            assert isinstance(request, Request)
            heads.learn(head, request, 0)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 5_000_000
