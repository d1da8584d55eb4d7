"""Large JSON of any form, decoded a slice at a time: so no other thread waits long for its turn.

A decoder in C keeps the interpreter until it is done, and meanwhile the event loop answers nobody:
64 MiB take a quarter of a second. The compiled part (`_slices.c`) finds places between two elements
while other threads run, and each slice is decoded by itself. If every slice, with brackets around
it, is an array or an object, then so are all of them together, and with the same elements: the
cuts need not be trusted. Without the compiled part such JSON is decoded in one piece.
"""

import codecs
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from msgspec import Raw

from extender.decoding.decoder import DecodeError, decode

if TYPE_CHECKING:
    from extender import _slices as compiled
else:
    try:
        from extender import _slices as compiled
    except ImportError:
        compiled = None

T = TypeVar("T")

#: Whether the compiled part is in use.
IS_COMPILED: Final = compiled is not None and not os.environ.get(
    "RUNTIMECLASS_EXTENDER_PURE_PYTHON"
)

Text = bytes | memoryview | Raw

#: How much is decoded, searched or counted at a time: some tenths of a millisecond.
SLICE: Final = 32 * 1024

#: A piece that is longer has one element only.
_MOST: Final = 2 * SLICE + 1

#: The limit of a value that is not an array or an object of smaller ones: etcd stores no object of
#: more than 1.5 MiB.
MAX_OBJECT_BYTES: Final = 2 * 2**20

#: Levels of arrays and objects that are each larger than a slice: each is searched by itself.
_MAX_LEVELS: Final = 16

# White space that is looked through at once; nobody writes more of it in one place.
_SPACE: Final = rb"[ \t\n\r]{0,1024}"
_OPENING: Final = re.compile(_SPACE + rb"([\[{])")
_CLOSING: Final = re.compile(rb"[\]}]" + _SPACE)
_BLANK: Final = re.compile(rb"[ \t\n\r]*")
_KEY: Final = re.compile(
    _SPACE + rb'("[^"\\]{0,1024}(?:\\.[^"\\]{0,1024}){0,1024}")' + _SPACE + b":", re.DOTALL
)

_ARRAY: Final = b"[]"
_OBJECT: Final = b"{}"


class Member(NamedTuple):
    """A field of an object; its value may still be no JSON."""

    key: str
    value: Raw


def is_checked(value: Raw) -> bool:
    """Whether a value from `members` is JSON; that of a Member is still to be decoded."""
    return len(value) <= _MOST


def find(text: bytes, part: bytes) -> int:
    """As text.find(part), a slice at a time."""
    if len(text) <= SLICE:
        return text.find(part)
    for start in range(0, len(text), SLICE):
        found = text.find(part, start, start + SLICE + len(part) - 1)
        if found >= 0:
            return found
    return -1


def count(text: bytes, byte: bytes) -> int:
    """As text.count(byte), a slice at a time."""
    return sum(text.count(byte, start, start + SLICE) for start in range(0, len(text), SLICE))


def is_ascii(text: bytes) -> bool:
    """As text.isascii(), a slice at a time."""
    return all(text[at : at + SLICE].isascii() for at in range(0, len(text), SLICE))


def check_utf8(text: bytes) -> None:
    """Raises UnicodeDecodeError; its position is one within a slice."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(text), SLICE):
        part = text[start : start + SLICE]
        if not part.isascii() or decoder.getstate()[0]:
            decoder.decode(part)
    decoder.decode(b"", final=True)


def _pieces(text: Text, brackets: bytes, place: str) -> Iterator[memoryview] | None:
    """The content of an array or object in pieces; None if it is to be decoded whole.

    Raises DecodeError.
    """
    if len(text) <= SLICE or not IS_COMPILED:
        return None
    whole = memoryview(text)
    opening = _OPENING.match(whole)
    if opening is None:
        bound(text, place)
        return None
    if opening[1] != brackets[:1]:
        return None
    first = opening.start(1)
    places = compiled.cuts(whole, first, SLICE)
    if places is None:
        raise _not_json(place, "Input data was truncated")
    end = places[-1]
    if not _CLOSING.fullmatch(whole[end:]) or whole[end] != brackets[1]:
        raise _not_json(place, f"JSON is malformed (byte {end})")
    return _between(whole, first, places, place)


def _between(whole: memoryview, first: int, places: list[int], place: str) -> Iterator[memoryview]:
    for begin, end in zip((first, *places), places, strict=False):
        piece = whole[begin + 1 : end]
        # Nothing between two commas would be decoded as nothing.
        if len(places) > 1 and _BLANK.fullmatch(piece):
            raise _not_json(place, f"JSON is malformed (byte {end})")
        yield piece


def _not_json(place: str, what: str) -> DecodeError:
    return DecodeError(f"{place or 'body'}: not JSON: {what}")


def bound(text: Text, place: str) -> None:
    """Raises DecodeError for a value that no API server would store."""
    if len(text) > MAX_OBJECT_BYTES:
        raise DecodeError(f"{place or 'body'}: a value of more than {MAX_OBJECT_BYTES:,} bytes")


def lists_of(text: Text, kind: type[list[T]], place: str) -> Iterator[list[T]]:
    """The elements of an array, some at a time. Raises DecodeError.

    One of them has at most MAX_OBJECT_BYTES.
    """
    pieces = _pieces(text, _ARRAY, place)
    if pieces is None:
        yield decode(text, kind, place)
        return
    before = 0
    for piece in pieces:
        bound(piece, f"{place}[{before}]")
        try:
            part = decode(b"".join((b"[", piece, b"]")), kind, place)
        except DecodeError as error:
            raise DecodeError(_counted_on(str(error), place, before)) from None
        before += len(part)
        yield part


def _counted_on(message: str, place: str, before: int) -> str:
    """A message about an element of a slice with the number that it has in all of the array."""
    start = f"{place}["
    number, bracket, rest = message.removeprefix(start).partition("]")
    if not message.startswith(start) or not number.isdigit():
        return message
    return f"{start}{before + int(number)}{bracket}{rest}"


def members(text: Text, place: str) -> Iterator[bytes | Member]:
    """An object as smaller ones, which together have its fields, and as single large fields.

    Raises DecodeError.
    """
    pieces = _pieces(text, _OBJECT, place)
    if pieces is None:
        yield bytes(text)
        return
    for piece in pieces:
        key = _KEY.match(piece) if len(piece) > _MOST else None
        if key is not None and len(piece) - key.end() > _MOST:
            yield Member(decode(key[1], str, place), Raw(piece[key.end() :]))
        else:
            bound(piece, place)
            yield b"".join((b"{", piece, b"}"))


def check(text: Text, place: str, level: int = 0) -> None:
    """Raises DecodeError unless it is JSON: a value that nobody reads."""
    if level > _MAX_LEVELS:
        raise DecodeError(f"{place or 'body'}: nested too deeply")
    opening = _OPENING.match(memoryview(text)[:1025])
    if len(text) <= SLICE or opening is None:
        bound(text, place)
        decode(text, Raw, place)
    elif opening[1] == _OBJECT[:1]:
        for part in members(text, place):
            if isinstance(part, Member):
                check(part.value, place, level + 1)
            else:
                decode(part, Raw, place)
    elif (pieces := _pieces(text, _ARRAY, place)) is None:
        decode(text, Raw, place)
    else:
        for piece in pieces:
            if len(piece) <= _MOST:
                decode(b"".join((b"[", piece, b"]")), Raw, place)
            else:
                check(piece, place, level + 1)
