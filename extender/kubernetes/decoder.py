"""JSON → structs: the decoder, its errors, and the structs that several kinds share."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.model.objects import NOTHING, Handler, Taint
from extender.model.pod_needs import Toleration

StringMap = dict[str, str | None] | None

T = TypeVar("T")


class DecodeError(ValueError):
    """The bytes are not JSON, or a field has the wrong type. The message names the field."""


#: How YAML reads unquoted words that are not text, by the type of their value.
_UNQUOTED: Final = {
    "bool": "YAML reads y, yes and on as true, n, no and off as false",
    "int": "YAML reads it as a number",
    "float": "YAML reads it as a number",
}


def in_a_file(error: DecodeError) -> str:
    """The error's text, with the hint to quote a string that YAML has read as another type."""
    text = str(error)
    reading = _UNQUOTED.get(text.rpartition("expected `str`, got ")[2].strip("`"))
    return f"{text} (quote it: {reading})" if reading else text


#: The value of an undecoded field that is absent or null.
NULL: Final = Raw(b"null")

_DECODERS: Final[dict[type, msgspec.json.Decoder[Any]]] = {}

#: Held while a decoder is created. msgspec stores a struct's type information in the class before
#: it is complete. A second thread that uses it crashes the process (SIGSEGV in 0.19 to 0.22).
_MAKING: Final = threading.Lock()


def decode(raw: bytes | bytearray | memoryview | Raw, kind: type[T], place: str = "") -> T:
    """Decode JSON into a value of type `kind`. place: its path, for the error.

    Raises DecodeError with a message such as "Pod.metadata.labels[...]: expected `str`, got `int`".
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        with _MAKING:
            decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        result: T = decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise DecodeError(_with_place(str(error), place)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"{place or 'body'}: not JSON: {error}") from None
    except RecursionError:
        raise DecodeError(f"{place or 'body'}: nested too deeply") from None
    return result


def nullable(raw: bytes | Raw, kind: type[T], place: str = "") -> T | None:
    """`decode` for a field that may be null or absent: the result is then None."""
    return None if bytes(raw) == b"null" else decode(raw, kind, place)


def may_have(raw: Raw, word: bytes) -> bool:
    """Whether JSON may contain a key or value. Faster than decoding; any backslash means yes."""
    text = bytes(raw)
    return word in text or b"\\" in text


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


class ObjectMeta(Struct, rename="camel"):
    """The metadata of any object but a Node. Fields that most readers skip stay undecoded."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: StringMap = None
    annotations: Raw = NULL
    creation_timestamp: Raw = NULL
    deletion_timestamp: Raw = NULL
    owner_references: Raw = NULL

    def read_annotations(self, place: str = "metadata") -> Mapping[str, str]:
        """Raises DecodeError."""
        return strings(nullable(self.annotations, dict[str, str | None], f"{place}.annotations"))

    def created_at(self, place: str = "metadata") -> str:
        """The creation time in RFC 3339; "" if absent. Raises DecodeError."""
        return nullable(self.creation_timestamp, str, f"{place}.creationTimestamp") or ""

    def owners(self, place: str = "metadata") -> "list[Owner]":
        """Raises DecodeError."""
        found = nullable(self.owner_references, list[Owner | None], f"{place}.ownerReferences")
        return [each for each in found or () if each is not None]


class Owner(Struct):
    kind: str | None = None
    controller: bool | None = None
    uid: str | None = None


class RawToleration(Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class RawTimedToleration(RawToleration, rename="camel", gc=False):
    """A toleration with tolerationSeconds, which matching ignores and merging needs."""

    toleration_seconds: int | None = None


class RawTaint(Struct):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class _HandlerFeatures(Struct, rename="camel"):
    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class RawHandler(Struct):
    name: str | None = None
    features: _HandlerFeatures | None = None


_NO_TOLERATION: Final = RawTimedToleration()


def tolerations_of(raw: Sequence[RawToleration | None] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(each.key or "", each.operator or "", each.value or "", each.effect or "")
        for each in (item or _NO_TOLERATION for item in raw or ())
    )


def timed_tolerations_of(raw: Iterable[RawTimedToleration | None]) -> Iterator[Toleration]:
    """Tolerations with their seconds. A generator, because a pod may have half a million."""
    for item in raw:
        each = item or _NO_TOLERATION
        yield tolerations_of((each,))[0]._replace(seconds=each.toleration_seconds)


def taints_of(raw: list[RawTaint | None] | None) -> tuple[Taint, ...]:
    return tuple(
        Taint(each.key or "", each.value or "", each.effect or "")
        for each in (item or RawTaint() for item in raw or ())
    )


def handlers_of(raw: list[RawHandler | None] | None) -> frozenset[Handler]:
    """A node's status.runtimeHandlers as a set, since some runtimes report them in varying order.

    If several have the same name, the first one is kept, because the kubelet uses the first
    (HandlerSupportsUserNamespaces in pkg/kubelet/kubelet_getters.go, v1.36.2).
    """
    handlers: dict[str, Handler] = {}
    for each in (item or RawHandler() for item in reversed(raw or ())):
        name, features = each.name or "", each.features or _HandlerFeatures()
        handlers[name] = Handler(
            name, bool(features.user_namespaces), bool(features.recursive_read_only_mounts)
        )
    return frozenset(handlers.values())


#: Quantities by resource, in all types that JSON allows for them.
Quantities = dict[str, str | int | float | None]


def quantities_of(raw: Quantities | None) -> Mapping[str, str]:
    """Quantities by resource as text, without surrounding whitespace; "0" for null."""
    amounts = (raw or {}).items()
    return {name: "0" if value is None else str(value).strip() for name, value in amounts}
