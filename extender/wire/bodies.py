"""Shared by all formats: reading a body, its limits, and small JSON documents."""

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import orjson
from msgspec import Raw, Struct

from extender.decoding.decoder import DecodeError, decode
from extender.decoding.pods import RawPod, pod_of
from extender.decoding.used_features import RawUsingPod, uses_of
from extender.names import NameRun
from extender.objects import Pod
from extender.wire import slices

T = TypeVar("T")

Chunks = Sequence[bytes | memoryview]

NULL: Final = Raw(b"null")

#: Names or Nodes in one request: six times as many as the largest cluster known has.
MAX_NAMES: Final = 1_000_000

#: The number of values in a body that kube-scheduler would not write like that, in addition to one
#: per some bytes of it: a Node of 10 KB has 400, while 64 MiB of nulls would have 13 million, and
#: take 1 GB.
_FREE_VALUES: Final = MAX_NAMES
_BYTES_A_VALUE: Final = 20

#: The number of values in a Pod: etcd stores up to 1.5 MB, and a list of variables, of which each
#: has two values, has 30 bytes a value, managedFields 15. So many are decoded in 0.1 s.
MAX_POD_VALUES: Final = 100_000


#: A Pod of so many bytes can't have more values.
FREE_POD_BYTES: Final = MAX_POD_VALUES

#: A Pod whose JSON is larger is decoded again each time.
MAX_LAST_POD: Final = 32 * 1024


class BadRequestError(ValueError):
    """The body can't be read; the message names the place. Becomes a 400."""


#: How the JSON of a name that ends with a quote and a comma ends: the beginning of a separator.
_DOUBTFUL: Final = b'\\","'


def run_of(names: Sequence[str]) -> NameRun:
    """A run of names made from any strings: the content of their JSON array.

    No JSON string holds an unescaped quote, so the separator can't occur within one, nor begin in
    one, as long as none ends with a quote and a comma: of such a name the comma is escaped too.
    """
    dumped = orjson.dumps(names)
    if b"\\" in dumped and _DOUBTFUL in dumped:  # the first search is ten times as fast
        return NameRun.of([_unambiguous(name) for name in names])
    return NameRun.known(dumped, 2, max(2, len(dumped) - 2), len(names))


def _unambiguous(name: str) -> bytes:
    content = orjson.dumps(name)[1:-1]
    return content[:-1] + b"\\u002c" if name.endswith('",') else content


def top_level(body: bytes, read: Collection[str]) -> dict[str, Raw]:
    """The top-level fields of a whole body, as `folded` gives them. Raises BadRequestError.

    Those that are not among the ones that are read are checked to be JSON; a large one of those
    that are is so only once it was decoded (wire.slices).
    """
    values = _FREE_VALUES + len(body) // _BYTES_A_VALUE
    # Every value of a list or an object but the first follows a comma.
    if len(body) > _FREE_VALUES and slices.count(body, b",") > values:
        raise BadRequestError(f"body: more than {values:,} values")
    fields = folded(body, "")
    for key, value in fields.items():
        if not slices.is_checked(value) and key not in read:
            with refused():
                slices.check(value, "")
    try:
        # As in _is_utf8; Nodes are returned undecoded.
        slices.check_utf8(body)
    except UnicodeDecodeError as error:
        raise BadRequestError(f"body: not JSON: {error}") from None
    return fields


def folded(raw: bytes | Raw, place: str) -> dict[str, Raw]:
    """An object's fields by lower-case key; of keys that differ in case only, the last wins.

    That is how encoding/json reads structs without tags. A large field is not JSON until it was
    decoded. Raises BadRequestError.
    """
    fields: dict[str, Raw] = {}
    with refused():
        for part in slices.members(raw, place):
            if isinstance(part, slices.Member):
                found = {part.key.casefold(): part.value}
            else:
                found = _folded(part, place)
            for key in fields.keys() & found.keys():
                # It is not read, but all of a body must be JSON.
                if not slices.is_checked(fields[key]):
                    slices.check(fields[key], place)
            fields |= found
    return fields


def _folded(raw: bytes, place: str) -> dict[str, Raw]:
    """Raises DecodeError, BadRequestError."""
    exact = decode(raw, dict[str, Raw], place)
    fields = {key.casefold(): value for key, value in exact.items()}
    if len(fields) < len(exact):
        # A dict keeps a repeated key at its first position, so the order is read again.
        try:
            pairs = json.loads(raw, object_pairs_hook=list, parse_int=str, parse_float=str)
        except (ValueError, RecursionError):
            raise BadRequestError(f"{place or 'body'}: not JSON, or nested too deeply") from None
        fields = {key.casefold(): exact[key] for key, _ in pairs}
    return fields


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """What can't be decoded becomes a BadRequestError."""
    try:
        yield
    except DecodeError as error:
        raise BadRequestError(str(error)) from None


def decode_or_refuse(raw: bytes | Raw, kind: type[T], place: str) -> T:
    try:
        return decode(raw, kind, place)
    except DecodeError as error:
        raise BadRequestError(str(error)) from None


def bound_pod(raw: bytes | Raw) -> None:
    """Raises BadRequestError for more bytes or values than any Pod of a cluster can have."""
    if len(raw) > FREE_POD_BYTES:
        with refused():
            slices.bound(raw, "Pod")
        bound_values(raw, MAX_POD_VALUES, "Pod")


def bound_values(raw: bytes | Raw, most: int, place: str) -> None:
    """Raises BadRequestError for more values."""
    if len(raw) > most and slices.count(bytes(raw), b",") > most:
        raise BadRequestError(f"{place}: more than {most:,} values")


def decode_pod(raw: Raw) -> Pod:
    if raw == NULL:
        raise BadRequestError("Pod: missing")
    bound_pod(raw)
    return pod_of(decode_or_refuse(raw, RawPod, "Pod"))


class _UsingHead(Struct, rename={"pod": "Pod"}):
    """A body up to the nodes, closed."""

    pod: RawUsingPod | None = None


#: The JSON of a pod, kept to be read again: a Raw, or the bytes of the body up to the nodes.
PodText = bytes | Raw


def with_uses(pod: Pod, text: PodText) -> Pod:
    """The pod with the features it uses (decoding.used_features). Raises BadRequestError."""
    if isinstance(text, Raw):
        using: RawUsingPod | None = decode_or_refuse(text, RawUsingPod, "Pod")
    else:
        using = decode_or_refuse(text + b"}", _UsingHead, "").pod
    return replace(pod, uses=uses_of(using or RawUsingPod()))


class LastPod:
    """The pod read last, by its JSON.

    kube-scheduler calls filter, prioritize and preempt about one pod in turn, and writes it with
    the same bytes each time. Safe to use from any thread: what is remembered is replaced whole.
    """

    def __init__(self) -> None:
        self._last: tuple[bytes, Pod] | None = None

    def get(self, head: bytes) -> Pod | None:
        """The pod, if these are the bytes that it was read from."""
        last = self._last
        return last[1] if last is not None and last[0] == head else None

    def keep(self, head: bytes, pod: Pod) -> None:
        if len(head) <= MAX_LAST_POD:
            self._last = (head, pod)


def encode(document: Mapping[str, object] | Sequence[object]) -> bytes:
    """The other answers: small documents for people."""
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
