"""What is asked of the servers: verb, mode, nodes, and bodies that are never twice the same."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from loadtest.bodies import meta_victims, names_body, nodes_body, pod, preempt_body, review_body
from loadtest.generator import HALF_CLASS, Cluster, Json, go_json

NAMES: Final = "names"
NODES: Final = "whole nodes"
REVIEW: Final = "review"
HALF: Final = "half refused"
NO_CLASS: Final = "no class"

SIZES: Final = (10, 500, 5_000, 65_000)
_CANDIDATES: Final = 1_000
_WHOLE: Final = 1_000

#: As multiples of the floor's time (p50), by the number of names.
FLOOR_LIMITS: Final = {10: 2.2, 500: 2.2, 5_000: 2.2, 65_000: 3.0}

#: Shuffling more names than these takes longer than asking: some orders are prepared instead.
_SHUFFLED: Final = 5_000
_ORDERS: Final = 16

Bodies = Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table, with the limits that the project has set itself."""

    verb: str
    mode: str
    kind: str
    nodes: int

    @property
    def floor_limit(self) -> float | None:
        """Of the time, as a multiple of the floor's."""
        if self.mode == NAMES and self.verb in ("filter", "prioritize"):
            return FLOOR_LIMITS.get(self.nodes)
        return None

    @property
    def runtime_class(self) -> str:
        return HALF_CLASS if self.kind == HALF else ""

    def __str__(self) -> str:
        return f"{self.verb}, {self.kind}, {self.nodes:,} {self.mode}"


class Asker:
    """Makes the bodies of a case; nodes are taken from the first ones of the cluster.

    The first n nodes have all shapes and are half of them fit for HALF_CLASS, as all are.
    """

    def __init__(self, cluster: Cluster, seed: int = 1) -> None:
        self._cluster = cluster
        self._rng = random.Random(seed)
        self._serial = 0

    def bodies(self, case: Case) -> Bodies:
        """Endless; each of another pod, and with the nodes in another order."""
        make = self._maker(case)
        while True:
            self._serial += 1
            yield make(pod(self._serial, case.runtime_class))

    def _maker(self, case: Case) -> Callable[[Json], bytes]:
        if case.mode == REVIEW:
            return review_body
        names = self._cluster.names[: case.nodes]
        if case.verb == "preempt":
            make = self._preempt_maker(names)
        elif case.mode == NODES:
            make = self._nodes_maker(case.nodes)
        else:
            make = self._names_maker(names)
        return lambda pod: make(go_json(pod))

    def _names_maker(self, names: list[str]) -> Callable[[bytes], bytes]:
        if len(names) <= _SHUFFLED:
            return lambda pod: names_body(pod, self._rng.sample(names, len(names)))
        orders = [self._rng.sample(names, len(names)) for _ in range(_ORDERS)]
        return lambda pod: names_body(pod, self._rng.choice(orders))

    def _nodes_maker(self, count: int) -> Callable[[bytes], bytes]:
        nodes = [go_json(self._cluster.node(index, fat=True)) for index in range(count)]
        return lambda pod: nodes_body(pod, self._rng.sample(nodes, count))

    def _preempt_maker(self, names: list[str]) -> Callable[[bytes], bytes]:
        # Go sorts a map's keys, so it is the victims that change places.
        names = sorted(names)
        victims = [meta_victims(serial) for serial in range(len(names))]

        def make(pod: bytes) -> bytes:
            turn = self._rng.randrange(len(names))
            return preempt_body(pod, names, victims[turn:] + victims[:turn])

        return make


def cases(sizes: Sequence[int]) -> list[Case]:
    """What the service is asked."""
    found = [
        Case(verb, NAMES, kind, size)
        for verb in ("filter", "prioritize")
        for kind in (HALF, NO_CLASS)
        for size in sizes
    ]
    return [
        *found,
        Case("preempt", NAMES, HALF, _CANDIDATES),
        Case("filter", NODES, HALF, _WHOLE),
    ]


#: What the webhook is asked.
REVIEWS: Final = (Case("mutate", REVIEW, HALF, 1), Case("validate", REVIEW, NO_CLASS, 1))
