"""Node names by the thousand: looked up and sorted a whole request at a time.

Names are the contents of JSON strings, `a","b","c` a run of them: what stands between the first
and the last quote of an array in a request, and again in the answer. None of them is made a str.

The compiled part (`_names.c`, built where there is a C compiler) walks the run without making an
object for each name; without it the same is done by split, map, compress and join. Set
RUNTIMECLASS_EXTENDER_PURE_PYTHON=1 to do without it where it is there.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, compress
from typing import TYPE_CHECKING, Final

import orjson

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
UNKNOWN: Final = 0

SEPARATOR: Final = b'","'

_BYTE_VALUES: Final = 256

_IS_FIRST: Final = bytes([1]).ljust(_BYTE_VALUES, b"\0")

#: Bytes of each end that the compiled part notes.
_END_SIZE: Final = 4

#: All characters of a DNS subdomain, and some. Without the compiled part names of others take the
#: general way, which costs a little more.
_PLAIN: Final = b"abcdefghijklmnopqrstuvwxyz0123456789.-_ABCDEFGHIJKLMNOPQRSTUVWXYZ"

#: Up to this many different codes it is cheaper to count each than to look which occur.
_FEW: Final = 16


def text_of(name: bytes) -> str:
    """A name that travels as the content of its JSON string."""
    text: str = orjson.loads(b'"' + name + b'"') if b"\\" in name else name.decode()
    return text


def tally(codes: bytes, kinds: int) -> Mapping[int, int]:
    """How often each code occurs, of those that do; codes are below `kinds`."""
    if IS_COMPILED:
        return compiled.tally(codes)
    occurring: Iterable[int] = range(kinds) if kinds <= _FEW else set(codes)
    counted = ((code, codes.count(code)) for code in occurring)
    return {code: count for code, count in counted if count}


@dataclass(frozen=True)
class NameRun:
    """`count` names joined by the separator, at buffer[start:end].

    Whoever makes one has checked that they are: `read` does, `of` and `known` are for what is a run
    for sure. ends is what the compiled part goes by, where each name ends in its own form; without
    it the names are gone through in Python.
    """

    buffer: bytes
    start: int
    end: int
    count: int
    ends: bytes | None = field(default=None, repr=False)

    @classmethod
    def read(cls, buffer: bytes, start: int, end: int) -> "NameRun | None":
        """What stands between the quotes of an array; None when it isn't nothing but plain strings.

        Plain: ASCII without control characters and escapes, which stands for itself.
        """
        if IS_COMPILED:
            ends = compiled.measure(buffer, start, end)
            if ends is None:
                return None
            return cls(buffer, start, end, len(ends) // _END_SIZE, ends)
        text = buffer[start:end]
        separators = text.translate(None, _PLAIN)
        joints, rest = divmod(len(separators), len(SEPARATOR))
        if rest or separators != SEPARATOR * joints:
            return None
        return cls(text, 0, len(text), joints + 1)

    @classmethod
    def of(cls, names: Sequence[bytes]) -> "NameRun":
        joined = SEPARATOR.join(names)
        return cls.known(joined, 0, len(joined), len(names))

    @classmethod
    def known(cls, buffer: bytes, start: int, end: int, count: int) -> "NameRun":
        """What is a run of so many names for sure; they may have escapes."""
        ends = compiled.measure(buffer, start, end) if IS_COMPILED and count else None
        return cls(buffer, start, end, count, ends)

    @property
    def joined(self) -> bytes:
        return self.buffer[self.start : self.end]

    @cached_property
    def names(self) -> list[bytes]:
        return self.joined.split(SEPARATOR) if self.count else []

    def part(self, codes: bytes, endings: Sequence[bytes], cut: int = 0) -> tuple[bytes, bytes]:
        """The names of code 0 joined by the separator; the others, each with an ending behind it.

        The ending of code n is endings[n - 1]; nothing else stands between those. Of the last one
        `cut` bytes are left out.
        """
        if IS_COMPILED and self.ends is not None:
            return compiled.part(self.buffer, self.start, self.ends, codes, tuple(endings), cut)
        first = SEPARATOR.join(compress(self.names, codes.translate(_IS_FIRST)))
        chosen = map((b"", *endings).__getitem__, codes.translate(None, b"\0"))
        others = zip(compress(self.names, codes), chosen, strict=True)
        ended = b"".join(chain.from_iterable(others))
        return first, ended[: max(0, len(ended) - cut)]


class NodeIndex(dict[bytes, int]):
    """Node name → id, at least 1; a name it does not have is UNKNOWN.

    Changed by its items only, so that the compiled twin stays in step.
    """

    __slots__ = ("_twin",)
    _twin: "compiled.NameTable | None"

    def __init__(self, items: "Mapping[bytes, int] | Iterable[tuple[bytes, int]]" = ()) -> None:
        super().__init__(items)
        if isinstance(items, NodeIndex):
            self._twin = items._twin.copy() if items._twin is not None else None
        elif IS_COMPILED:
            self._twin = compiled.NameTable()
            for name, number in self.items():
                self._twin.set(name, number)
        else:
            self._twin = None

    def __missing__(self, name: bytes) -> int:
        return UNKNOWN

    def __setitem__(self, name: bytes, number: int) -> None:
        super().__setitem__(name, number)
        if self._twin is not None:
            self._twin.set(name, number)

    def forget(self, name: bytes) -> None:
        """Drop a name, if it is there."""
        super().pop(name, None)
        if self._twin is not None:
            self._twin.discard(name)

    def translate(self, run: NameRun, codes: Sequence[int]) -> Sequence[int]:
        """codes[id] for each name of a run, as bytes where codes are bytes.

        Every id has a code, and codes[UNKNOWN] is that of names that are not known.
        """
        if not isinstance(codes, bytes):
            return tuple(map(codes.__getitem__, map(self.__getitem__, run.names)))
        if self._twin is not None and run.ends is not None:
            return self._twin.translate(run.buffer, run.start, run.ends, codes)
        ids = map(self.__getitem__, run.names)
        if len(codes) <= _BYTE_VALUES:
            return bytes(ids).translate(codes.ljust(_BYTE_VALUES, b"\0"))
        return bytes(map(codes.__getitem__, ids))
