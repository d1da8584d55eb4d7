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
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from tests.integration.test_server import worker_of
from tests.processes import ROOT, SAMPLES, Server, called, run, running, serving, until

CLUSTER = SAMPLES / "cluster"

#: The nodes of a cluster much larger than the sample.
NAMES = [f"node-{number:06}" for number in range(150_000)]
KATA_POD = {"metadata": {"name": "p"}, "spec": {"runtimeClassName": "kata"}}
VICTIMS = {"Pods": [{"UID": "448ab719-ba5f-4280-af04-cb884555fa7c"}], "NumPDBViolations": 0}
MANY_NAMES = orjson.dumps({"Pod": KATA_POD, "Nodes": None, "NodeNames": NAMES})
CANDIDATES = dict.fromkeys(NAMES, VICTIMS)
MANY_VICTIMS = orjson.dumps({"Pod": KATA_POD, "NodeNameToMetaVictims": CANDIDATES})


def _write(folder: Path, node: str) -> None:
    """One node as a manifest, replaced at once as editors and kubelets do."""
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    fresh = folder / ".new"
    fresh.write_text(json.dumps(document))
    fresh.rename(folder / "nodes.json")


def test_edited_manifests_switch_answers_once_and_fail_no_request(tmp_path: Path) -> None:
    shutil.copy(CLUSTER / "runtimeclasses.yaml", tmp_path)
    _write(tmp_path, "one")
    pod = {"spec": {"runtimeClassName": "runc"}}
    body = json.dumps({"Pod": pod, "NodeNames": ["one", "two"]}).encode()
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


def test_a_folder_that_was_away_for_a_moment_is_no_longer_told(tmp_path: Path) -> None:
    folder, away = tmp_path / "manifests", tmp_path / "away"
    shutil.copytree(CLUSTER, folder)
    with serving(folder) as server:
        folder.rename(away)
        server.wait_for_line("manifests not reloaded")
        away.rename(folder)
        until(lambda: b"last reload failed" not in server.request("GET", "/readyz?verbose")[1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            b"kind: Pod\nmetadata: {name: p}\na0: &a0 [x]\n"
            + b"".join(b"a%d: &a%d [%b]\n" % (n, n, b"*a%d, " % (n - 1) * 9) for n in range(1, 12)),
            b"aliases stand for more than",
            id="aliases of aliases",
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
        (tmp_path / name).write_bytes((CLUSTER / name).read_bytes())
    with serving(tmp_path) as server:
        before = worker_of(server)
        (tmp_path / "edit.yaml").write_bytes(text)
        until(lambda: said in server.request("GET", "/readyz?verbose")[1])
        (tmp_path / "edit.yaml").unlink()
        until(lambda: b"[+]manifests ok\n" in server.request("GET", "/readyz?verbose")[1])
        assert worker_of(server) == before
    assert server.log.count("ERROR") == 1
    assert "Traceback" not in server.log


def test_an_address_in_use_is_told_in_one_line(sample: Server) -> None:
    where = sample.url.removeprefix("http://")
    result = run("serve", "--bind", where, "--manifests", str(CLUSTER))
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "Address already in use" in result.stderr


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

    def is_overtaken() -> bool:
        long, short = sample.connect(), sample.connect()
        with closing(long), closing(short):
            short.request("GET", "/livez")
            assert short.getresponse().read() == b"ok"
            long.request("POST", path, body)
            for method, asked, sent in [("GET", "/livez", None), ("POST", "/filter", small)] * 3:
                short.request(method, asked, sent)
                assert short.getresponse().read()
            is_first = not select.select([long.sock], [], [], 0)[0]
            assert long.getresponse().status == 200
            return is_first

    # On a busy machine this client itself may be kept waiting for longer than the answer takes.
    assert any(is_overtaken() for _ in range(20))


@pytest.mark.parametrize("line", ["listening on", " INFO serving "])
def test_a_stop_at_any_time_is_heeded(line: str) -> None:
    """A signal that comes while the worker reads its manifests, or before its loop runs."""
    flags = ("--bind", "127.0.0.1:0", "--manifests", str(CLUSTER))
    for _ in range(3):
        with running("serve", *flags) as server:
            server.wait_for_line(line)
            # Before it has signal handlers of its own, the signal ends it.
            assert server.stop() in ((0, -signal.SIGTERM) if line == "listening on" else (0,))
            assert "fileno" not in server.log


#: The worker tells its parent and itself to stop, before it has signal handlers.
STOPPED_AT_ITS_FORK = """
import os, select, signal, sys
from extender.main import main

def stop():
    os.kill(os.getppid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    select.select([], [], [], 0.5)  # until the parent has asked it, too

os.register_at_fork(after_in_child=stop)
sys.exit(main(sys.argv[1:]))
"""


def test_a_stop_while_the_worker_is_forked_is_heeded() -> None:
    command = [sys.executable, "-c", STOPPED_AT_ITS_FORK, "serve", "--bind", "127.0.0.1:0"]
    result = called(*command, "--manifests", CLUSTER)
    assert (result.returncode, "Traceback" in result.stderr) == (0, False)


#: A signal while the command's modules are imported, which takes a second.
INTERRUPTED = """
import os, signal, sys
from extender.main import main

class Interrupting:
    def find_spec(self, name, *_):
        if name == sys.argv[2]:
            os.kill(os.getpid(), signal.Signals[sys.argv[1]])

sys.meta_path.insert(0, Interrupting())
sys.exit(main(sys.argv[3:]))
"""

#: A command's process becomes the first one, as in a container.
FIRST_PROCESS = ("unshare", "--user", "--map-root-user", "--pid", "--fork")


def _interrupted(number: signal.Signals, module: str, *before: str) -> tuple[int, str]:
    """The exit code, and what was said."""
    program = [*before, sys.executable, "-c", INTERRUPTED, number.name, module]
    command = [*program, "serve", "--bind", "127.0.0.1:0", "--manifests", "no-such-file"]
    before_it = signal.signal(signal.SIGINT, signal.SIG_DFL)  # it is ignored in background jobs
    try:
        result = called(*command)
    finally:
        signal.signal(signal.SIGINT, before_it)
    return result.returncode, result.stderr


@pytest.mark.parametrize("module", ["extender.server.serve_command", "urllib3", "flask"])
def test_ctrl_c_while_modules_are_imported_ends_it_silently(module: str) -> None:
    assert _interrupted(signal.SIGINT, module) == (130, "")


@pytest.mark.skipif(
    shutil.which(FIRST_PROCESS[0]) is None or called(*FIRST_PROCESS, "true").returncode != 0,
    reason="no namespaces of one's own",
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_first_process_of_a_container_ends_while_it_starts(
    number: signal.Signals, code: int
) -> None:
    """The kernel hands the first process no signal that it has no handler for."""
    assert _interrupted(number, "flask", *FIRST_PROCESS) == (code, "")


@pytest.mark.parametrize(
    ("bind", "every", "warned"),
    [
        pytest.param("127.0.0.1:0", False, False, id="loopback"),
        pytest.param("0.0.0.0:0", True, True, id="all addresses"),
        pytest.param("[::]:0", True, True, id="all addresses, IPv6"),
        pytest.param(":0", True, True, id="no host"),
    ],
)
def test_listening_beyond_this_machine_without_tls_is_said_and_warned_of(
    bind: str, every: bool, warned: bool
) -> None:
    with running("serve", "--bind", bind, "--manifests", str(CLUSTER)) as server:
        line = server.wait_for_line("listening on")
        assert (" and all other addresses (Ctrl-C stops)" in line.string) is every
        assert server.request("GET", "/livez")[1] == b"ok"
        for host in ("127.0.0.1", "::1") if bind in ("[::]:0", ":0") else ():
            socket.create_connection((host, server.address[1]), 5).close()
        assert (f"WARNING --bind {bind} without TLS: " in server.log) is warned


LONG_LINE = """
import logging, os, select
from extender.server import logs
reader, writer = os.pipe()
os.set_blocking(writer, False)
while select.select([], [writer], [], 0)[1]:
    os.write(writer, bytes(select.PIPE_BUF))
os.read(reader, select.PIPE_BUF)
os.set_blocking(writer, True)
os.dup2(writer, logs.STDERR)
logs.configure("text", 0)
logging.getLogger("extender").error("x" * 10 * select.PIPE_BUF)
print("went on")
"""


def test_a_long_line_waits_for_no_reader_either() -> None:
    command = [sys.executable, "-c", LONG_LINE]
    result = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=20, check=True)
    assert result.stdout == b"went on\n"


def test_a_log_that_nobody_reads_delays_no_verb() -> None:
    """stderr is a pipe that is full after some hundred lines."""
    command = [sys.executable, "-m", "extender", "serve", "-v", "--bind", "127.0.0.1:0"]
    command += ["--manifests", str(CLUSTER)]
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


def test_metrics_are_told_whatever_is_accepted(sample: Server) -> None:
    connection = sample.connect()
    with closing(connection):
        for accept in ("application/openmetrics-text; version=x", "\xff", "*/*;q=x"):
            connection.request("GET", "/metrics", headers={"Accept": accept})
            answer = connection.getresponse()
            assert answer.status == 200
            assert b"runtimeclass_extender_build_info" in answer.read()
