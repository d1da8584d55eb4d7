"""The measuring client: what it makes of answers, over real sockets."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.cases import HALF, NAMES, Case
from loadtest.stacks import keeps_connection
from loadtest.timing import Client

Peer = Callable[[socket.socket], None]


@contextmanager
def served_by(*peers: Peer) -> Iterator[tuple[str, int]]:
    """A server that has one of the peers for each connection, in this order."""

    def serve() -> None:
        for peer in peers:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(20)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join()


def request_of(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(4096)
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = (
        int(line.split(b":")[1])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length")
    )
    while len(body) < length:
        body += connection.recv(4096)
    return head + b"\r\n\r\n" + body


def answering(*answers: bytes) -> Peer:
    """Takes a request for each answer; then the connection is closed."""

    def peer(connection: socket.socket) -> None:
        for answer in answers:
            request_of(connection)
            connection.sendall(answer)

    return peer


def ok(body: bytes, *headers: bytes) -> bytes:
    extra = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n%b" % (extra, len(body), body)


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=8), st.booleans())
def test_an_answer_is_the_same_however_it_arrives(
    body: bytes, cuts: list[int], collected: bool
) -> None:
    """Cut into any pieces, the answer has the same status, size and body."""
    whole = ok(body)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})

    def peer(connection: socket.socket) -> None:
        request_of(connection)
        for begin, end in pairwise(places):
            connection.sendall(whole[begin:end])

    with served_by(peer) as address, Client(address) as client:
        if collected:
            answer = client.ask("filter", b"{}")
            assert (answer.status, answer.body) == (200, body)
        else:
            timing = client.time("filter", b"{}")
            assert (timing.status, timing.size) == (200, len(body))


def test_one_connection_serves_all_requests_also_with_long_answers() -> None:
    bodies = [bytes([number]) * 1_000_000 for number in range(3)]
    with served_by(answering(*map(ok, bodies))) as address, Client(address) as client:
        assert [client.ask("filter", b"x" * 500_000).body for _ in bodies] == bodies


def test_a_connection_that_the_server_ends_is_made_anew() -> None:
    last, first = ok(b"last", b"Connection: close"), ok(b"first")
    with served_by(answering(last), answering(first)) as address, Client(address) as client:
        assert client.ask("filter", b"").body == b"last"
        assert client.ask("filter", b"").body == b"first"


def test_a_request_has_the_head_that_a_go_client_sends() -> None:
    requests = []

    def peer(connection: socket.socket) -> None:
        requests.append(request_of(connection))
        connection.sendall(ok(b""))

    with served_by(peer) as address, Client(address) as client:
        client.ask("filter", b"{}", "PUT")
    assert requests == [
        b"PUT /filter HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: Go-http-client/1.1\r\n"
        b"Content-Length: 2\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n{}"
        % address[1]
    ]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", id="half a head"),
        pytest.param(ok(b"body")[:-1], id="half a body"),
        pytest.param(ok(b"body") + b"!", id="more than a body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", id="no length"),
        pytest.param(b"SSH-2.0-x\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000, id="an endless head"),
    ],
)
def test_what_is_no_answer_is_an_error(answer: bytes) -> None:
    with (
        served_by(answering(answer)) as address,
        Client(address) as client,
        pytest.raises(ConnectionError),
    ):
        client.ask("filter", b"{}")


def test_a_server_that_closes_what_it_promised_to_keep_is_found_out() -> None:
    case = Case("filter", NAMES, HALF, 10)
    with served_by(answering(ok(b""), ok(b""))) as address:
        assert not keeps_connection(address, case, b"{}")
