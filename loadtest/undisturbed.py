"""What a server does, told apart from what the machine does: who waits for a processor, how long.

On a machine with few processors a client that measures, the server and all other clients take
turns. The kernel counts the time that a thread was ready to run and did not (/proc/PID/schedstat),
so that it can be subtracted, request by request.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

#: Real-time priorities, all of which come before ordinary processes: of a server's threads beside
#: its event loop, of the loop, and of who measures.
_BESIDE: Final = 1
_LOOP: Final = 2
_MEASURING: Final = 3


def _first(thread: int, policy: int, priority: int) -> bool:
    """Give a thread a real-time priority, which its children don't inherit, if that is allowed."""
    try:
        os.sched_setscheduler(thread, policy | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def first_in_line(server: int) -> Iterator[bool]:
    """Have this thread and a server's run before all other processes; yields whether they may.

    server is a process id. Its event loop, the main thread, comes before its other threads, which
    take turns; threads that it starts later are ordinary ones.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    is_first = _first(0, os.SCHED_FIFO, _MEASURING)
    for task in map(int, os.listdir(f"/proc/{server}/task")):
        if task == server:
            is_first &= _first(task, os.SCHED_FIFO, _LOOP)
        else:
            _first(task, os.SCHED_RR, _BESIDE)
    try:
        yield is_first
    finally:
        os.sched_setscheduler(0, policy, parameters)


@dataclass(frozen=True, slots=True)
class Moment:
    """Nanoseconds since a process began.

    waited: the time that its main thread was ready to run and did not. ran: the processor time of
    that thread. all_ran: that of all threads.
    """

    waited: int
    ran: int
    all_ran: int

    def kept_waiting(self, after: "Moment") -> int:
        """How long others have kept the main thread from running until then.

        Not counted is what it waited for threads of its own process, which may share its processor.
        """
        others = (after.all_ran - self.all_ran) - (after.ran - self.ran)
        return max(0, after.waited - self.waited - max(0, others))


class Observed:
    """The main thread of a process, read quickly: a few microseconds."""

    def __init__(self, pid: int) -> None:
        self._schedstat = os.open(f"/proc/{pid}/task/{pid}/schedstat", os.O_RDONLY)
        # clock_getcpuclockid(3): the processor time of another process.
        self._clock = (~pid << 3) | 2

    def __enter__(self) -> "Observed":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._schedstat)

    def now(self) -> Moment:
        """Raises OSError once the process is gone."""
        ran, waited, _ = os.pread(self._schedstat, 100, 0).split()
        return Moment(int(waited), int(ran), time.clock_gettime_ns(self._clock))
