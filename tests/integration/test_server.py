"""The real serve over real sockets: what no client may do to it, and how it ends."""

import contextlib
import os
import resource
import signal
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest

from tests.certificates import Authority
from tests.integration.raw_clients import Answer, RawClient
from tests.processes import SAMPLES, Server, ready, running, until

MAX_BODY = 4 * 2**20

CLUSTER = ("--manifests", str(SAMPLES / "cluster"))
CONNECTION = "extender.server.connection"
WORKER = "extender.server.gunicorn_worker"
LIMITS = "extender.http.limits"

#: Deadlines of a second.
HURRY: dict[str, dict[str, object]] = {CONNECTION: {"REQUEST_SECONDS": 1.0, "ANSWER_SECONDS": 1.0}}


def post(body: bytes, path: str = "/filter", *fields: bytes) -> bytes:
    head = [b"POST %b HTTP/1.1" % path.encode(), b"Host: x", b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*head, *fields, b"", b""]) + body


def get(path: str, *fields: bytes, method: str = "GET") -> bytes:
    head = [b"%b %b HTTP/1.1" % (method.encode(), path.encode()), b"Host: x"]
    return b"\r\n".join([*head, *fields, b"", b""])


def chunked(*lines: bytes) -> bytes:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(line + b"\r\n" for line in lines)


def question(names: int, *, prefix: str = "kata-") -> bytes:
    """A filter request about so many nodes, of which the sample cluster has kata-1 to kata-3."""
    nodes = [f"{prefix}{number}" for number in range(1, names + 1)]
    pod = {"spec": {"runtimeClassName": "kata"}}
    return orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes})


ASK = post(question(3))
PASSING = ["kata-1", "kata-2"]
HALF_BODY = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"
HALF_CHUNK = chunked(b"40", b"half")[:-2]


def passing(answer: Answer) -> list[str]:
    assert answer.status == 200, answer
    names: list[str] = orjson.loads(answer.body)["NodeNames"]
    return names


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose deadlines no test reaches; it may log nothing that clients do."""
    with ready("serve", *CLUSTER, "--max-body-bytes", str(MAX_BODY)) as started:
        yield started
        for word in ("Traceback", " WARNING ", " ERROR "):
            assert word not in started.log


@pytest.fixture(scope="module")
def hurried() -> Iterator[Server]:
    with ready("serve", *CLUSTER, constants=HURRY) as started:
        yield started


# Requests


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(ASK, id="with a length"),
        pytest.param(
            chunked(b"5", question(3)[:5], b"%x;x=y" % len(question(3)[5:]), question(3)[5:])
            + b"0\r\nContent-Encoding: gzip\r\n\r\n",
            id="chunked",
        ),
    ],
)
def test_a_request_in_single_bytes_is_answered(server: Server, request_bytes: bytes) -> None:
    with RawClient(server.address) as client:
        for position in range(len(request_bytes)):
            client.send(request_bytes[position : position + 1])
        assert passing(client.answer()) == PASSING


def test_a_body_of_many_segments_arrives_whole(server: Server) -> None:
    body = question(100_000)
    with RawClient(server.address) as client:
        answer = client.send(post(body)).answer()
        assert passing(answer) == PASSING
        assert len(orjson.loads(answer.body)["FailedAndUnresolvableNodes"]) == 99_998


def test_a_connection_is_kept_for_many_requests_and_pipelined_ones(server: Server) -> None:
    with RawClient(server.address) as client:
        for _ in range(50):
            assert passing(client.send(ASK).answer()) == PASSING
        client.send(ASK + get("/livez") + ASK)
        assert passing(client.answer()) == PASSING
        assert client.answer().body == b"ok"
        assert passing(client.answer()) == PASSING
        client.send(get("/livez", b"Connection: close"))
        assert client.answer().headers["connection"] == "close"
        assert client.ended()


def test_100_continue_is_sent_once_the_body_is_wanted(server: Server) -> None:
    body = question(3)
    head = post(body, "/filter", b"Expect: 100-continue")[: -len(body)]
    with RawClient(server.address) as client:
        assert client.send(head).head()[0] == 100
        assert passing(client.send(body).answer()) == PASSING


def test_a_probe_may_be_a_head_or_of_http_1_0_which_ends_the_connection(server: Server) -> None:
    with RawClient(server.address) as client:
        assert client.send(get("/readyz", method="HEAD")).answer("HEAD").status == 200
        assert client.send(b"GET /livez HTTP/1.0\r\n\r\n").answer().body == b"ok"
        assert client.ended()


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no request line"),
        pytest.param(b"\x16\x03\x01\x00\xc8", id="a TLS handshake"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", id="unknown version"),
        pytest.param(get("/livez", b"Bad Name: 1"), id="malformed field name"),
        pytest.param(get("/livez", b"A: 1", b"Content-Length: +4"), id="signed length"),
        pytest.param(get("/livez", b"Content-Length: " + b"9" * 5000), id="endless length"),
        pytest.param(post(b"", "/filter", b"Content-Length: 4"), id="two lengths"),
        pytest.param(post(b"", "/filter", b"Transfer-Encoding: chunked"), id="length and chunked"),
        pytest.param(chunked(b"4x", b"ping", b"0", b""), id="malformed chunk size"),
        pytest.param(chunked(b"1;" + b"x" * 2_000_000), id="endless chunk extension"),
        pytest.param(chunked(b"0", b"A: " + b"x" * 2_000_000), id="endless trailer"),
        pytest.param(get("/" + "x" * 300_000), id="endless request line"),
        pytest.param(get("/livez", *[b"A: " + b"x" * 1000] * 300)[:-2], id="long head"),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b" " * 300_000, id="endless head"),
        pytest.param(get("/livez", *[b"a:"] * 101)[:-2], id="many fields"),
    ],
)
def test_a_bad_request_is_refused_and_the_connection_ended(
    server: Server, request_bytes: bytes
) -> None:
    with RawClient(server.address) as client:
        with contextlib.suppress(ConnectionError):
            client.send(request_bytes)
        answer = client.answer()
        while answer.status == 200:
            answer = client.answer()
        assert answer.status == 400
        assert client.ended()


def test_after_a_request_that_asks_for_nothing_here_the_connection_is_kept(server: Server) -> None:
    """The answers stand in tests/transcripts/http.md."""
    with RawClient(server.address) as client:
        assert client.send(post(b"", "//filter")).answer().status == 404
        answer = client.send(get("/filter")).answer()
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert client.send(post(b"{}", "/filter?x=1")).answer().status == 400
        assert client.send(get("/livez")).answer().body == b"ok"


def test_a_body_over_the_limit_is_refused_before_it_is_sent(server: Server) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1)
    with RawClient(server.address) as client:
        answer = client.send(head).answer()
    assert answer.status == 413
    assert answer.error == f"the body is over the limit of {MAX_BODY} bytes (--max-body-bytes)"


def test_a_client_that_sends_all_of_a_refused_body_reads_the_answer(server: Server) -> None:
    too_much = bytes(MAX_BODY + 1)
    for request_bytes in (post(too_much), chunked(b"%x" % len(too_much), too_much, b"0", b"")):
        with RawClient(server.address) as client:
            assert client.send(request_bytes).answer().status == 413


def test_an_early_answer_does_not_end_a_connection_whose_body_comes_later(server: Server) -> None:
    request_bytes = b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
    with RawClient(server.address) as client:
        assert client.send(request_bytes).answer().status == 405
        assert client.send(b"12345" + ASK).answer().status == 200


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
def test_an_upgrade_is_ignored_and_the_connection_ended(server: Server, protocol: bytes) -> None:
    """A body is not read: httptools takes it for the other protocol."""
    upgrade = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: " + protocol)
    with RawClient(server.address) as client:
        assert client.send(get("/livez", *upgrade) + ASK).answer().body == b"ok"
        assert client.ended()
    with RawClient(server.address) as client:
        assert client.send(post(question(3), "/filter", *upgrade)).answer().status == 400
        assert client.ended()


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param(get("/livez") * 400, id="too many requests"),
        pytest.param(b"nonsense\r\n\r\n", id="a malformed one"),
        pytest.param(b"", id="nothing, and the client is gone"),
    ],
)
def test_a_fault_behind_a_request_leaves_no_trace(server: Server, behind: bytes) -> None:
    """A client that pipelines reads the page, a refusal or the end; nothing is logged."""
    for _ in range(5):
        with RawClient(server.address) as client, contextlib.suppress(ConnectionError):
            client.send(get("/nodes") + get("/metrics") + behind)
            if not behind:
                continue
            line = client.sock.recv(12)
            assert line in (b"", b"HTTP/1.1 200", b"HTTP/1.1 400")
    assert server.request("GET", "/livez")[0] == 200
    assert "Traceback" not in server.log


# Clients that are slow


def test_an_unfinished_request_is_cut_off_at_the_deadline(hurried: Server) -> None:
    """Half a chunk; half a head and half a body are among the load test's hostile clients."""
    with RawClient(hurried.address) as client, RawClient(hurried.address) as beside:
        client.send(HALF_CHUNK)
        assert passing(beside.send(ASK).answer()) == PASSING
        assert client.ended()


@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param(b"\r\n", id="a line break"),
        pytest.param(HALF_BODY.replace(b"/filter", b"/livez"), id="an early answer"),
    ],
)
def test_no_state_of_a_connection_lasts_for_ever(hurried: Server, beginning: bytes) -> None:
    with RawClient(hurried.address) as client:
        client.send(beginning)
        if len(beginning) > 2:
            assert client.answer().status == 405
        # There is no answer: the client would take it for that to its next request.
        assert client.ended()


def test_an_idle_connection_that_was_answered_is_kept(hurried: Server) -> None:
    with RawClient(hurried.address) as kept, RawClient(hurried.address) as silent:
        kept.send(ASK).answer()
        assert silent.ended()
        assert passing(kept.send(ASK).answer()) == PASSING


def worker_of(server: Server) -> int:
    master = server.process.pid
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return int(children[0]) if children else 0


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def ops_of(server: Server) -> tuple[str, int]:
    """The address of --ops-bind."""
    found = server.wait_for_line(r"probes and metrics on http://(127\.0\.0\.1):(\d+)")
    return found[1], int(found[2])


# Many clients


def test_a_crowd_that_says_nothing_makes_room_and_who_was_answered_stays() -> None:
    """kube-scheduler's connection among ten times as many as there may be."""
    with (
        ready("serve", *CLUSTER, constants={WORKER: {"MAX_CONNECTIONS": 20}}) as server,
        contextlib.ExitStack() as stack,
    ):
        kept = stack.enter_context(RawClient(server.address))
        kept.send(ASK).answer()
        crowd = [stack.enter_context(RawClient(server.address)) for _ in range(200)]
        assert passing(kept.send(ASK).answer()) == PASSING
        assert server.request("GET", "/livez")[0] == 200
        until(lambda: sum(client.is_open() for client in crowd) <= 20)
        # If no connection is silent, idle ones that were answered make room.
        for _ in range(60):
            client = stack.enter_context(RawClient(server.address))
            assert client.send(get("/livez")).answer().body == b"ok"


@pytest.mark.parametrize("in_handshakes", [False, True])
def test_with_few_files_the_probes_are_answered_beside_a_crowd(
    in_handshakes: bool, tmp_path: Path
) -> None:
    flags = [*CLUSTER, "--bind", "127.0.0.1:0", "--ops-bind", "127.0.0.1:0"]
    if in_handshakes:
        issued = Authority(tmp_path, "authority").issue("server")
        flags += ["--tls-cert-file", str(issued.cert), "--tls-private-key-file", str(issued.key)]
    with running("serve", *flags) as server, contextlib.ExitStack() as stack:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (256, 256))
        until(lambda: worker_of(server) != 0)
        # The first worker may be older than the limit.
        first = worker_of(server)
        os.kill(first, signal.SIGKILL)
        until(lambda: worker_of(server) not in (0, first))
        with RawClient(ops_of(server)) as probe:
            until(lambda: probe.send(get("/readyz")).answer().status == 200)
        crowd = [stack.enter_context(RawClient(server.address)) for _ in range(400)]
        # Before their deadline of 10 s.
        until(lambda: sum(client.is_open() for client in crowd) <= 100, 8.0)
        for _ in range(50):
            with RawClient(ops_of(server)) as probe:
                assert probe.send(get("/livez")).answer().body == b"ok"


def test_where_large_requests_hold_too_much_another_is_refused_and_small_ones_are_not() -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % MAX_BODY
    flags = ("--max-body-bytes", str(MAX_BODY))
    with (
        ready("serve", *CLUSTER, *flags, constants={LIMITS: {"MEDIUM_ROOM": MAX_BODY}}) as server,
        contextlib.ExitStack() as stack,
    ):
        holding = [stack.enter_context(RawClient(server.address)) for _ in range(2)]
        for client in holding:
            client.send(head + bytes(100_000))
        with RawClient(server.address) as late:
            answer = late.send(head + bytes(100_000)).answer()
            assert answer.status == 503
            assert answer.error == "too many large requests at once, try again later"
        for names in (3, 5_000, 30_000):  # up to 300 KB
            client = stack.enter_context(RawClient(server.address))
            assert passing(client.send(post(question(names))).answer()) == PASSING
        # The room comes back with the end of a request.
        assert holding.pop().send(bytes(MAX_BODY - 100_000)).answer().status == 400
        with RawClient(server.address) as next_one:
            assert next_one.send(head + bytes(MAX_BODY)).answer().status == 400


def test_unread_answers_of_small_requests_are_bounded_too() -> None:
    pod = {"spec": {"runtimeClassName": "x" * 250}}
    names = [f"{number:x}" for number in range(9_000)]
    large = post(orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}))  # answer: 3 MB
    assert len(large) < 64 * 1024
    flags = ("--max-body-bytes", str(MAX_BODY))
    with (
        ready("serve", *CLUSTER, *flags, constants={LIMITS: {"MEDIUM_ROOM": MAX_BODY}}) as server,
        contextlib.ExitStack() as stack,
    ):
        clients = [stack.enter_context(RawClient(server.address)) for _ in range(8)]
        statuses = [client.send(large).head()[0] for client in clients]
        assert [statuses[0], *statuses[-4:]] == [200] + [503] * 4
        with RawClient(server.address) as client:
            assert passing(client.send(ASK).answer()) == PASSING


# The end


def test_a_stopping_server_answers_what_was_begun_and_says_so() -> None:
    body = question(3)
    with (
        ready("serve", *CLUSTER, "--ops-bind", "127.0.0.1:0") as server,
        contextlib.ExitStack() as stack,
    ):
        idle, half = (stack.enter_context(RawClient(server.address)) for _ in range(2))
        idle.send(ASK).answer()
        half.send(post(body)[:-4])
        assert server.request("GET", "/metrics")[0] == 404
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_line("stopping")
        with RawClient(ops_of(server)) as probe:
            assert probe.send(get("/readyz")).answer().status == 503
            for _ in range(20):
                assert probe.send(get("/metrics")).answer().status == 200
        assert passing(half.send(body[-4:]).answer()) == PASSING
        assert half.ended()
        assert idle.ended()
        assert server.stop() == 0
        assert "Traceback" not in server.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_idle_connections_do_not_hold_up_a_stop(number: int) -> None:
    with ready("serve", *CLUSTER) as server, RawClient(server.address) as idle:
        idle.send(ASK).answer()
        server.process.send_signal(number)
        assert idle.ended()
        assert server.stop() == 0


def test_a_request_that_comes_with_the_signal_is_answered() -> None:
    """The connection was promised to be kept: for the client the server is still there."""
    with (
        ready("serve", *CLUSTER, constants={CONNECTION: {"DRAIN_SECONDS": 2.0}}) as server,
        RawClient(server.address) as client,
    ):
        client.send(ASK).answer()
        server.process.send_signal(signal.SIGTERM)
        assert passing(client.send(ASK).answer()) == PASSING


def test_a_worker_that_hangs_is_replaced() -> None:
    with ready("serve", *CLUSTER, constants={WORKER: {"WORKER_SECONDS": 2}}) as server:
        worker = worker_of(server)
        os.kill(worker, signal.SIGSTOP)
        until(lambda: not Path(f"/proc/{worker}").exists())
        until(lambda: worker_of(server) not in (0, worker))
        until(lambda: server.request("GET", "/readyz")[0] == 200)


# TLS


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.cert))


@contextlib.contextmanager
def running_tls(
    folder: Path, *flags: str, constants: dict[str, dict[str, object]] | None = None
) -> Iterator[tuple[Server, Authority]]:
    authority = Authority(folder, "authority")
    issued = authority.issue("server")
    tls = ("--tls-cert-file", str(issued.cert), "--tls-private-key-file", str(issued.key))
    bind = ("--bind", "127.0.0.1:0")
    with running("serve", *bind, *CLUSTER, *tls, *flags, constants=constants or {}) as server:
        yield server, authority


def served_certificate(server: Server, tls: ssl.SSLContext) -> bytes:
    with RawClient(server.address, tls) as client:
        assert isinstance(client.sock, ssl.SSLSocket)
        certificate = client.sock.getpeercert(binary_form=True)
        assert certificate is not None
        assert client.send(get("/livez")).answer().body == b"ok"
        return certificate


def test_requests_over_tls(tmp_path: Path) -> None:
    with running_tls(tmp_path) as (server, authority):
        with RawClient(server.address, trusting(authority)) as client:
            until(lambda: client.send(get("/readyz")).answer().status == 200)
            assert passing(client.send(post(question(50_000))).answer()) == PASSING
            # The end of a request and another one in a single record.
            client.send(ASK[:-2]).send(ASK[-2:] + ASK)
            assert [passing(client.answer()), passing(client.answer())] == [PASSING] * 2
            assert client.send(get("/livez", b"Connection: close")).answer().status == 200
            assert client.ended()
        old = trusting(authority)
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1"):
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError), RawClient(server.address, old):
            pass
        until(lambda: "a TLS handshake failed: [SSL: UNSUPPORTED_PROTOCOL]" in server.log)
        with RawClient(server.address) as stranger, contextlib.suppress(ConnectionResetError):
            stranger.send(ASK)
            while stranger.sock.recv(100):
                pass
        assert " ERROR " not in server.log


def test_large_bodies_over_tls_all_arrive(tmp_path: Path) -> None:
    """uvicorn pauses and resumes reading of each body many times."""
    body = bytes(3 * 2**20)
    constants: dict[str, dict[str, object]] = {
        LIMITS: {"MEDIUM_ROOM": 24 * MAX_BODY},
        CONNECTION: {"REQUEST_SECONDS": 60.0},
    }
    flags = ("--max-body-bytes", str(MAX_BODY))
    with running_tls(tmp_path, *flags, constants=constants) as (server, authority):

        def statuses(_: int) -> list[int]:
            with RawClient(server.address, trusting(authority)) as client:
                return [client.send(post(body)).answer().status for _ in range(3)]

        with ThreadPoolExecutor(24) as pool:
            assert [*pool.map(statuses, range(24))] == [[400] * 3] * 24


def test_unfinished_handshakes_and_unread_answers_are_cut_off(tmp_path: Path) -> None:
    client_hello = bytes.fromhex("16030100c8010000c40303")
    with (
        running_tls(tmp_path, constants=HURRY) as (server, authority),
        contextlib.ExitStack() as stack,
    ):
        tls = trusting(authority)
        served_certificate(server, tls)
        before = open_files(worker_of(server))
        pending = [stack.enter_context(RawClient(server.address)) for _ in range(16)]
        for client in pending[:8]:
            client.send(client_hello)
        served_certificate(server, tls)
        unread = stack.enter_context(RawClient(server.address, tls))
        unread.send(post(question(100_000))).head()
        assert all(client.ended() for client in pending)
        with RawClient(server.address, tls) as client:
            assert client.send(HALF_BODY).ended()
        until(lambda: open_files(worker_of(server)) <= before)


def test_a_certificate_is_replaced_under_load_and_no_request_is_lost(tmp_path: Path) -> None:
    """Half of the clients keep their connection, half open one for each request."""
    seen: list[bytes | None] = []
    answers: list[list[str]] = []
    stopping = threading.Event()
    warning = "keeping the previous TLS certificate"

    def ask(server: Server, tls: ssl.SSLContext, keeps: bool) -> None:
        while not stopping.is_set():
            with RawClient(server.address, tls) as client:
                assert isinstance(client.sock, ssl.SSLSocket)
                seen.append(client.sock.getpeercert(binary_form=True))
                answers.append(passing(client.send(ASK).answer()))
                while keeps and not stopping.is_set():
                    answers.append(passing(client.send(ASK).answer()))

    def wait_for_more() -> None:
        enough = len(answers) + 200
        until(lambda: len(answers) > enough)

    with running_tls(tmp_path) as (server, authority), ThreadPoolExecutor(4) as pool:
        tls = trusting(authority)
        with RawClient(server.address, tls) as client:
            until(lambda: client.send(get("/readyz")).answer().status == 200)
        asking = [pool.submit(ask, server, tls, number % 2 == 0) for number in range(4)]
        try:
            wait_for_more()
            authority.issue("server")
            until(lambda: seen[-1] != seen[0])
            wait_for_more()
            before = server.log.count(warning)
            (tmp_path / "server.crt").write_text("not a certificate")
            until(lambda: server.log.count(warning) > before)
            wait_for_more()
        finally:
            stopping.set()
        for each in asking:
            each.result()
        assert set(map(tuple, answers)) == {tuple(PASSING)}
        # One change, and none back.
        assert list(dict.fromkeys(seen)) == [seen[0], seen[-1]]


def test_a_client_certificate_is_required_and_a_ca_that_was_taken_out_is_not_trusted(
    tmp_path: Path,
) -> None:
    clients, strangers = (Authority(tmp_path / name, name) for name in ("clients", "strangers"))
    bundle = tmp_path / "bundle.crt"
    bundle.write_bytes(clients.cert.read_bytes())
    with running_tls(tmp_path, "--client-ca-file", str(bundle)) as (server, authority):

        def is_let_in(by: Authority | None) -> bool:
            tls = trusting(authority)
            if by is not None:
                issued = by.issue("client")
                tls.load_cert_chain(issued.cert, issued.key)
            try:
                with RawClient(server.address, tls) as client:
                    return not client.send(get("/livez")).ended()
            except (ssl.SSLError, ConnectionError):
                return False

        assert [is_let_in(by) for by in (clients, strangers, None)] == [True, False, False]
        bundle.write_bytes(strangers.cert.read_bytes())
        until(lambda: is_let_in(strangers))
        assert [is_let_in(by) for by in (clients, None)] == [False, False]
        assert server.log.count("INFO a TLS handshake failed: [SSL: ") == 1
        assert " ERROR " not in server.log
