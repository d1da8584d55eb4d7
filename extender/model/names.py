"""Looks up and sorts all node names of a request at once.

A name is the content of a JSON string, as bytes. A run of names is the text between the first and
the last quote of a JSON array: `a","b","c`. No name becomes a str. The compiled part (`_names.c`,
built where there is a C compiler) creates no Python object per name.
RUNTIMECLASS_EXTENDER_PURE_PYTHON=1 switches the compiled part off.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, compress
from typing import TYPE_CHECKING, Final, NewType

import orjson
from msgspec import Struct

if TYPE_CHECKING:
    from extender.model import _names as compiled
else:
    try:
        from extender.model import _names as compiled
    except ImportError:
        compiled = None

#: Whether the compiled part is in use.
IS_COMPILED = compiled is not None and not os.environ.get("RUNTIMECLASS_EXTENDER_PURE_PYTHON")

#: The id of a node shape (rules.node_shape) in a cluster, from 1.
ShapeId = NewType("ShapeId", int)

#: The shape id of a name that an index lacks.
UNKNOWN: Final = ShapeId(0)

SEPARATOR: Final = b'","'

_IS_FIRST: Final = bytes([1]).ljust(256, b"\0")

#: The bytes that each position takes in `NameRun.ends`.
_END_SIZE: Final = 4

#: All characters of a DNS subdomain, and a few more. Without the compiled part, a request with any
#: other character in a name is decoded as JSON, which is slower.
_PLAIN: Final = b"abcdefghijklmnopqrstuvwxyz0123456789.-_ABCDEFGHIJKLMNOPQRSTUVWXYZ"

#: The secret keys of the hash function. Without them, a client that may create nodes could choose
#: thousands of names whose hashes collide.
_KEYS: Final = os.urandom(16)


def text_of(name: bytes) -> str:
    """The name as a str. A manifest's name may be invalid as JSON: it is decoded as UTF-8."""
    if b"\\" in name:
        with contextlib.suppress(orjson.JSONDecodeError):
            text: str = orjson.loads(b'"' + name + b'"')
            return text
    return name.decode("utf-8", "replace")


class NameRun(Struct, dict=True):
    """`count` names joined by SEPARATOR, at buffer[start:end]. A run never changes.

    ends: the position where each name ends, for the compiled part. None: Python handles the run.
    """

    buffer: bytes
    start: int
    end: int
    count: int
    ends: bytes | None = None

    @classmethod
    def read(cls, buffer: bytes, start: int, end: int) -> "NameRun | None":
        """The run between the first and last quote of an array; None if any name is not plain.

        A plain name is ASCII without control characters and escapes: its JSON is the name itself.
        """
        if IS_COMPILED:
            ends = compiled.measure(buffer, start, end)
            return None if ends is None else cls(buffer, start, end, len(ends) // _END_SIZE, ends)
        text = buffer[start:end]
        separators = text.translate(None, _PLAIN)
        joints, rest = divmod(len(separators), len(SEPARATOR))
        if rest or separators != SEPARATOR * joints or text.count(SEPARATOR) != joints:
            return None
        return cls(text, 0, len(text), joints + 1)

    @classmethod
    def of(cls, names: Sequence[bytes]) -> "NameRun":
        joined = SEPARATOR.join(names)
        return cls.known(joined, 0, len(joined), len(names))

    @classmethod
    def known(cls, buffer: bytes, start: int, end: int, count: int) -> "NameRun":
        """A run whose number of names is known. The names may contain escapes."""
        ends = compiled.measure(buffer, start, end) if IS_COMPILED and count else None
        return cls(buffer, start, end, count, ends)

    @property
    def joined(self) -> bytes:
        return self.buffer[self.start : self.end]

    @cached_property
    def names(self) -> list[bytes]:
        return self.joined.split(SEPARATOR) if self.count else []

    def part(
        self, codes: bytes, endings: Sequence[bytes], cut: int = 0, *, keep: bool = True
    ) -> tuple[bytes, bytes]:
        """Two texts: the names of code 0, joined by SEPARATOR; the others, each with an ending.

        A name of code n > 0 is followed by endings[n - 1]. The second text lacks its last `cut`
        bytes. Without `keep` the first text may be empty.
        """
        if self.ends is not None:
            return compiled.part(
                self.buffer, self.start, self.ends, codes, tuple(endings), cut, keep
            )
        first = SEPARATOR.join(compress(self.names, codes.translate(_IS_FIRST)))
        chosen = map((b"", *endings).__getitem__, codes.translate(None, b"\0"))
        others = zip(compress(self.names, codes), chosen, strict=True)
        ended = b"".join(chain.from_iterable(others))
        return first, ended[: max(0, len(ended) - cut)]


def tally(codes: bytes, kinds: int) -> Sequence[int]:
    """The number of occurrences of each code. All codes are below `kinds`."""
    if IS_COMPILED:
        return memoryview(compiled.tally(codes)).cast("Q")[:kinds].tolist()
    return list(map(codes.count, range(kinds)))


class NodeIndex(dict[bytes, ShapeId]):
    """Node name → id of the node's shape, at least 1. The id of a missing name is UNKNOWN.

    Change an index by these methods only: they also update the compiled part's table.
    """

    __slots__ = ("_table",)

    def __init__(self, items: Iterable[tuple[bytes, ShapeId]] = ()) -> None:
        super().__init__(items)
        self._table = compiled.NameTable(_KEYS) if IS_COMPILED else None
        if self._table is not None:
            for name, number in self.items():
                self._table.set(name, number)

    def __missing__(self, name: bytes) -> ShapeId:
        return UNKNOWN

    def copy(self) -> "NodeIndex":
        copied = NodeIndex()
        copied.update(self)
        copied._table = self._table.copy() if self._table is not None else None
        return copied

    def __setitem__(self, name: bytes, number: ShapeId) -> None:
        super().__setitem__(name, number)
        if self._table is not None:
            self._table.set(name, number)

    def forget(self, name: bytes) -> None:
        """Remove a name if the index has it."""
        self.pop(name, None)
        if self._table is not None:
            self._table.discard(name)

    def translate(self, run: NameRun, codes: Sequence[int]) -> Sequence[int]:
        """codes[shape id] for each name of a run; bytes if codes is bytes.

        codes has an entry for every id. codes[UNKNOWN] is the code of missing names.
        """
        if not isinstance(codes, bytes):
            return tuple(map(codes.__getitem__, self.numbers(run.names)))
        if self._table is not None and run.ends is not None:
            return self._table.translate(run.buffer, run.start, run.ends, codes)
        ids = self.numbers(run.names)
        if len(codes) <= 256:
            return bytes(ids).translate(codes.ljust(256, b"\0"))
        return bytes(map(codes.__getitem__, ids))

    def numbers(self, names: Iterable[bytes]) -> Iterable[ShapeId]:
        return map(self.__getitem__, names)
