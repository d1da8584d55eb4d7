"""The cases of the benchmark: verb, mode, number of nodes, and bodies that never repeat."""

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

#: The limits of p50 as multiples of the floor's p50, by the number of names.
FLOOR_LIMITS: Final = {10: 2.2, 500: 2.2, 5_000: 2.2, 65_000: 3.0}

#: Shuffling more names takes longer than the request: _ORDERS orders are prepared instead.
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
        """The limit of p50 as a multiple of the floor's p50; None without a limit."""
        if self.mode == NAMES and self.verb in ("filter", "prioritize"):
            return FLOOR_LIMITS.get(self.nodes)
        return None

    @property
    def runtime_class(self) -> str:
        return HALF_CLASS if self.kind == HALF else ""

    def __str__(self) -> str:
        return f"{self.verb}, {self.kind}, {self.nodes:,} {self.mode}"


class Asker:
    """Makes the bodies of a case with the first nodes of the cluster.

    Like the whole cluster, the first n nodes have all shapes, and half of them fit HALF_CLASS.
    """

    def __init__(self, cluster: Cluster, seed: int = 1) -> None:
        self._cluster = cluster
        self._rng = random.Random(seed)
        self._serial = 0

    def bodies(self, case: Case) -> Bodies:
        """Bodies without end, each with another pod and another order of the nodes."""
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
        # Go sorts a map's keys, so the victims are rotated instead of the names.
        names = sorted(names)
        victims = [meta_victims(serial) for serial in range(len(names))]

        def make(pod: bytes) -> bytes:
            turn = self._rng.randrange(len(names))
            return preempt_body(pod, names, victims[turn:] + victims[:turn])

        return make


def cases(sizes: Sequence[int]) -> list[Case]:
    """The cases for the service."""
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


#: The cases for the webhook.
REVIEWS: Final = (Case("mutate", REVIEW, HALF, 1), Case("validate", REVIEW, NO_CLASS, 1))
