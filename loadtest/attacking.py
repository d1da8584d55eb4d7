"""Hostile or slow clients in a process of their own, until its standard input ends.

    python -m loadtest.attacking --host 127.0.0.1:8888 --quick 6 --slow 6 --crowds 1

Threads on bare sockets (loadtest.hostile), each of which attacks again and again. It prints as JSON
how often each attack was made, and what the service did unexpectedly.
"""

import argparse
import contextlib
import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from extender.flags import whole_number
from extender.http.service import DEFAULT_MAX_BODY_BYTES
from loadtest import arguments
from loadtest.hostile import CROWDS, NEED_OPS, QUICK, SLOW, Attack, Target, UnexpectedError
from loadtest.processes import ROOT, Address, ServerError

#: Between two attacks of one client.
_PAUSE_SECONDS: Final = 0.2

#: Slow attacks end when the service cuts them off.
_END_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Attackers:
    """So many clients of each kind; in the order of loadtest.hostile."""

    quick: int = 0
    slow: int = 0
    crowds: int = 0

    def flags(self) -> list[str]:
        return [f"--quick={self.quick}", f"--slow={self.slow}", f"--crowds={self.crowds}"]


@dataclass(frozen=True, slots=True)
class Report:
    """The attacks made, by name; and for those that went wrong one line by name."""

    made: Mapping[str, int]
    unexpected: Mapping[str, str]


@dataclass(slots=True)
class Attacking:
    """What the process does, one thread a client."""

    target: Target
    ending: threading.Event = field(default_factory=threading.Event)
    made: Counter[str] = field(default_factory=Counter)
    unexpected: dict[str, str] = field(default_factory=dict)

    def client(self, attacks: Mapping[Attack, int], seed: int) -> None:
        rng = random.Random(seed)
        possible = {
            attack: often
            for attack, often in attacks.items()
            if self.target.ops_address or attack not in NEED_OPS
        }
        chosen, often = list(possible), list(possible.values())
        # They do not all begin at once.
        self.ending.wait(rng.random() * _PAUSE_SECONDS)
        while not self.ending.is_set():
            (attack,) = rng.choices(chosen, often)
            try:
                attack(self.target, rng)
            except (OSError, UnexpectedError) as error:
                self.unexpected[attack.__name__] = f"{type(error).__name__}: {error}"
            self.made[attack.__name__] += 1
            self.ending.wait(_PAUSE_SECONDS)


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text}: expected HOST:PORT")
    return host, int(port)


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments.parser("attacking", "Attack a service until standard input ends.")
    add = parser.add_argument
    add("--host", type=_address, required=True, metavar="HOST:PORT", help="the service")
    add("--ops-host", type=_address, metavar="HOST:PORT", help="its --ops-bind, if it has one")
    add(
        "--max-body-bytes",
        type=whole_number(1, 2**40),
        default=DEFAULT_MAX_BODY_BYTES,
        metavar="N",
        help="the service's limit",
    )
    for name, what in (("quick", "attacks that are over soon"), ("slow", "slow ones")):
        add(f"--{name}", type=arguments.count, default=0, metavar="N", help=f"clients with {what}")
    add("--crowds", type=arguments.count, default=0, metavar="N", help="crowds of a thousand")
    flags = parser.parse_args(argv)
    work = Attacking(Target(flags.host, flags.max_body_bytes, flags.ops_host))
    clients = [*[QUICK] * flags.quick, *[SLOW] * flags.slow, *[CROWDS] * flags.crowds]
    threads = [
        threading.Thread(target=work.client, args=each, daemon=True)
        for each in zip(clients, range(len(clients)), strict=True)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    work.ending.set()
    for thread in threads:
        thread.join(_END_SECONDS)
    json.dump({"made": work.made, "unexpected": work.unexpected}, sys.stdout)
    return 0


@contextlib.contextmanager
def attacked(target: Target, attackers: Attackers, reports: list[Report]) -> Iterator[None]:
    """Have a service attacked meanwhile; what came of it is added to the reports at the end.

    Raises ServerError when the attackers fail.
    """
    host, port = target.address
    command = [sys.executable, "-m", "loadtest.attacking", "--host", f"{host}:{port}"]
    command += [f"--max-body-bytes={target.max_body_bytes}", *attackers.flags()]
    if target.ops_address:
        command += ["--ops-host", "{}:{}".format(*target.ops_address)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield
            printed, _ = process.communicate(timeout=2 * _END_SECONDS)
        finally:
            process.kill()
    if process.returncode:
        raise ServerError("the attackers failed")
    reports.append(Report(**json.loads(printed)))


if __name__ == "__main__":
    arguments.end(main)
