"""The load test's hostile clients: the service reacts as they expect, and they would notice."""

import random
import socket
import threading
from collections.abc import Iterator

import pytest

from loadtest.hostile import QUICK, Attack, Target, UnexpectedError, malformed_body, over_the_limit
from tests.processes import SAMPLES, serving

LIMIT = 1_000_000


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    flags = ("--max-body-bytes", str(LIMIT))
    with serving(SAMPLES / "cluster", flags=flags) as server:
        yield Target(server.address, LIMIT)


@pytest.mark.parametrize("attack", QUICK, ids=lambda attack: attack.__name__)
def test_the_service_reacts_as_it_must(target: Target, attack: Attack) -> None:
    rng = random.Random(1)
    for _ in range(40):
        attack(target, rng)


@pytest.mark.parametrize("attack", [malformed_body, over_the_limit])
@pytest.mark.parametrize("answer", [b"HTTP/1.1 500 Oops\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b""])
def test_a_wrong_reaction_is_noticed(attack: Attack, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer_once, args=(listener, answer))
        thread.start()
        with pytest.raises(UnexpectedError):
            attack(Target(listener.getsockname(), LIMIT), random.Random(1))
        thread.join()


def answer_once(listener: socket.socket, answer: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1024)
        connection.sendall(answer)
