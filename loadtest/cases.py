"""What is asked of the servers: verb, mode, nodes, and bodies that are never twice the same."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from loadtest.bodies import meta_victims, names_body, nodes_body, pod, preempt_body
from loadtest.generator import HALF_CLASS, Cluster, go_json

VERBS: Final = ("filter", "prioritize", "preempt")
NAMES: Final = "names"
NODES: Final = "nodes"
HALF: Final = "half refused"
NO_CLASS: Final = "no class"

Bodies = Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the tables, with the limits that the project has set itself."""

    verb: str
    mode: str
    kind: str
    nodes: int

    @property
    def limit(self) -> float | None:
        """Of the time, as a ratio to the floor's."""
        if self.mode == NODES:
            return 2.5 if self.nodes == 1_000 else None
        if self.verb == "preempt":
            return 3.0 if self.nodes == 1_000 else None
        if self.kind == NO_CLASS:
            return 1.5
        return {10: 2.0, 500: 2.0, 5_000: 2.2, 65_000: 2.2, 150_000: 2.2}.get(self.nodes)

    @property
    def processor_limit(self) -> float | None:
        """Of the service's processor time a request, in milliseconds."""
        if self.mode == NODES or self.verb == "preempt":
            return None
        return {10: 0.12, 500: 0.18}.get(self.nodes)

    @property
    def switches_limit(self) -> float | None:
        """Of the service's context switches a request: to wait for the next one is one."""
        return 1.0 if self.processor_limit else None

    @property
    def runtime_class(self) -> str:
        return HALF_CLASS if self.kind == HALF else ""

    def __str__(self) -> str:
        return f"{self.verb}, {self.mode}, {self.kind}, {self.nodes:,} nodes"


class Asker:
    """Makes the bodies of a case; nodes are taken from the first ones of the cluster.

    The first n nodes have all shapes and are half of them fit for HALF_CLASS, as all are.
    """

    def __init__(self, cluster: Cluster, seed: int = 1) -> None:
        self._cluster = cluster
        self._rng = random.Random(seed)
        self._serial = 0
        self._fat: list[bytes] = []

    def bodies(self, case: Case) -> Bodies:
        """Endless; each of another pod, and with the nodes in another order."""
        make = self._maker(case)
        while True:
            self._serial += 1
            yield make(go_json(pod(self._serial, case.runtime_class)))

    def _maker(self, case: Case) -> Callable[[bytes], bytes]:
        names = self._cluster.names[: case.nodes]
        if case.verb == "preempt":
            return self._preempt_maker(names)
        if case.mode == NODES:
            nodes = self._fat_nodes(case.nodes)

            def of_nodes(pod: bytes) -> bytes:
                self._rng.shuffle(nodes)
                return nodes_body(pod, nodes)

            return of_nodes

        def of_names(pod: bytes) -> bytes:
            self._rng.shuffle(names)
            return names_body(pod, names)

        return of_names

    def _preempt_maker(self, names: list[str]) -> Callable[[bytes], bytes]:
        # Go sorts a map's keys, so it is the victims that change places.
        names = sorted(names)
        victims = [meta_victims(serial) for serial in range(len(names))]

        def of_victims(pod: bytes) -> bytes:
            turn = self._rng.randrange(len(names))
            return preempt_body(pod, names, victims[turn:] + victims[:turn])

        return of_victims

    def _fat_nodes(self, count: int) -> list[bytes]:
        while len(self._fat) < count:
            self._fat.append(go_json(self._cluster.node(len(self._fat), fat=True)))
        return self._fat[:count]


def cases(sizes: list[int], nodes_sizes: list[int], verbs: tuple[str, ...]) -> list[Case]:
    """Names first, then whole nodes; preempt carries no nodes, so it has one mode only."""
    found = [
        Case(verb, NAMES, kind, size)
        for verb in verbs
        for kind in (HALF, NO_CLASS)
        for size in sizes
    ]
    found += [
        Case(verb, NODES, HALF, size) for verb in verbs if verb != "preempt" for size in nodes_sizes
    ]
    return found
