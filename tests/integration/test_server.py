"""The server under a real gunicorn arbiter, over real sockets: what no client may do to it."""

import contextlib
import json
import os
import select
import signal
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from tests.certificates import Authority
from tests.processes import until

APP = Path(__file__).with_name("server_app.py")
ROOT = APP.parents[2]
PATIENCE = 10.0  # a test fails after waiting that long for anything
PROMPT = 0.5  # most answers that wait for nobody take milliseconds, on a busy machine too
GRACE = 8.0  # less than the time that a stopping server gives to requests (10 s)
MAX_BODY = 4 * 2**20

PING = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nping"
HALF_HEAD = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Le"
HALF_BODY = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"
HALF_CHUNK = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nhalf"
UNFINISHED = [
    pytest.param(HALF_HEAD, id="half a head"),
    pytest.param(HALF_BODY, id="half a body"),
    pytest.param(HALF_CHUNK, id="half a chunk"),
]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        message = json.loads(self.body)["error"]
        assert isinstance(message, str)
        return message


class Client:
    """One connection; `answer()` reads the next of the answers on it."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname="localhost")
        self._file = self.sock.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None
    ) -> None:
        self._file.close()
        self.sock.close()

    def send(self, data: bytes) -> Self:
        self.sock.sendall(data)
        return self

    def answer(self) -> Answer:
        status, headers = self.head()
        body = self._file.read(int(headers.get("content-length", "0")))
        return Answer(status, headers, body)

    def head(self) -> tuple[int, dict[str, str]]:
        line = self._file.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        headers = {}
        while (field := self._file.readline()) != b"\r\n":
            name, _, value = field.decode().partition(":")
            headers[name.lower()] = value.strip()
        return int(line.split()[1]), headers

    def ended(self) -> bool:
        """Whether the server closed the connection without sending anything more."""
        return self._file.read(1) == b""

    def received_in_part(self, size: int) -> bool:
        """Whether the server drops the connection before so many bytes more have come."""
        try:
            return len(self._file.read(size)) < size
        except ConnectionResetError:
            return True

    def reset(self) -> None:
        """Drop the connection the rude way."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._file.close()
        self.sock.close()


class Server:
    """A running gunicorn, and what the operating system says about its worker."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self._log = log
        self.tls: ssl.SSLContext | None = None

    def client(self) -> Client:
        return Client(self.port, self.tls)

    def raw_client(self) -> Client:
        """Without TLS, whatever the server speaks."""
        return Client(self.port)

    def ask(self, request: bytes) -> Answer:
        with self.client() as client:
            return client.send(request).answer()

    def worker_pid(self) -> int:
        return int(self.ask(get("/pid")).body)

    def log(self) -> str:
        return self._log.read_text()

    def terminate(self) -> float:
        """SIGTERM; the time it was sent at."""
        self.process.send_signal(signal.SIGTERM)
        return time.monotonic()


def get(path: str, *fields: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: x", *fields, "", ""]
    return "\r\n".join(lines).encode()


def post(body: bytes) -> bytes:
    return f"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(*lines: bytes) -> bytes:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(line + b"\r\n" for line in lines)


def memory(pid: int) -> int:
    """Bytes in use."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def established(port: int) -> int:
    """How many connections to this port the server has not closed."""
    fields = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(each[1].endswith(f":{port:04X}") and each[3] == "01" for each in fields)


@contextmanager
def running(log: Path, listen: dict[str, str] | None = None, **limits: Any) -> Iterator[Server]:
    """A server on a port of its own, killed afterwards; listen are options, limits its limits."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        port = listener.getsockname()[1]
        arguments = json.dumps({"listen": listen or {}, "limits": limits})
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, str(APP), str(listener.fileno()), arguments],
                pass_fds=[listener.fileno()],
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stderr=stream,
                start_new_session=True,
            )
    try:
        yield Server(process, port, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose deadlines no test reaches; nothing clients do may be logged by it."""
    log = tmp_path_factory.mktemp("patient") / "log"
    with running(log, max_body_bytes=MAX_BODY, request_seconds=60.0) as server:
        yield server
        assert "Traceback" not in server.log()
        assert " WARNING " not in server.log()
        assert " ERROR " not in server.log()


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Server]:
    """A server with short deadlines."""
    seconds: dict[str, Any] = {"request_seconds": 0.3, "answer_seconds": 1.0, "linger_seconds": 0.3}
    with running(tmp_path / "log", keep_alive_seconds=1.0, **seconds) as server:
        server.worker_pid()
        yield server


# Requests


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(PING, id="with a length"),
        pytest.param(chunked(b"2", b"pi", b"2;x=y", b"ng", b"0", b"Sum: 1", b""), id="chunked"),
    ],
)
def test_a_request_in_single_bytes_is_answered(patient: Server, request_bytes: bytes) -> None:
    with patient.client() as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for position in range(len(request_bytes)):
            client.send(request_bytes[position : position + 1])
        assert client.answer().body == b"ping"


def test_a_body_of_many_segments_arrives_whole(patient: Server) -> None:
    body = os.urandom(MAX_BODY)
    assert patient.ask(post(body)).body == body


def test_a_chunked_body_is_decoded(patient: Server) -> None:
    body = os.urandom(300_000)
    request = chunked(b"%x" % 100_000, body[:100_000], b"%X" % 200_000, body[100_000:], b"0", b"")
    assert patient.ask(request).body == body


def test_a_connection_is_kept_for_many_requests(patient: Server) -> None:
    with patient.client() as client:
        for number in range(50):
            body = b"%d" % number
            answer = client.send(post(body)).answer()
            assert (answer.body, "connection" in answer.headers) == (body, False)


def test_pipelined_requests_are_answered_in_order(patient: Server) -> None:
    bodies = [b"first", b"", b"third" * 10_000, b"last"]
    requests = b"".join(post(body) for body in bodies)
    requests += chunked(b"4", b"over", b"0", b"") + get("/pid", "Connection: close") + HALF_BODY
    with patient.client() as client:
        client.send(requests)
        assert [client.answer().body for _ in bodies] == bodies
        assert client.answer().body == b"over"
        assert client.answer().headers["connection"] == "close"
        assert client.ended()


def test_100_continue_comes_after_the_answer_before_it(patient: Server) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
    with patient.client() as client:
        client.send(PING + head)
        assert client.answer().body == b"ping"
        assert client.head() == (100, {})
        assert client.send(b"pong").answer().body == b"pong"


def test_a_client_that_expects_100_continue_is_told_once(patient: Server) -> None:
    with patient.client() as client:
        client.send(HALF_BODY[: -len(b"half\r\n")] + b"Expect: 100-continue\r\n\r\n")
        assert client.head() == (100, {})
        assert client.send(b"x" * 100).answer().body == b"x" * 100


def test_no_100_continue_when_the_body_is_there_already(patient: Server) -> None:
    request = PING.replace(b"Host: x", b"Host: x\r\nExpect: 100-Continue")
    assert patient.ask(request).status == 200


def test_a_client_of_http_1_0_is_answered_and_closed(patient: Server) -> None:
    with patient.client() as client:
        request = b"POST /echo HTTP/1.0\r\nContent-Length: 4\r\n\r\nping"
        answer = client.send(request).answer()
        assert (answer.body, answer.headers["connection"]) == (b"ping", "close")
        assert client.ended()


def test_an_upgrade_is_ignored(patient: Server) -> None:
    upgrade = ("Connection: Upgrade", "Upgrade: h2c")
    with patient.client() as client:
        client.send(get("/echo", *upgrade) + PING)
        assert [client.answer().body, client.answer().body] == [b"", b"ping"]


def test_connection_close_is_honoured(patient: Server) -> None:
    with patient.client() as client:
        assert client.send(get("/pid", "Connection: close")).answer().status == 200
        assert client.ended()


def test_a_client_may_close_its_side_after_the_request(patient: Server) -> None:
    with patient.client() as client:
        client.send(PING).sock.shutdown(socket.SHUT_WR)
        assert client.answer().body == b"ping"
        assert client.ended()


# Refusals


def with_fields(*fields: bytes) -> bytes:
    return b"\r\n".join([b"POST /echo HTTP/1.1", b"Host: x", *fields, b"", b""])


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(b"nonsense\r\n\r\n", 400, id="no request line"),
        pytest.param(get("/caf\xe9"), 400, id="byte that must be quoted"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", 400, id="unknown version"),
        pytest.param(b"GET /echo HTTP/1.1\r\n\r\n", 400, id="no Host"),
        pytest.param(with_fields(b"Host: y"), 400, id="two Hosts"),
        pytest.param(b"GET /echo HTTP/1.2\r\nHost: x\r\n\r\n", 400, id="HTTP of no version"),
        pytest.param(b"GET /echo HTTP/1.1\nHost: x\n\n", 400, id="bare line feeds"),
        pytest.param(with_fields(b"Bad Name: 1"), 400, id="malformed field name"),
        pytest.param(
            with_fields(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 4") + b"ping",
            501,
            id="upgrade with a body",
        ),
        pytest.param(b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 501, id="tunnel"),
        pytest.param(with_fields(b"A: 1", b" folded"), 400, id="folded field"),
        pytest.param(with_fields(b"Content-Length: 4", b"Content-Length: 4"), 400, id="2 lengths"),
        pytest.param(with_fields(b"Content-Length: +4"), 400, id="signed length"),
        pytest.param(with_fields(b"Content-Length : 4"), 400, id="blank before the colon"),
        pytest.param(with_fields(b"Content-Length: " + b"9" * 5000), 400, id="endless length"),
        pytest.param(with_fields(b"Content-Length: 1" + b"0" * 18), 400, id="huge length"),
        pytest.param(
            with_fields(b"Content-Length: 4", b"Transfer-Encoding: chunked"), 400, id="both kinds"
        ),
        pytest.param(with_fields(b"Transfer-Encoding: gzip"), 400, id="no chunked"),
        pytest.param(
            with_fields(b"Transfer-Encoding: br, chunked") + b"0\r\n\r\n", 501, id="unknown coding"
        ),
        pytest.param(with_fields(b"Transfer-Encoding: xchunked"), 501, id="nearly chunked"),
        pytest.param(chunked(b"4x", b"ping", b"0", b""), 400, id="malformed chunk size"),
        pytest.param(chunked(b"3", b"ping", b"0", b""), 400, id="chunk longer than its size"),
        pytest.param(chunked(b"1;" + b"x" * 600_000), 400, id="endless chunk extension"),
        pytest.param(chunked(*[b"1", b"x"] * 70_000, b"0", b""), 400, id="too many chunks"),
        pytest.param(chunked(b"4", b"ping", b"0", b"bad trailer", b""), 400, id="bad trailer"),
        pytest.param(
            chunked(b"%x" % (MAX_BODY + 1), bytes(MAX_BODY + 1)), 413, id="too large a chunk"
        ),
        pytest.param(with_fields(b"Expect: a miracle"), 417, id="unknown expectation"),
        pytest.param(get("/" + "x" * 9000), 414, id="long request line"),
        pytest.param(with_fields(b"A: " + b"x" * 9000), 431, id="long field"),
        pytest.param(with_fields(*[b"A: x"] * 200), 431, id="many fields"),
        pytest.param(with_fields(*[b"A: " + b"x" * 1000] * 70), 431, id="long head"),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b" " * 70_000, 431, id="endless head"),
    ],
)
def test_a_bad_request_is_refused_in_json(
    patient: Server, request_bytes: bytes, status: int
) -> None:
    with patient.client() as client:
        answer = client.send(request_bytes).answer()
        assert answer.status == status
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["connection"] == "close"
        assert "\n" not in answer.error
        client.sock.shutdown(socket.SHUT_WR)
        assert client.ended()
    assert f"on_refusal {status}" in patient.log()


def test_a_body_over_the_limit_is_refused_before_it_is_sent(patient: Server) -> None:
    request = with_fields(b"Content-Length: %d" % (MAX_BODY + 1), b"Expect: 100-continue")
    answer = patient.ask(request)
    assert answer.status == 413
    assert answer.error == (
        f"request body of {MAX_BODY + 1} bytes is over the limit of {MAX_BODY} bytes"
        " (--max-body-bytes)"
    )


def test_a_client_that_sends_all_of_a_refused_body_reads_the_answer(patient: Server) -> None:
    answer = patient.ask(post(bytes(16 * MAX_BODY)))
    assert answer.status == 413


def test_of_too_much_at_once_the_longest_arriving_is_refused(tmp_path: Path) -> None:
    """Whoever sends its request without delay gets its answer, however often others do not."""
    three = bytes(3 * 2**20)
    limits: dict[str, Any] = {
        "max_body_bytes": MAX_BODY,
        "max_held_bytes": 5 * 2**20,
        "request_seconds": 60.0,
    }
    slow = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % MAX_BODY + three
    with running(tmp_path / "log", **limits) as server:
        for _ in range(20):
            with server.client() as first, server.client() as second, server.client() as third:
                first.send(slow)
                second.send(slow)
                refused = first.answer()
                assert refused.status == 503
                assert refused.error == (
                    "too many bytes of requests are arriving at once; try again"
                )
                assert third.send(post(three)).answer().body == three
                # The second one too, unless the third one came in so few pieces that it was
                # answered before it was counted.
                second.send(bytes(MAX_BODY - len(three)))
                assert second.answer().status in (200, 503)
        assert " ERROR " not in server.log()


def test_whoever_sends_little_is_not_refused_for_requests_that_wait_for_their_answer(
    tmp_path: Path,
) -> None:
    """They took all that is allowed, and kube-scheduler, as the only one who was slow, got 503."""
    fifos = [tmp_path / "first", tmp_path / "second"]
    bodies = [bytes(3 * 2**20), bytes(2 * 2**20 - 50_000)]
    with running(tmp_path / "log", max_held_bytes=5 * 2**20) as server:
        with contextlib.ExitStack() as stack:
            first, second, third = [stack.enter_context(server.client()) for _ in range(3)]
            ends = []
            for client, fifo, body in zip((first, second), fifos, bodies, strict=True):
                os.mkfifo(fifo)
                client.send(post(body).replace(b"/echo", f"/held{fifo}".encode()))
                ends.append(stack.enter_context(fifo.open("wb")))
            little = post(bytes(100_000))
            third.send(little[:80_000])
            refused = second.answer()
            assert refused.status == 503
            assert refused.error == "too many bytes of requests are arriving at once; try again"
            assert third.send(little[80_000:]).answer().body == bytes(100_000)
            for end in ends:
                end.write(b"released")
                end.close()
            assert first.answer().body == b"released"
        assert "Traceback" not in server.log()


def test_what_those_who_are_refused_have_sent_does_not_stay(tmp_path: Path) -> None:
    """Each of them in memory of its own, announced by all before: 30 GB for a thousand clients."""
    limits: dict[str, Any] = {"max_body_bytes": MAX_BODY, "max_held_bytes": 5 * 2**20}
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % MAX_BODY
    with running(tmp_path / "log", **limits) as server, contextlib.ExitStack() as stack:
        pid = server.worker_pid()
        before = memory(pid)
        clients = [stack.enter_context(server.client()) for _ in range(60)]
        for client in clients:
            assert client.send(PING).answer().body == b"ping"  # else it would be paused
            client.send(head + b"{")
        for client in clients:
            client.send(bytes(MAX_BODY - 10))
        assert server.ask(PING).body == b"ping"
        assert memory(pid) - before < 60 * 2**20


def test_whoever_is_turned_away_while_it_sends_is_turned_away_once(tmp_path: Path) -> None:
    """The oldest holder passes the bound itself; nothing of it is left to expire later."""
    limits: dict[str, Any] = {"max_body_bytes": MAX_BODY, "max_held_bytes": 5 * 2**20}
    limits |= {"request_seconds": 1.0, "linger_seconds": 3.0}
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % MAX_BODY
    with running(tmp_path / "log", **limits) as server:
        with server.client() as first, server.client() as second:
            first.send(head + bytes(200_000))
            second.send(head + bytes(MAX_BODY - 1))
            assert server.ask(PING).body == b"ping"
            with contextlib.suppress(ConnectionError):
                first.send(bytes(MAX_BODY - 300_000))
            assert first.answer().status == 503
            assert second.answer().status == 408
            assert server.ask(PING).body == b"ping"
        assert "Traceback" not in server.log()


def test_an_unread_answer_counts_beside_the_next_request(tmp_path: Path) -> None:
    size = 64 * 2**20
    with running(tmp_path / "log", max_held_bytes=size * 5 // 4) as server:
        with server.client() as first, server.client() as second:
            for client in (first, second):
                client.send(get(f"/zeros/{size}") + HALF_BODY.replace(b"100", b"90000"))
                client.send(bytes(80_000))
            until(lambda: established(server.port) == 1)
        assert "Traceback" not in server.log()


def test_requests_that_wait_for_an_answer_before_them_count_together(tmp_path: Path) -> None:
    """None of them is large: each arrives whole, and a connection may have 64."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    waiting = get(f"/held{fifo}") + post(bytes(60_000)) * 50
    count = 60
    with running(tmp_path / "log", max_held_bytes=5 * 2**20) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                client = stack.enter_context(server.client())
                client.sock.setblocking(False)
                client.sock.send(waiting)  # what the kernel takes at once
            until(lambda: established(server.port) < count)
        assert "Traceback" not in server.log()


def test_of_too_much_unread_the_longest_unread_is_dropped(tmp_path: Path) -> None:
    size = 64 * 2**20  # much more than the kernel takes
    ask = get(f"/zeros/{size}")
    with running(tmp_path / "log", max_held_bytes=size * 5 // 4) as server:
        for _ in range(3):
            until(lambda: established(server.port) == 0)
            with server.client() as first, server.client() as second:
                assert first.send(ask).head()[0] == 200
                assert second.send(ask).head()[0] == 200
                until(lambda: established(server.port) == 1)
                assert first.received_in_part(size)
                assert not second.received_in_part(size)
        assert len(server.ask(ask).body) == size
        assert " ERROR " not in server.log()


def test_a_small_limit_of_bodies_does_not_bound_heads(tmp_path: Path) -> None:
    with running(tmp_path / "log", max_body_bytes=10) as server, server.client() as client:
        request = post(b"ping").replace(b"Host: x", b"Host: x\r\nX: " + b"x" * 8000)
        for place in range(0, len(request), 1000):
            client.send(request[place : place + 1000])
        assert client.answer().body == b"ping"


# Slow and silent clients


def usual_seconds(server: Server) -> float:
    """How long an answer takes: the median of 20, so that no pause of the machine's counts."""
    times = []
    for _ in range(20):
        began = time.monotonic()
        assert server.ask(PING).body == b"ping"
        times.append(time.monotonic() - began)
    return statistics.median(times)


@pytest.mark.parametrize("beginning", [pytest.param(b"", id="nothing"), *UNFINISHED])
def test_unfinished_requests_delay_nobody(patient: Server, beginning: bytes) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(patient.client()).send(beginning)
        assert usual_seconds(patient) < PROMPT


@pytest.mark.parametrize("beginning", UNFINISHED)
def test_an_unfinished_request_is_cut_off_at_the_deadline(strict: Server, beginning: bytes) -> None:
    with strict.client() as fresh, strict.client() as kept:
        assert kept.send(PING).answer().status == 200
        began = time.monotonic()
        for client in (fresh, kept):
            client.send(beginning)
        for client in (fresh, kept):
            answer = client.answer()
            assert answer.status == 408
            assert answer.error == "the request did not arrive in time"
            assert client.ended()
        assert time.monotonic() - began >= 0.3


def test_silent_connections_are_closed(strict: Server) -> None:
    with strict.client() as fresh, strict.client() as kept:
        assert kept.send(PING).answer().status == 200
        assert fresh.ended()
        assert kept.ended()


def test_a_client_that_never_closes_is_closed_after_the_linger(strict: Server) -> None:
    pid = strict.worker_pid()
    before = open_files(pid)
    with strict.client() as client:
        assert client.send(get("/pid", "Connection: close")).answer().status == 200
        until(lambda: open_files(pid) <= before)


def test_answers_that_are_not_read_delay_nobody(tmp_path: Path) -> None:
    size = 20 * 2**20
    with (
        running(tmp_path / "log", answer_seconds=1.0) as server,
        server.client() as slow,
        server.client() as stuck,
    ):
        pid = server.worker_pid()
        for client in (slow, stuck):
            client.send(get(f"/zeros/{size}"))
            assert client.head()[1]["content-length"] == str(size)
        assert usual_seconds(server) < PROMPT
        received = 0
        while received < size:  # in small pieces, beside other requests
            received += len(slow._file.read(min(2**20, size - received)))
            assert server.ask(PING).body == b"ping"
        assert slow.send(PING).answer().body == b"ping"
        before = open_files(pid)
        until(lambda: open_files(pid) == before - 1)


def test_the_longest_idle_connection_makes_room(tmp_path: Path) -> None:
    with (
        running(tmp_path / "log", connections=4) as server,
        contextlib.ExitStack() as stack,
    ):
        idle = [stack.enter_context(server.client()) for _ in range(4)]
        for client in idle:
            assert client.send(PING).answer().status == 200
        newest = stack.enter_context(server.client())
        assert newest.send(PING).answer().status == 200
        assert idle[0].ended()
        assert idle[3].send(PING).answer().status == 200


def test_silent_connections_make_room_before_those_that_were_answered(tmp_path: Path) -> None:
    with running(tmp_path / "log", connections=4) as server, contextlib.ExitStack() as stack:
        served = stack.enter_context(server.client())
        assert served.send(PING).answer().status == 200
        silent = [stack.enter_context(server.client()) for _ in range(3)]
        half = [stack.enter_context(server.client()).send(HALF_BODY) for _ in range(3)]
        assert all(client.received_in_part(1) for client in silent)
        assert served.send(PING).answer().status == 200  # the halves have arrived
        newest = stack.enter_context(server.client())
        assert newest.send(PING).answer().status == 200
        # The one whose half arrived first, which need not be the one that was sent first.
        gone, _, _ = select.select([each.sock for each in half], [], [], PATIENCE)
        assert len(gone) == 1
        assert served.send(PING).answer().status == 200


def test_who_was_answered_once_and_then_stalls_makes_room(tmp_path: Path) -> None:
    with running(tmp_path / "log", connections=4) as server, contextlib.ExitStack() as stack:
        for _ in range(4):
            client = stack.enter_context(server.client())
            assert client.send(PING).answer().status == 200
            client.send(HALF_HEAD)
        assert server.ask(PING).body == b"ping"
        assert server.ask(PING).body == b"ping"


def test_a_thousand_silent_connections_cost_a_served_one_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "log", connections=100) as server, contextlib.ExitStack() as stack:
        served = stack.enter_context(server.client())
        for _ in range(1000):
            stack.enter_context(server.client())
            if _ % 50 == 0:
                assert served.send(PING).answer().body == b"ping"
        assert served.send(PING).answer().body == b"ping"
        assert server.ask(PING).body == b"ping"


def test_connections_over_the_limit_wait_for_others_to_end(tmp_path: Path) -> None:
    with (
        running(tmp_path / "log", connections=3) as server,
        contextlib.ExitStack() as stack,
    ):
        busy = [stack.enter_context(server.client()) for _ in range(3)]
        for client in busy:
            client.send(HALF_BODY)
        waiting = stack.enter_context(server.client()).send(PING)
        assert select.select([waiting.sock], [], [], 0.2)[0] == []
        busy[0].reset()
        assert waiting.answer().body == b"ping"


# Dropped connections


def test_dropped_connections_leave_nothing_behind(tmp_path: Path) -> None:
    states = [b"", HALF_HEAD, HALF_BODY, HALF_CHUNK, PING, PING + HALF_HEAD, b"nonsense\r\n\r\n"]
    states += [get("/zeros/20000000"), get("/pid", "Connection: close")]
    with running(tmp_path / "log") as server:
        pid = server.worker_pid()
        server.ask(PING)  # both pool threads have started
        before = open_files(pid)
        for number in range(220):
            client = server.client().send(states[number % len(states)])
            if number % 2:
                client.reset()
            else:
                client.__exit__(None, None, None)
        assert server.ask(PING).body == b"ping"
        until(lambda: open_files(pid) <= before)
        assert len(os.listdir(f"/proc/{pid}/task")) <= 1 + 2  # the main thread and the pool
        assert "Traceback" not in server.log()


def test_a_connection_dropped_while_its_request_is_answered(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with running(tmp_path / "log") as server:
        pid = server.worker_pid()
        before = open_files(pid)
        client = server.client().send(get(f"/held{fifo}"))
        with fifo.open("wb") as held:
            client.reset()
            assert server.ask(PING).body == b"ping"
            held.write(b"too late")
        until(lambda: open_files(pid) <= before)
        assert "Traceback" not in server.log()


# Failures of the application


@pytest.mark.parametrize("path", ["/fail", "/fail/late"])
def test_a_failing_application_is_answered_500_and_logged(tmp_path: Path, path: str) -> None:
    with running(tmp_path / "log") as server:
        answer = server.ask(get(path))
        assert (answer.status, answer.error) == (500, "internal error, see the log")
        assert server.ask(PING).body == b"ping"
        until(lambda: "Traceback" in server.log())


# Stopping


def test_idle_connections_do_not_hold_up_a_stop(tmp_path: Path) -> None:
    with running(tmp_path / "log") as server, contextlib.ExitStack() as stack:
        server.worker_pid()
        clients = [stack.enter_context(server.client()) for _ in range(300)]
        for client in clients[:150]:
            client.send(PING)
        assert {client.answer().status for client in clients[:150]} == {200}
        began = server.terminate()
        assert server.process.wait(PATIENCE) == 0
        assert time.monotonic() - began < GRACE
        assert all(client.ended() for client in clients)
        assert server.log().count("on_stopping") == 1


def test_a_stopping_worker_finishes_what_it_has_begun(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with running(tmp_path / "log") as server, contextlib.ExitStack() as stack:
        server.worker_pid()
        kept, half, held = [stack.enter_context(server.client()) for _ in range(3)]
        assert "connection" not in kept.send(PING).answer().headers
        half.send(HALF_BODY)
        held.send(get(f"/held{fifo}"))
        with fifo.open("wb") as end_of_hold:
            server.terminate()
            until(lambda: "on_stopping" in server.log())
            until(lambda: refused(server.port))
            assert kept.send(PING).answer().headers["connection"] == "close"
            assert kept.ended()
            assert half.send(b"x" * 96).answer().headers["connection"] == "close"
            end_of_hold.write(b"released")
        answer = held.answer()
        assert (answer.body, answer.headers["connection"]) == (b"released", "close")
        assert server.process.wait(PATIENCE) == 0


def test_a_half_sent_request_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    with running(tmp_path / "log", request_seconds=60.0) as server:
        server.worker_pid()
        with server.client() as client:
            client.send(HALF_BODY)
            assert server.ask(PING).body == b"ping"
            began = server.terminate()
            assert client.answer().status == 408
        assert server.process.wait(PATIENCE) == 0
        assert time.monotonic() - began < GRACE


def refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1])
def test_a_signal_that_means_nothing_here_changes_nothing(tmp_path: Path, number: int) -> None:
    with running(tmp_path / "log") as server:
        worker = server.worker_pid()
        for pid in (server.process.pid, worker):
            os.kill(pid, number)
        for _ in range(20):
            assert server.worker_pid() == worker
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        assert children.read_text().split() == [str(worker)]


# TLS


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.cert))


@contextmanager
def running_tls(
    directory: Path, client_ca: Path | None = None, **limits: Any
) -> Iterator[tuple[Server, Authority]]:
    authority = Authority(directory, "authority")
    issued = authority.issue("server")
    files = {"tls_cert_file": str(issued.cert), "tls_private_key_file": str(issued.key)}
    if client_ca is not None:
        files["client_ca_file"] = str(client_ca)
    with running(directory / "log", files, **limits) as server:
        server.tls = trusting(authority)
        yield server, authority


def is_let_in(server: Server) -> bool:
    try:
        with server.client() as client:
            return not client.send(PING).ended()
    except (ssl.SSLError, ConnectionError):
        return False


def served_certificate(server: Server) -> bytes:
    with server.client() as client:
        assert isinstance(client.sock, ssl.SSLSocket)
        certificate = client.sock.getpeercert(binary_form=True)
        assert certificate is not None
        assert client.send(PING).answer().body == b"ping"
        return certificate


def test_requests_over_tls(tmp_path: Path) -> None:
    body = os.urandom(1_000_000)
    with running_tls(tmp_path) as (server, _), server.client() as client:
        assert client.send(post(body)).answer().body == body
        assert client.send(PING + PING).answer().body == b"ping"
        assert client.answer().body == b"ping"
        # The end of a request and another one in a single record.
        client.send(PING[:-2]).send(PING[-2:] + PING)
        assert [client.answer().body, client.answer().body] == [b"ping", b"ping"]
        for position in range(len(PING)):
            client.send(PING[position : position + 1])
        assert client.answer().body == b"ping"
        assert len(client.send(get("/zeros/20000000")).answer().body) == 20_000_000
        assert client.send(get("/pid", "Connection: close")).answer().status == 200
        assert client.ended()


def test_answers_that_come_later_over_tls(tmp_path: Path) -> None:
    """The answers of threads, and requests that arrive in several records."""
    head = b"POST /fail/late HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n"
    with running_tls(tmp_path) as (server, _), server.client() as client:
        for _ in range(20):
            assert client.send(get("/fail/late")).answer().status == 500
            assert client.send(head).send(bytes(2000)).answer().status == 500
            assert client.send(PING).answer().body == b"ping"
            client.send(get("/fail/late") + PING)
            assert client.answer().status == 500
            assert client.answer().body == b"ping"


def test_answers_over_tls_that_are_not_read_are_cut_off(tmp_path: Path) -> None:
    size = 20 * 2**20
    with running_tls(tmp_path, answer_seconds=1.0) as (server, _):
        pid = int(server.ask(get("/pid")).body)
        before = open_files(pid)
        with server.client() as client:
            client.send(get(f"/zeros/{size}"))
            assert client.head()[1]["content-length"] == str(size)
            until(lambda: open_files(pid) <= before)


def test_unfinished_handshakes_delay_nobody_and_are_cut_off(tmp_path: Path) -> None:
    client_hello = bytes.fromhex("16030100c8010000c40303")
    with (
        running_tls(tmp_path, request_seconds=1.0) as (server, _),
        contextlib.ExitStack() as stack,
    ):
        server.worker_pid()
        pending = [stack.enter_context(server.raw_client()) for _ in range(16)]
        for client in pending[:8]:
            client.send(client_hello)
        assert usual_seconds(server) < PROMPT
        assert all(client.ended() for client in pending)
        with server.client() as client:
            assert client.send(HALF_BODY).answer().status == 408


def test_a_client_that_speaks_no_tls_is_closed(tmp_path: Path) -> None:
    with running_tls(tmp_path) as (server, _):
        server.worker_pid()
        with server.raw_client() as client, contextlib.suppress(ConnectionResetError):
            client.send(PING)
            while client.sock.recv(100):
                pass
        assert server.ask(PING).body == b"ping"
        assert " WARNING " not in server.log()


def test_a_changed_certificate_is_served_to_new_connections(tmp_path: Path) -> None:
    with running_tls(tmp_path) as (server, authority), server.client() as kept:
        first = served_certificate(server)
        assert kept.send(PING).answer().body == b"ping"
        authority.issue("server")
        until(lambda: served_certificate(server) != first)
        assert kept.send(PING).answer().body == b"ping"


def test_a_certificate_that_cannot_be_loaded_is_not_taken(tmp_path: Path) -> None:
    with running_tls(tmp_path) as (server, _):
        first = served_certificate(server)
        (tmp_path / "server.crt").write_text("not a certificate")
        warning = "keeping the previous TLS certificate"
        until(lambda: served_certificate(server) == first and warning in server.log())
        assert server.log().count(warning) == 1


def test_a_client_certificate_is_required_when_there_is_a_bundle(tmp_path: Path) -> None:
    client = Authority(tmp_path / "clients", "clients").issue("scheduler")
    stranger = Authority(tmp_path / "strangers", "strangers").issue("stranger")
    bundle = client.cert.with_name("ca.crt")
    with running_tls(tmp_path, bundle) as (server, authority):
        server.tls = trusting(authority)
        server.tls.load_cert_chain(client.cert, client.key)
        assert server.ask(PING).body == b"ping"
        for certificate in (None, stranger):
            server.tls = trusting(authority)
            if certificate is not None:
                server.tls.load_cert_chain(certificate.cert, certificate.key)
            assert not is_let_in(server)
        until(lambda: "a TLS handshake failed" in server.log())
        assert " WARNING " not in server.log()
