"""Reading JSON, from several threads at once."""

import sys

from tests.processes import called

#: New Struct types each round: msgspec caches what it knows of a type at its first use.
_ROUNDS = """
import sys, threading
from msgspec import Struct
from extender.kubernetes.decoder import decode

sys.setswitchinterval(1e-6)
BODY = b'{"x": {"a": 1, "c": ["q"]}, "y": [{"a": 3, "b": "z"}]}'

def kinds():
    class Inner(Struct):
        a: int = 0
        b: str = ""
        c: list[str] | None = None
        d: dict[str, str | None] | None = None

    class First(Struct):
        x: Inner | None = None
        y: list[Inner] | None = None

    class Second(Struct):
        y: list[Inner] | None = None
        x: Inner | None = None

    return First, Second

def read(kind, together):
    together.wait()
    assert decode(BODY, kind).x.a == 1

for _ in range(500):
    together = threading.Barrier(4)
    threads = [threading.Thread(target=read, args=(kind, together)) for kind in kinds() * 2]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


def test_threads_that_read_a_kind_for_the_first_time_at_once_do_not_end_the_process() -> None:
    """As the threads that follow nodes and RuntimeClasses do when the service starts."""
    done = called(sys.executable, "-c", _ROUNDS)
    assert (done.returncode, done.stderr) == (0, "")
