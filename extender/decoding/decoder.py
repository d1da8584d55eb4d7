"""Raw JSON → structs: the decoder itself, and how it says what is wrong."""

import re
import threading
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from extender.objects import NOTHING

StringMap = dict[str, str | None] | None

StringList = list[str | None] | None

T = TypeVar("T")


class DecodeError(ValueError):
    """The bytes are not JSON, or not of the type that is read; the message names the place."""


_NULL: Final = b"null"

_DECODERS: Final[dict[type, msgspec.json.Decoder[Any]]] = {}

#: Held while a decoder is made, never while one decodes. msgspec stores a struct's description in
#: the class before it is complete: another thread that makes a decoder of a struct containing that
#: one uses the incomplete description, and the process crashes (SIGSEGV in 0.19 to 0.22).
_MAKING: Final = threading.Lock()


def _made_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    with _MAKING:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return decoder


def decode(raw: bytes | bytearray | memoryview | Raw, kind: type[T], place: str = "") -> T:
    """Decode JSON into one of the Raw structs.

    Raises DecodeError with a message such as "Pod.metadata.labels[...]: expected `str`, got `int`".
    """
    decoder = _DECODERS.get(kind) or _made_decoder(kind)
    try:
        result: T = decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise DecodeError(_with_place(str(error), place)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"{place or 'body'}: not JSON: {_what(error, raw)}") from None
    except RecursionError:
        raise DecodeError(f"{place or 'body'}: nested too deeply") from None
    return result


def nullable(raw: bytes | Raw, kind: type[T], place: str = "") -> T | None:
    """The same for a field that may be null or absent, which is None."""
    return None if bytes(raw) == _NULL else decode(raw, kind, place)


# An escaped high half with too little behind it for msgspec to look whether the low one follows;
# where that one begins, or nothing is behind it, the input does end too early.
_HIGH_HALF_AT_THE_END: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?:[^\\]|\\[^u]).{0,4}\Z", re.DOTALL
)
_LONGEST_END: Final = len(rb"\ud800") + 5


def _what(error: Exception, raw: bytes | bytearray | memoryview | Raw) -> str:
    """The error in the JSON; for half a surrogate pair msgspec often reports another error."""
    text = str(error)
    is_half = "surrogate" in text or "end of hex escape" in text
    if text.startswith("Input data was truncated"):
        end = bytes(memoryview(raw)[-_LONGEST_END:])
        is_half = _HIGH_HALF_AT_THE_END.search(end) is not None
    return "half of a surrogate pair (\\ud800 to \\udfff) in a string" if is_half else text


def convert(obj: object, kind: type[T]) -> T:
    """The same for a document that is decoded already (YAML)."""
    if kind not in _DECODERS:
        _made_decoder(kind)  # so that msgspec finds its description of the struct finished
    try:
        return msgspec.convert(obj, kind)
    except msgspec.ValidationError as error:
        raise DecodeError(_with_place(str(error), "")) from None


def _with_place(message: str, place: str) -> str:
    # "Expected `str | null`, got `int` - at `$.metadata.name`"
    what, _, where = message.partition(" - at ")
    path = where.strip("`").removeprefix("key in ").strip("`").removeprefix("$")
    full = f"{place}{path}".lstrip(".") or "body"
    return f"{full}: {what[:1].lower()}{what[1:].replace(' | null', '')}"


def strings(raw: StringMap) -> Mapping[str, str]:
    if not raw:
        return NOTHING
    if None in raw.values():
        return {key: value or "" for key, value in raw.items()}
    return raw  # type: ignore[return-value]  # no value is None
