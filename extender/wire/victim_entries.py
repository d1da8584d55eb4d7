"""The victims of a preemption as Go writes them: found, dropped and answered without being decoded.

Only what encoding/json makes of kube-scheduler's map[string]*MetaVictims is recognised
(k8s.io/kube-scheduler/extender/v1 types.go, v1.36.2), and of that plain strings in the order of
their names:

    "name":{"Pods":[{"UID":"uid"},{"UID":"uid"}],"NumPDBViolations":0},"name":{...}

A name stands there once, then, nothing is null, and each entry is what it would be decoded to and
encoded again.
"""

from dataclasses import dataclass, field
from typing import Final

from extender.names import NameRun, engine

#: Bytes of each entry's end in `ends`.
_END_SIZE: Final = 4


@dataclass(frozen=True, slots=True)
class VictimEntries:
    """Some entries, joined by commas, that begin at body[start].

    joined has their names joined as in a run; ends has where each entry ends, counted from start.
    """

    body: bytes
    start: int
    joined: bytes = field(repr=False)
    ends: bytes = field(repr=False)

    @classmethod
    def read(cls, body: bytes, start: int, end: int, most: int) -> "VictimEntries | None":
        """The entries at body[start:end]; None unless all of it is, and at most so many.

        None also without the compiled part: in Python it is quicker to decode them.
        """
        found = engine().find_victims(body, start, end, most)
        return None if found is None else cls(body, start, *found)

    @property
    def count(self) -> int:
        return len(self.ends) // _END_SIZE

    @property
    def names(self) -> NameRun:
        return NameRun.known(self.joined, 0, len(self.joined), self.count)

    def kept(self, flags: bytes) -> bytes:
        """The entries whose flag is not 0, byte for byte, joined by commas."""
        return engine().keep_entries(self.body, self.start, self.ends, flags)
