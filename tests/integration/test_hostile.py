"""The load test's hostile clients: the service reacts as they expect, and they would notice."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from loadtest.hostile import QUICK, SLOW, Attack, Target, half_sent
from tests.integration.test_server import CLUSTER, HURRY
from tests.processes import ready

LIMIT = 1_000_000


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with ready("serve", *CLUSTER, "--max-body-bytes", str(LIMIT), constants=HURRY) as server:
        yield Target(server.address, LIMIT)


@pytest.mark.parametrize("attack", QUICK, ids=lambda attack: attack.__name__)
def test_the_service_reacts_as_it_must(target: Target, attack: Attack) -> None:
    rng = random.Random(1)
    for _ in range(40):
        attack(target, rng)


def test_the_service_cuts_off_all_that_is_slow_at_the_same_time(target: Target) -> None:
    """Each kind of half-sent request, twice."""
    attacks = [*SLOW, half_sent, half_sent] * 2
    with ThreadPoolExecutor(len(attacks)) as pool:
        running = [
            pool.submit(attack, target, random.Random(seed)) for seed, attack in enumerate(attacks)
        ]
        for attack in running:
            attack.result()
