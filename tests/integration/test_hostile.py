"""The load test's hostile clients: the service reacts as they expect, and they would notice."""

import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from loadtest.hostile import (
    CROWDS,
    QUICK,
    SLOW,
    Attack,
    Target,
    UnexpectedError,
    half_sent,
    malformed_body,
    odd_http,
    over_the_limit,
    silent_crowd,
    silent_ops_crowd,
)
from tests.processes import SAMPLES, serving

LIMIT = 1_000_000


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    flags = ("--max-body-bytes", str(LIMIT), "--ops-bind", "127.0.0.1:0")
    with serving(SAMPLES / "cluster", flags=flags) as server:
        ops = server.wait_for_line(r"probes and metrics on http://(127\.0\.0\.1):(\d+)")
        yield Target(server.address, LIMIT, (ops[1], int(ops[2])))


@pytest.mark.parametrize("attack", QUICK, ids=lambda attack: attack.__name__)
def test_the_service_reacts_as_it_must(target: Target, attack: Attack) -> None:
    rng = random.Random(1)
    for _ in range(40):
        attack(target, rng)


def test_the_service_cuts_off_all_that_is_slow_at_the_same_time(target: Target) -> None:
    """Each kind of half of a request, twice; and a crowd that says nothing."""
    attacks = [*SLOW, half_sent, half_sent, *CROWDS] * 2
    with ThreadPoolExecutor(len(attacks)) as pool:
        running = [
            pool.submit(attack, target, random.Random(seed)) for seed, attack in enumerate(attacks)
        ]
        for attack in running:
            attack.result()


@pytest.mark.parametrize("attack", [malformed_body, over_the_limit, odd_http])
@pytest.mark.parametrize("answer", [b"HTTP/1.1 500 Oops\r\n\r\n", b"HTTP/1.1 201 OK\r\n\r\n", b""])
def test_a_wrong_reaction_is_noticed(attack: Attack, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer_once, args=(listener, answer))
        thread.start()
        with pytest.raises(UnexpectedError):
            attack(Target(listener.getsockname(), LIMIT), random.Random(1))
        thread.join()


@pytest.mark.parametrize("attack", [silent_crowd, silent_ops_crowd])
def test_a_well_behaved_client_that_is_dropped_beside_a_crowd_is_noticed(attack: Attack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=close_all, args=(listener,))
        thread.start()
        address = listener.getsockname()
        with pytest.raises(UnexpectedError, match="answered 0 beside a crowd"):
            attack(Target(address, LIMIT, address), random.Random(1))
        with socket.create_connection(address) as last:
            last.sendall(b"end")
        thread.join()


def close_all(listener: socket.socket) -> None:
    """Whoever asks for something finds the connection closed; the end of it is "end"."""
    listener.settimeout(20)
    received = b""
    while received != b"end":
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(0.01)
            try:
                received = connection.recv(1024)
            except TimeoutError:
                received = b""


def answer_once(listener: socket.socket, answer: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1024)
        connection.sendall(answer)
