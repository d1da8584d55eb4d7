"""Answers of kube-apiserver: list pages, events, statuses.

An object stays raw bytes until its kind's feed decodes the fields it needs.
"""

import json
from typing import Final

import msgspec
from msgspec import Raw, Struct

from extender.kubernetes.decoder import NULL, DecodeError, decode, nullable

#: The annotation of the bookmark that ends a watch-list's initial events
#: (k8s.io/apimachinery/pkg/apis/meta/v1 InitialEventsAnnotationKey, v1.36.2).
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

#: Objects a page, as in client-go's pager: 500 nodes of 10 KB are 5 MB.
PAGE_LIMIT: Final = 500


class _Metadata(Struct, rename="camel"):
    resource_version: str | None = None
    continue_token: str | None = msgspec.field(default=None, name="continue")
    annotations: dict[str, str | None] | None = None


class _ListOrBookmark(Struct):
    kind: str | None = None
    metadata: _Metadata | None = None
    items: Raw = NULL


class Page(Struct):
    """One page of a list; continue_token is empty on the last."""

    resource_version: str
    continue_token: str
    items: list[Raw]


def page_of(body: bytes, kind: str) -> Page:
    """Decode a page of a `kind`List. Raises DecodeError for all else: it could empty the store."""
    page = decode(body, _ListOrBookmark)
    if page.kind != f"{kind}List":
        raise DecodeError(f"expected a {kind}List, got kind {page.kind!r}")
    metadata = page.metadata or _Metadata()
    if not metadata.resource_version:
        raise DecodeError(f"{kind}List without resourceVersion")
    items = nullable(page.items, list[Raw], "items") or []
    return Page(metadata.resource_version, metadata.continue_token or "", items)


class Event(Struct):
    type: str = ""
    object: Raw = NULL


def bookmark_of(raw: Raw) -> tuple[str, bool]:
    """A bookmark's resourceVersion, and if it ends the initial events. Raises DecodeError."""
    metadata = decode(raw, _ListOrBookmark, "object").metadata or _Metadata()
    if not metadata.resource_version:
        raise DecodeError("bookmark without resourceVersion")
    ends = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return metadata.resource_version, ends


class Status(Struct):
    """An error of the API server; code is 0 if it can't be read."""

    code: int = 0
    message: str = ""


def status_of(raw: bytes | Raw) -> Status:
    """The error in an ERROR event or in the body of a response; never raises."""
    try:
        return decode(raw, Status)
    except DecodeError:
        return Status()


def revision(resource_version: str | None) -> int | None:
    """A resourceVersion as a number, or None. Comparable since Kubernetes 1.35 (KEP-5504)."""
    if not resource_version or not resource_version.isascii() or not resource_version.isdigit():
        return None
    return int(resource_version)


def is_older(new: int | None, held: int | None) -> bool:
    """Whether the new revision certainly came before the held one."""
    return new is not None and held is not None and new < held


_EVENTS: Final = msgspec.json.Decoder(Event)
_DOCUMENTS: Final = json.JSONDecoder()


class EventStream:
    """Cuts the bytes of a watch into events.

    No specification promises a line break after an event: it is also complete when its JSON is.
    """

    def __init__(self) -> None:
        self._rest = b""

    @property
    def is_between_events(self) -> bool:
        return not self._rest

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete. Raises DecodeError; the stream is then unusable."""
        *lines, rest = (self._rest + data).split(b"\n") if b"\n" in data else (self._rest + data,)
        events: list[Event] = []
        for line in lines:
            complete, incomplete = _cut(line)
            if incomplete:
                raise DecodeError(f"not an event: {incomplete[:40]!r}")
            events += complete
        if data.rstrip().endswith(b"}"):
            complete, rest = _cut(rest)
            events += complete
        self._rest = rest
        return events


def _cut(text: bytes) -> tuple[list[Event], bytes]:
    """The complete events at the start of a text, and the rest."""
    if not text.strip():
        return [], b""
    try:
        return [_EVENTS.decode(text)], b""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The beginning of a large event. Searching it for joined events would be slower.
        return ([], text) if "truncated" in str(error) else _joined_events(text)


def _joined_events(text: bytes) -> tuple[list[Event], bytes]:
    """The complete events of a text without line breaks between them, and the rest."""
    events = []
    # JSON's grammar is ASCII, and Latin-1 keeps positions: one character for each byte.
    document = text.decode("latin-1")
    position = 0
    while position < len(text):
        try:
            _, end = _DOCUMENTS.raw_decode(document, position)
        except (ValueError, RecursionError):
            break
        try:
            events.append(_EVENTS.decode(text[position:end]))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DecodeError(f"not an event: {error}") from None
        following = text[end:].lstrip()
        position = len(text) - len(following)
    return events, text[position:]
