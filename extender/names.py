"""Node names by the thousand: looked up and sorted a whole request at a time.

Names are the contents of JSON strings, `a","b","c` a run of them: what stands between the first and
the last quote of an array in a request, and again in the answer. None of them becomes a str.

The compiled part (`_names.c` and `_victims.c`, built where there is a C compiler) goes through the
run without making an object for each name; without it, split, map, compress and join do the same.
RUNTIMECLASS_EXTENDER_PURE_PYTHON=1 switches it off.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence, ValuesView
from functools import cached_property
from itertools import chain, compress
from typing import TYPE_CHECKING, Final, Protocol

import orjson
from msgspec import Struct

from extender.shape import ShapeId

if TYPE_CHECKING:
    from extender import _names as compiled
else:
    try:
        from extender import _names as compiled
    except ImportError:
        compiled = None

#: Whether the compiled part is in use.
IS_COMPILED: Final = compiled is not None and not os.environ.get(
    "RUNTIMECLASS_EXTENDER_PURE_PYTHON"
)

#: The id of a name that an index does not have.
UNKNOWN: Final = ShapeId(0)

SEPARATOR: Final = b'","'

_BYTE_VALUES: Final = 256

_IS_FIRST: Final = bytes([1]).ljust(_BYTE_VALUES, b"\0")

#: Bytes of each name's end in `ends`.
_END_SIZE: Final = 4

#: All characters of a DNS subdomain, and some more. Without the compiled part, names with others
#: are decoded as JSON, which costs a little more.
_PLAIN: Final = b"abcdefghijklmnopqrstuvwxyz0123456789.-_ABCDEFGHIJKLMNOPQRSTUVWXYZ"

#: Up to this many different codes it is cheaper to count each than to find out which occur.
_FEW: Final = 16


def text_of(name: bytes) -> str:
    """The text of a name, which is the content of its JSON string.

    A name from a manifest may be no JSON string: it is taken as it is.
    """
    if b"\\" in name:
        with contextlib.suppress(orjson.JSONDecodeError):
            text: str = orjson.loads(b'"' + name + b'"')
            return text
    return name.decode("utf-8", "replace")


class NameRun(Struct, dict=True):
    """`count` names joined by the separator, at buffer[start:end]; never changed once it is made.

    The maker of a run has checked it: `read` does, `of` and `known` are for what is certainly a
    run. ends has the position where each name ends, for the compiled part; without it the run is
    handled in Python.
    """

    buffer: bytes
    start: int
    end: int
    count: int
    ends: bytes | None = None

    @classmethod
    def read(cls, buffer: bytes, start: int, end: int) -> "NameRun | None":
        """The run between the first and last quote of an array; None unless all are plain strings.

        Plain: ASCII without control characters and escapes, so that the JSON is the text itself.
        """
        return _engine.read(buffer, start, end)

    @classmethod
    def of(cls, names: Sequence[bytes]) -> "NameRun":
        joined = SEPARATOR.join(names)
        return cls.known(joined, 0, len(joined), len(names))

    @classmethod
    def known(cls, buffer: bytes, start: int, end: int, count: int) -> "NameRun":
        """A run that is known to have `count` names, which may have escapes."""
        return _engine.known(buffer, start, end, count)

    @property
    def joined(self) -> bytes:
        return self.buffer[self.start : self.end]

    @cached_property
    def names(self) -> list[bytes]:
        return self.joined.split(SEPARATOR) if self.count else []

    def part(self, codes: bytes, endings: Sequence[bytes], cut: int = 0) -> tuple[bytes, bytes]:
        """The names of code 0 joined by the separator; the others, each followed by an ending.

        The ending of code n is endings[n - 1]; nothing else separates these. The last `cut` bytes
        are left out.
        """
        return _engine.part(self, codes, endings, cut)

    def ended(self, codes: bytes, endings: Sequence[bytes], cut: int = 0) -> bytes:
        """The second of the two alone."""
        return _engine.part(self, codes, endings, cut, keep=False)[1]


class NameTable(Protocol):
    """Name → number, to translate whole runs; see _names.pyi."""

    def set(self, name: bytes, number: int, /) -> None: ...
    def discard(self, name: bytes, /) -> None: ...
    def copy(self) -> "NameTable": ...
    def translate(self, buffer: bytes, start: int, ends: bytes, codes: bytes, /) -> bytes: ...


class Engine(Protocol):
    """What handles runs: the compiled part, or Python.

    quick_bytes: the longest run that is read and parted within a few milliseconds.
    """

    quick_bytes: int

    def read(self, buffer: bytes, start: int, end: int) -> NameRun | None:
        """See NameRun.read."""

    def known(self, buffer: bytes, start: int, end: int, count: int) -> NameRun:
        """See NameRun.known."""

    def part(
        self, run: NameRun, codes: bytes, endings: Sequence[bytes], cut: int, *, keep: bool = True
    ) -> tuple[bytes, bytes]:
        """See NameRun.part; without `keep` the first of the two may be left out."""

    def tally(self, codes: bytes, kinds: int) -> Sequence[int]:
        """See tally."""

    def table(self) -> NameTable | None:
        """An empty table; None where a dictionary is as fast."""

    def find_victims(
        self, buffer: bytes, start: int, end: int, most: int
    ) -> tuple[bytes, bytes] | None:
        """See _names.pyi; None also where decoding them is all there is."""

    def keep_entries(self, buffer: bytes, start: int, ends: bytes, flags: bytes) -> bytes:
        """See _names.pyi."""


class PythonEngine:
    """With split, map, compress and join."""

    quick_bytes = 2**17

    def read(self, buffer: bytes, start: int, end: int) -> NameRun | None:
        text = buffer[start:end]
        separators = text.translate(None, _PLAIN)
        joints, rest = divmod(len(separators), len(SEPARATOR))
        if rest or separators != SEPARATOR * joints or text.count(SEPARATOR) != joints:
            return None
        return NameRun(text, 0, len(text), joints + 1)

    def known(self, buffer: bytes, start: int, end: int, count: int) -> NameRun:
        return NameRun(buffer, start, end, count)

    def part(
        self, run: NameRun, codes: bytes, endings: Sequence[bytes], cut: int, *, keep: bool = True
    ) -> tuple[bytes, bytes]:
        first = SEPARATOR.join(compress(run.names, codes.translate(_IS_FIRST))) if keep else b""
        chosen = map((b"", *endings).__getitem__, codes.translate(None, b"\0"))
        others = zip(compress(run.names, codes), chosen, strict=True)
        ended = b"".join(chain.from_iterable(others))
        return first, ended[: max(0, len(ended) - cut)]

    def tally(self, codes: bytes, kinds: int) -> Sequence[int]:
        if kinds <= _FEW:
            return [codes.count(code) for code in range(kinds)]
        occurring = set(codes)
        return [codes.count(code) if code in occurring else 0 for code in range(kinds)]

    def table(self) -> NameTable | None:
        return None

    def find_victims(
        self, buffer: bytes, start: int, end: int, most: int
    ) -> tuple[bytes, bytes] | None:
        return None

    def keep_entries(self, buffer: bytes, start: int, ends: bytes, flags: bytes) -> bytes:
        places = [start + end for end in memoryview(ends).cast("I")]
        begins = [start, *(place + 1 for place in places)]
        return b",".join(map(buffer.__getitem__, compress(map(slice, begins, places), flags)))


class CompiledEngine(PythonEngine):
    """With the compiled part; runs without `ends`, as those with escapes, in Python."""

    quick_bytes = 2**23

    def read(self, buffer: bytes, start: int, end: int) -> NameRun | None:
        ends = compiled.measure(buffer, start, end)
        if ends is None:
            return None
        return NameRun(buffer, start, end, len(ends) // _END_SIZE, ends)

    def known(self, buffer: bytes, start: int, end: int, count: int) -> NameRun:
        ends = compiled.measure(buffer, start, end) if count else None
        return NameRun(buffer, start, end, count, ends)

    def part(
        self, run: NameRun, codes: bytes, endings: Sequence[bytes], cut: int, *, keep: bool = True
    ) -> tuple[bytes, bytes]:
        if run.ends is None:
            return super().part(run, codes, endings, cut, keep=keep)
        return compiled.part(run.buffer, run.start, run.ends, codes, tuple(endings), cut, keep)

    def tally(self, codes: bytes, kinds: int) -> Sequence[int]:
        return compiled.tally(codes, kinds)

    def table(self) -> NameTable | None:
        return compiled.NameTable()

    def find_victims(
        self, buffer: bytes, start: int, end: int, most: int
    ) -> tuple[bytes, bytes] | None:
        return compiled.find_victims(buffer, start, end, most)

    def keep_entries(self, buffer: bytes, start: int, ends: bytes, flags: bytes) -> bytes:
        return compiled.keep_entries(buffer, start, ends, flags)


_engine: Engine = CompiledEngine() if IS_COMPILED else PythonEngine()

QUICK_RUN_BYTES: Final = _engine.quick_bytes


def engine() -> Engine:
    """The one in use."""
    return _engine


def tally(codes: bytes, kinds: int) -> Sequence[int]:
    """How often each code occurs; codes are below `kinds`."""
    return _engine.tally(codes, kinds)


class _Numbers(dict[bytes, ShapeId]):
    """The number of a missing name is UNKNOWN."""

    __slots__ = ()

    def __missing__(self, name: bytes) -> ShapeId:
        return UNKNOWN


class NodeIndex:
    """Node name → id of its shape, at least 1; a name it does not have is UNKNOWN.

    It is not a dict, so that every change of a name also changes the engine's table.
    """

    __slots__ = ("_numbers", "_table")

    def __init__(self, items: Iterable[tuple[bytes, ShapeId]] = ()) -> None:
        self._numbers = _Numbers(items)
        self._table = _engine.table()
        if self._table is not None:
            for name, number in self._numbers.items():
                self._table.set(name, number)

    def copy(self) -> "NodeIndex":
        copied = NodeIndex.__new__(NodeIndex)
        copied._numbers = _Numbers(self._numbers)
        copied._table = self._table.copy() if self._table is not None else None
        return copied

    def __getitem__(self, name: bytes) -> ShapeId:
        return self._numbers[name]

    def __contains__(self, name: bytes) -> bool:
        return name in self._numbers

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def items(self) -> Iterable[tuple[bytes, ShapeId]]:
        return self._numbers.items()

    def values(self) -> ValuesView[ShapeId]:
        return self._numbers.values()

    def __setitem__(self, name: bytes, number: ShapeId) -> None:
        self._numbers[name] = number
        if self._table is not None:
            self._table.set(name, number)

    def forget(self, name: bytes) -> None:
        """Remove a name if the index has it."""
        self._numbers.pop(name, None)
        if self._table is not None:
            self._table.discard(name)

    def translate(self, run: NameRun, codes: Sequence[int]) -> Sequence[int]:
        """codes[id] for each name of a run, as bytes where codes are bytes.

        Every id has a code, and codes[UNKNOWN] is that of names that are not known.
        """
        if not isinstance(codes, bytes):
            return tuple(map(codes.__getitem__, self.numbers(run.names)))
        if self._table is not None and run.ends is not None:
            return self._table.translate(run.buffer, run.start, run.ends, codes)
        ids = self.numbers(run.names)
        if len(codes) <= _BYTE_VALUES:
            return bytes(ids).translate(codes.ljust(_BYTE_VALUES, b"\0"))
        return bytes(map(codes.__getitem__, ids))

    def numbers(self, names: Iterable[bytes]) -> Iterable[ShapeId]:
        """The id of each name."""
        return map(self._numbers.__getitem__, names)
