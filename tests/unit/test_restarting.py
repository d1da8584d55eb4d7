"""The load test's stops and starts, its attackers, and what it takes from the kernel's counts."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadtest.attacking import Attackers, Report, attacked
from loadtest.beside import ALONE, Series, broken_limits
from loadtest.hostile import Target
from loadtest.processes import Server, is_ready, running, serve_command
from loadtest.restarting import Restarts, free_address
from loadtest.undisturbed import Moment, Observed
from tests.processes import SAMPLES, until


def test_a_server_is_stopped_and_started_on_the_same_port(tmp_path: Path) -> None:
    address = free_address()
    command = serve_command(SAMPLES / "cluster", "--bind", "{}:{}".format(*address))
    pids: list[int] = []

    @contextmanager
    def start() -> Iterator[Server]:
        with running(f"service-{len(pids)}", command, tmp_path) as server:
            pids.append(server.process.pid)
            yield server

    with Restarts(start, every=0.1) as restarts:
        until(lambda: len(restarts.down) > 1)
        restarts.end()
        count = len(pids)
        assert restarts.error == ""
        assert restarts.server.address == address
        assert is_ready(address)
    assert len(set(pids)) == count == len(restarts.down) + 1
    assert not is_ready(address)


def test_a_stop_that_fails_is_told(tmp_path: Path) -> None:
    @contextmanager
    def start() -> Iterator[Server]:
        with running("service", serve_command(SAMPLES / "cluster"), tmp_path) as server:
            yield server
            server.process.kill()

    with Restarts(start, every=0.1) as restarts:
        until(lambda: bool(restarts.error))
    assert restarts.error == "a stop ended with exit code -9"


def test_attackers_report_what_they_did_and_what_was_unexpected(tmp_path: Path) -> None:
    reports: list[Report] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = Target(listener.getsockname(), 1_000)
        with attacked(target, Attackers(quick=1), reports):
            connection, _ = listener.accept()
            connection.sendall(b"HTTP/1.1 299 What\r\n\r\n")
            connection.close()
    (report,) = reports
    assert sum(report.made.values()) >= 1
    assert all(name in report.made for name in report.unexpected)


def test_a_p99_that_is_twice_as_long_as_alone_breaks_the_limit() -> None:
    alone = Series(seen=[1.0], own=[1.0])
    beside = {"calm": Series(seen=[9.0], own=[2.0]), "wild": Series(seen=[2.1], own=[2.1])}
    lines = list(broken_limits({ALONE: alone, **beside}, [Report({}, {"silent": "not closed"})]))
    assert lines == ["beside wild: p99 is 2.10x that alone, limit 2x", "silent: not closed"]


def test_a_tail_alone_breaks_the_limit() -> None:
    alone = Series(seen=[1.0, 1.0, 3.1], own=[1.0, 1.0, 3.1])
    assert list(broken_limits({ALONE: alone}, [])) == ["alone: p99 is 3.10x p50, limit 3x"]


def test_what_a_thread_waits_for_its_own_process_is_not_the_machines() -> None:
    before = Moment(waited=100, ran=1_000, all_ran=5_000)
    assert before.kept_waiting(Moment(waited=150, ran=1_010, all_ran=5_010)) == 50
    assert before.kept_waiting(Moment(waited=150, ran=1_010, all_ran=5_040)) == 20
    assert before.kept_waiting(Moment(waited=150, ran=1_010, all_ran=9_000)) == 0


def test_the_kernel_counts_what_a_process_has_run() -> None:
    with Observed(os.getpid()) as observed:
        first = observed.now()
        sum(range(1_000_000))
        then = observed.now()
    assert then.all_ran - first.all_ran > 1_000_000
    assert then.waited >= first.waited
