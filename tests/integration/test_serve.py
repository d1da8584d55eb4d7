"""The real server process, asked over a socket."""

import http.client
import json
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.processes import ROOT, SAMPLES, Server, run, running, serving, until
from tests.vectors_file import RECORDED, recorded

REQUESTS = SAMPLES / "requests"

#: Of a cluster much larger than the sample.
NAMES = [f"node-{number:06}" for number in range(150_000)]
KATA_POD = {"metadata": {"name": "p"}, "spec": {"runtimeClassName": "kata"}}
VICTIMS = {"Pods": [{"UID": "448ab719-ba5f-4280-af04-cb884555fa7c"}], "NumPDBViolations": 0}
MANY_NAMES = orjson.dumps({"Pod": KATA_POD, "Nodes": None, "NodeNames": NAMES})
MANY_VICTIMS = orjson.dumps(
    {"Pod": KATA_POD, "NodeNameToMetaVictims": dict.fromkeys(NAMES, VICTIMS)}
)


@pytest.fixture(scope="module")
def sample() -> Iterator[Server]:
    with serving(SAMPLES / "cluster") as server:
        yield server


@pytest.fixture(scope="module")
def recorded_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The cluster that the recorded requests came from: its nodes are in the requests."""
    folder = tmp_path_factory.mktemp("cluster")
    nodes: dict[str, Any] = {}
    for body in (RECORDED / "scheduler-nodes").glob("*.json"):
        for item in (json.loads(body.read_bytes()).get("Nodes") or {}).get("items", []):
            nodes[item["metadata"]["name"]] = item
    document = {"kind": "NodeList", "apiVersion": "v1", "items": list(nodes.values())}
    (folder / "nodes.json").write_text(json.dumps(document))
    shutil.copy(RECORDED / "runtimeclasses.yaml", folder)
    with serving(folder) as server:
        yield server


def texts(answer: Any) -> dict[str, int]:
    return dict(Counter(answer["FailedAndUnresolvableNodes"].values()))


@pytest.mark.parametrize("body", recorded("scheduler-names", "filter"))
def test_recorded_requests_with_names_are_answered(recorded_cluster: Server, body: bytes) -> None:
    answer: Any = recorded_cluster.post("/filter", body)
    asked = json.loads(body)
    refused = answer["FailedAndUnresolvableNodes"]
    assert answer["Nodes"] is None
    assert answer["NodeNames"] == [n for n in asked["NodeNames"] if n not in refused]
    if asked["Pod"]["spec"].get("runtimeClassName") == "gvisor":
        assert answer["NodeNames"] == ["node-000000", "node-000001", "node-000002"]
        assert texts(answer) == {
            'nodes don\'t match RuntimeClass "gvisor" (nodeSelector sandbox.example/gvisor=true)': 6
        }
    else:
        assert not refused


@pytest.mark.parametrize("body", recorded("scheduler-nodes", "filter"))
def test_recorded_requests_with_nodes_give_items_back_byte_for_byte(
    recorded_cluster: Server, body: bytes
) -> None:
    status, raw, _ = recorded_cluster.request("POST", "/filter", body)
    assert status == 200
    answer, asked = json.loads(raw), json.loads(body)
    refused = answer["FailedAndUnresolvableNodes"]
    names = [item["metadata"]["name"] for item in asked["Nodes"]["items"]]
    passing = [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
    assert answer["NodeNames"] is None
    assert passing == [name for name in names if name not in refused]
    assert passing
    for item in asked["Nodes"]["items"]:
        # Go writes compact JSON in the order of the struct, as json.dumps does here.
        raw_item = json.dumps(item, separators=(",", ":"), ensure_ascii=False).encode()
        assert raw_item in body
        assert (raw_item in raw) is (item["metadata"]["name"] in passing)


EXPECTED = json.loads((ROOT / "tests" / "expected" / "sample_reasons.json").read_text())


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_reason_comes_out_of_the_sample_cluster(sample: Server, name: str) -> None:
    answer: Any = sample.post("/filter", (REQUESTS / f"{name}.json").read_bytes())
    assert texts(answer) == EXPECTED[name]


def test_strict_refuses_nodes_that_report_no_handlers() -> None:
    with serving(SAMPLES / "cluster", flags=("--handler-check", "strict")) as server:
        answer: Any = server.post("/filter", (REQUESTS / "strict.json").read_bytes())
    reason = answer["FailedAndUnresolvableNodes"]["general-3"]
    assert reason == 'nodes don\'t match RuntimeClass "runc" (runtime handlers not reported)'


@pytest.mark.parametrize(
    ("body", "place"),
    [
        pytest.param(b"", "body: empty", id="empty body"),
        pytest.param(b"{", "not JSON", id="truncated"),
        pytest.param(b'{"Pod":{},"NodeNames":[]} x', "not JSON", id="trailing data"),
        pytest.param(b"[]", "expected `object`", id="a list"),
        pytest.param(b'{"NodeNames":["a"]}', "Pod", id="no Pod"),
        pytest.param(b'{"Pod":null,"NodeNames":["a"]}', "Pod", id="Pod null"),
        pytest.param(b'{"Pod":{}}', "NodeNames, Nodes", id="both lists missing"),
        pytest.param(b'{"Pod":{},"Nodes":[]}', "Nodes", id="Nodes is a list"),
        pytest.param(b'{"Pod":{},"NodeNames":["a",1]}', "NodeNames[1]", id="a number as name"),
        pytest.param(
            b'{"Pod":{"metadata":{"labels":{"a":1}}},"NodeNames":[]}',
            "Pod.metadata.labels",
            id="a label of a pod",
        ),
        pytest.param(
            b'{"Pod":{},"Nodes":{"items":[{},{"spec":{"taints":{}}}]}}',
            "Nodes.items[1].spec.taints",
            id="taints of a node",
        ),
        pytest.param(b'{"Pod":{},"NodeNames":["\x01"]}', "not JSON", id="control character"),
        pytest.param(b'{"Pod":{},"Nodes":null,"NodeNames":["a\xff"]}', "not JSON", id="not UTF-8"),
        pytest.param(b"[" * 100_000, "", id="nested deeply"),
    ],
)
def test_a_body_that_cannot_be_read_is_a_400_that_names_the_place(
    sample: Server, body: bytes, place: str
) -> None:
    status, answer, headers = sample.request("POST", "/filter", body)
    assert status == 400
    assert headers["Content-Type"] == "application/json"
    document = json.loads(answer)
    assert list(document) == ["error"]
    assert place in document["error"]
    assert "\n" not in document["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("POST", "//filter", 404),
        ("POST", "/filter/", 404),
        ("GET", "/filter", 405),
        ("POST", "/readyz", 405),
    ],
)
def test_unknown_paths_and_methods_are_told_in_json(
    sample: Server, method: str, path: str, status: int
) -> None:
    got, body, headers = sample.request(method, path, b"{}" if method == "POST" else None)
    assert got == status
    assert "Location" not in headers
    assert list(json.loads(body)) == ["error"]


def test_a_compressed_body_is_a_415(sample: Server) -> None:
    connection = sample.connect()
    with closing(connection):
        connection.request("POST", "/filter", b"{}", {"Content-Encoding": "gzip"})
        response = connection.getresponse()
        assert response.status == 415
        assert "gzip" in json.loads(response.read())["error"]


def test_a_body_over_the_limit_is_a_413_that_names_the_limit() -> None:
    with serving(SAMPLES / "cluster", flags=("--max-body-bytes", "1000")) as server:
        status, body, _ = server.request("POST", "/filter", b" " * 1001)
        assert status == 413
        assert "1000" in json.loads(body)["error"]
        assert server.request("GET", "/readyz")[0] == 200


def test_slow_and_silent_clients_keep_nobody_waiting(sample: Server) -> None:
    body = (REQUESTS / "no-class.json").read_bytes()
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    beginnings = [b"", b"POST /fil", head, head + b'{"Pod":']
    hostile = [socket.create_connection(sample.address) for _ in range(16)]
    for index, connection in enumerate(hostile):
        connection.sendall(beginnings[index % len(beginnings)])
    try:
        for _ in range(20):
            with closing(sample.connect(timeout=2)) as client:
                client.request("POST", "/filter", body)
                assert client.getresponse().read()
                client.request("GET", "/livez")
                assert client.getresponse().status == 200
    finally:
        for each in hostile:
            each.close()


def _write(folder: Path, node: str) -> None:
    """One node as a manifest, replaced at once as editors and kubelets do."""
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    fresh = folder / ".new"
    fresh.write_text(json.dumps(document))
    fresh.rename(folder / "nodes.json")


def test_edited_manifests_switch_answers_once_and_fail_no_request(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "cluster" / "runtimeclasses.yaml", tmp_path)
    _write(tmp_path, "one")
    body = json.dumps(
        {"Pod": {"spec": {"runtimeClassName": "runc"}}, "NodeNames": ["one", "two"]}
    ).encode()
    answers: list[tuple[int, str]] = []
    stopping = threading.Event()

    def ask(server: Server) -> None:
        with closing(server.connect()) as connection:
            while not stopping.is_set():
                connection.request("POST", "/filter", body)
                response = connection.getresponse()
                answers.append((response.status, str(orjson.loads(response.read())["NodeNames"])))

    with serving(tmp_path) as server:
        client = threading.Thread(target=ask, args=[server])
        client.start()
        until(lambda: len(answers) > 500)
        _write(tmp_path, "two")
        until(lambda: answers[-1][1] == "['two']")
        (tmp_path / "runtimeclasses.yaml").write_text("kind: [")
        server.wait_for_line("manifests not reloaded")
        _, verbose, _ = server.request("GET", "/readyz?verbose")
        so_far = len(answers)
        until(lambda: len(answers) > so_far + 500)
        stopping.set()
        client.join()
    assert b"[+]manifests stale: last reload failed" in verbose
    assert b"runtimeclasses.yaml" in verbose
    assert {status for status, _ in answers} == {200}
    said = [text for _, text in answers]
    switched = said.index("['two']")
    assert said == ["['one']"] * switched + ["['two']"] * (len(said) - switched)
    assert len(answers) > 1000


def children_of(server: Server) -> str:
    pid = server.process.pid
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def aliases(first: str, level: Callable[[str], str]) -> str:
    """Lines of which each holds the one before nine times."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{n}: &a{n} {level(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            b"kind: Pod\nmetadata: {name: p}\n" + aliases("[x]", "[{}]".format).encode(),
            b"one object comes to more than",
            id="aliases of aliases in a Pod",
        ),
        pytest.param(
            b"kind: List\n"
            + aliases("{kind: List, items: []}", "{{kind: List, items: [{}]}}".format).encode(),
            b"one object comes to more than",
            id="Lists that alias Lists",
        ),
        pytest.param(
            b'{"kind": "Node", "metadata": {"name": "a\xff"}}', b"not JSON", id="no UTF-8"
        ),
    ],
)
def test_a_hostile_edit_is_told_and_ends_no_worker(
    tmp_path: Path, text: bytes, said: bytes
) -> None:
    for name in ("nodes.yaml", "runtimeclasses.yaml"):
        (tmp_path / name).write_bytes((SAMPLES / "cluster" / name).read_bytes())
    with serving(tmp_path) as server:
        before = children_of(server)
        (tmp_path / "edit.yaml").write_bytes(text)
        until(lambda: said in server.request("GET", "/readyz?verbose")[1])
        (tmp_path / "edit.yaml").unlink()
        until(lambda: b"[+]manifests ok\n" in server.request("GET", "/readyz?verbose")[1])
        assert children_of(server) == before
    assert server.log.count("ERROR") == 1
    assert "Traceback" not in server.log


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["serve", "--frobnicate"], "--frobnicate", id="unknown flag"),
        pytest.param(["serve", "--threads", "many"], "--threads", id="no number"),
        pytest.param(["serve", "--bind", "nowhere"], "HOST:PORT", id="no port"),
        pytest.param(["serve", "--manifests", "/none"], "/none: No such file", id="missing file"),
        pytest.param(
            ["serve", "--manifests", "bad.yaml"],
            "bad.yaml: line 2, column 1: invalid YAML",
            id="invalid YAML",
        ),
        pytest.param(
            ["serve", "--manifests", "class.yaml"],
            'RuntimeClass "Kata": metadata.name: Invalid value',
            id="invalid RuntimeClass",
        ),
        pytest.param(
            ["serve", "--manifests", "node.yaml"],
            'Node "a": metadata.labels[...]: expected `str`, got `bool`',
            id="label of a wrong type",
        ),
        pytest.param(["frob"], "unknown command", id="unknown command"),
        pytest.param(
            ["serve", "--manifests", "good.yaml", "--tls-cert-file", "x"],
            "go together",
            id="certificate without key",
        ),
    ],
)
def test_what_a_person_can_mend_is_told_in_one_line(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "bad.yaml").write_text("kind: [")
    (tmp_path / "good.yaml").write_text("")
    (tmp_path / "class.yaml").write_text(
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: Kata}\nhandler: kata\n"
    )
    (tmp_path / "node.yaml").write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {b: true}}\n"
    )
    here = [str(tmp_path / word) if word.endswith(".yaml") else word for word in arguments]
    result = run(*here)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def test_a_port_in_use_is_told_in_one_line(sample: Server) -> None:
    host, port = sample.address
    result = run("serve", "--manifests", str(SAMPLES / "cluster"), "--bind", f"{host}:{port}")
    assert result.returncode == 2
    assert "Address already in use" in result.stderr
    assert result.stderr.count("\n") == 1


def test_flags_come_from_the_environment_too() -> None:
    result = run("serve", env={"RUNTIMECLASS_EXTENDER_SERVE_THREADS": "none"})
    assert result.returncode == 2
    assert "RUNTIMECLASS_EXTENDER_SERVE_THREADS" in result.stderr


def test_a_stopping_server_finishes_requests_and_waits_for_nobody_idle() -> None:
    with running(
        "serve", "--bind", "127.0.0.1:0", "--manifests", str(SAMPLES / "cluster")
    ) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        idle = [socket.create_connection(server.address) for _ in range(20)]
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(3) == 0
        for connection in idle:
            connection.close()


def test_probes_and_metrics_move_to_the_ops_listener() -> None:
    with serving(SAMPLES / "cluster", flags=("--ops-bind", "127.0.0.1:0")) as server:
        assert server.request("GET", "/metrics")[0] == 404
        match = server.wait_for_line(r"probes and metrics on http://127\.0\.0\.1:(\d+)")
        with socket.create_connection(("127.0.0.1", int(match[1])), timeout=5) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert b"200 OK" in answer
        assert b"runtimeclass_extender_cache_objects" in answer


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/preempt", MANY_VICTIMS, id="150,000 candidates"),
        pytest.param("/explain?nodes=all", MANY_NAMES, id="a page about 150,000 names"),
    ],
)
def test_what_takes_long_delays_nobody(sample: Server, path: str, body: bytes) -> None:
    """A probe and a small filter that come later are answered before it."""
    small = b'{"Pod":{"spec":{"runtimeClassName":"kata"}},"Nodes":null,"NodeNames":["kata-1"]}'
    long, short = sample.connect(), sample.connect()
    with closing(long), closing(short):
        short.request("GET", "/livez")
        assert short.getresponse().read() == b"ok"
        long.request("POST", path, body)
        for method, asked, sent in [("GET", "/livez", None), ("POST", "/filter", small)] * 3:
            short.request(method, asked, sent)
            assert short.getresponse().read()
            assert not select.select([long.sock], [], [], 0)[0], "it did not take long"
        assert long.getresponse().status == 200


@pytest.mark.parametrize("line", ["listening on", " INFO serving "])
def test_a_stop_at_any_time_is_heeded(line: str) -> None:
    """A signal that comes while the worker still reads its manifests is not lost."""
    flags = ("--bind", "127.0.0.1:0", "--manifests", str(SAMPLES / "cluster"))
    for _ in range(5):
        with running("serve", *flags) as server:
            server.wait_for_line(line)
            # Before it has handlers of its own it ends by the signal.
            assert server.stop() in ((0, -signal.SIGTERM) if line == "listening on" else (0,))


#: The worker asks its parent to stop, and itself too, before it has handlers for signals.
STOPPED_AT_ITS_FORK = """
import os, select, signal, sys
from extender.cli import main

def stop():
    os.kill(os.getppid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    select.select([], [], [], 0.5)  # until the parent has asked it, too

os.register_at_fork(after_in_child=stop)
sys.exit(main(sys.argv[1:]))
"""


def test_a_stop_while_the_worker_is_forked_is_heeded() -> None:
    command = [sys.executable, "-c", STOPPED_AT_ITS_FORK, "serve", "--bind", "127.0.0.1:0"]
    result = subprocess.run(
        [*command, "--manifests", str(SAMPLES / "cluster")],
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
        cwd=ROOT,
    )
    assert (result.returncode, "Traceback" in result.stderr) == (0, False)


#: A signal while the command's modules are imported, which takes a second.
INTERRUPTED = """
import os, signal, sys
from extender.cli import main

class Interrupting:
    def find_spec(self, name, *_):
        if name == sys.argv[2]:
            os.kill(os.getpid(), signal.Signals[sys.argv[1]])

sys.meta_path.insert(0, Interrupting())
sys.exit(main(sys.argv[3:]))
"""

#: A command's process becomes the first one, as in a container.
FIRST_PROCESS = ("unshare", "--user", "--map-root-user", "--pid", "--fork")


def _interrupted(number: signal.Signals, module: str, *before: str) -> tuple[int, bytes]:
    """The exit code, and what was said."""
    program = [*before, sys.executable, "-c", INTERRUPTED, number.name, module]
    command = [*program, "serve", "--bind", "127.0.0.1:0", "--manifests", "no-such-file"]
    before_it = signal.signal(signal.SIGINT, signal.SIG_DFL)  # it is ignored in background jobs
    try:
        result = subprocess.run(command, capture_output=True, timeout=30, check=False, cwd=ROOT)
    finally:
        signal.signal(signal.SIGINT, before_it)
    return result.returncode, result.stderr


@pytest.mark.parametrize("module", ["extender.commands.listening", "urllib3", "flask"])
def test_ctrl_c_while_modules_are_imported_ends_it_silently(module: str) -> None:
    assert _interrupted(signal.SIGINT, module) == (130, b"")


@pytest.mark.skipif(
    shutil.which(FIRST_PROCESS[0]) is None
    or subprocess.run([*FIRST_PROCESS, "true"], capture_output=True, check=False).returncode != 0,
    reason="no namespaces of one's own",
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_first_process_of_a_container_ends_while_it_starts(
    number: signal.Signals, code: int
) -> None:
    """The kernel gives it no signal that it has no handler for."""
    assert _interrupted(number, "flask", *FIRST_PROCESS) == (code, b"")


@pytest.mark.parametrize(
    ("bind", "every", "warned"),
    [
        pytest.param("127.0.0.1:0", False, False, id="loopback"),
        pytest.param("0.0.0.0:0", True, True, id="all addresses"),
        pytest.param("[::]:0", True, True, id="all addresses, IPv6"),
    ],
)
def test_listening_beyond_this_machine_without_tls_is_said_and_warned_of(
    bind: str, every: bool, warned: bool
) -> None:
    with running("serve", "--bind", bind, "--manifests", str(SAMPLES / "cluster")) as server:
        line = server.wait_for_line("listening on")
        assert (" and all other addresses (Ctrl-C stops)" in line.string) is every
        assert server.request("GET", "/livez")[1] == b"ok"
        assert (f"WARNING --bind {bind} without TLS: " in server.log) is warned


def test_a_log_that_nobody_reads_delays_no_verb() -> None:
    """stderr is a pipe that is full after some hundred lines."""
    command = [sys.executable, "-m", "extender", "serve", "-v", "--bind", "127.0.0.1:0"]
    command += ["--manifests", str(SAMPLES / "cluster")]
    body = b'{"Pod":{"spec":{"runtimeClassName":"kata"}},"Nodes":null,"NodeNames":["general-1"]}'
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stderr is not None
        try:
            match = re.search(rb"listening on http://127.0.0.1:(\d+)", process.stderr.readline())
            assert match
            connection = http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=20)
            with closing(connection):
                for _ in range(3000):
                    connection.request("POST", "/filter", body)
                    answer = connection.getresponse()
                    assert answer.status == 200
                    assert b"general-1" in answer.read()
            process.terminate()
            assert process.wait(10) == 0, "the stop waited for the log"
        finally:
            process.kill()


def test_silent_connections_on_the_ops_listener_delay_no_probe() -> None:
    flags = ("--bind", "127.0.0.1:0", "--ops-bind", "127.0.0.1:0")
    with running("serve", *flags, "--manifests", str(SAMPLES / "cluster")) as server:
        match = server.wait_for_line(r"probes and metrics on http://127\.0\.0\.1:(\d+)")
        with ExitStack() as stack:
            for _ in range(200):
                silent = socket.create_connection(("127.0.0.1", int(match[1])), timeout=5)
                stack.enter_context(silent)
            connection = http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=5)
            with closing(connection):
                connection.request("GET", "/livez")
                assert connection.getresponse().read() == b"ok"


def test_headers_of_a_forwarder_are_not_trusted(sample: Server) -> None:
    connection = sample.connect()
    with closing(connection):
        for path, prefix, status in (
            ("/runtimeclasses", "/runtimeclasses", 200),
            ("//filter", "/", 404),
            ("/nodes/kata-1", "/foo", 200),
        ):
            headers = {"SCRIPT_NAME": prefix, "Script-Name": prefix, "X-Forwarded-Prefix": prefix}
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == status, answer.read()
            answer.read()


def test_metrics_are_told_whatever_is_accepted(sample: Server) -> None:
    connection = sample.connect()
    with closing(connection):
        for accept in ("application/openmetrics-text; version=x", "\xff", "*/*;q=x"):
            connection.request("GET", "/metrics", headers={"Accept": accept})
            answer = connection.getresponse()
            assert answer.status == 200
            assert b"runtimeclass_extender_build_info" in answer.read()


def test_a_trailer_is_no_header(sample: Server) -> None:
    body = b'{"Pod":{},"NodeNames":["a"]}'
    chunks = b"%x\r\n%b\r\n0\r\nContent-Encoding: gzip\r\n\r\n" % (len(body), body)
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(sample.address, timeout=5) as client:
        client.sendall(head + chunks)
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
