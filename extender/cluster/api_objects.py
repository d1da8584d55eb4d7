"""What kube-apiserver sends, as far as it is read here: list pages, events, statuses.

An object stays raw bytes until its kind's feed decodes the fields it needs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

import msgspec
from msgspec import Raw, Struct

from extender.decoding.decoder import DecodeError, decode

#: Set on the bookmark that ends a watch-list's initial events
#: (k8s.io/apimachinery/pkg/apis/meta/v1 InitialEventsAnnotationKey, v1.36.2).
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

_NULL: Final = Raw(b"null")

#: Python refuses int() of more digits, and no revision of etcd has as many.
_MAX_DIGITS: Final = 4000


#: Objects a page, as in client-go's pager: 500 nodes of 10 KB are 5 MB.
PAGE_LIMIT: Final = 500

#: A page of 500 objects of 1.5 MiB, the most that etcd keeps, is 750 MB.
MAX_BODY_BYTES: Final = 2**30

#: How often a list is tried from its beginning, when its continue token has expired.
_ATTEMPTS: Final = 3


class Response(Protocol):
    """The part of an HTTP response that is used; see api_connection.ApiResponse."""

    status: int

    @property
    def retry_after(self) -> float | None: ...
    def read_some(self, silence: float) -> bytes: ...
    def read_all(self, silence: float, limit: int = ...) -> bytes: ...
    def is_idle(self) -> bool: ...
    def close(self) -> None: ...


def whole_body(response: Response, silence: float, limit: int = MAX_BODY_BYTES) -> bytes:
    """The body of a response, which is closed then. Raises ConnectionFaultError."""
    try:
        return response.read_all(silence, limit)
    finally:
        response.close()


def refusal_text(response: Response, body: bytes) -> str:
    """The status and what the API server says, on one line."""
    return f"HTTP {response.status} {status_of(body).message}".rstrip()


class _ListMetadata(Struct, rename="camel"):
    resource_version: str | None = None
    continue_token: str | None = msgspec.field(default=None, name="continue")


class _Page(Struct):
    kind: str | None = None
    metadata: _ListMetadata | None = None
    items: list[Raw] | None = None


class Page(Struct):
    """One page of a list; continue_token is empty on the last."""

    resource_version: str
    continue_token: str
    items: list[Raw]


def page_of(body: bytes, kind: str) -> Page:
    """Decode a page of a `kind`List.

    Raises DecodeError for anything else: only what is certainly the list may empty the store.
    """
    page = decode(body, _Page)
    if page.kind != f"{kind}List":
        raise DecodeError(f"expected a {kind}List, got kind {page.kind!r}")
    metadata = page.metadata or _ListMetadata()
    if not metadata.resource_version:
        raise DecodeError(f"{kind}List without resourceVersion")
    return Page(metadata.resource_version, metadata.continue_token or "", page.items or [])


class ExpiredError(Exception):
    """A list takes so long that its continue token expires again and again."""


def listed_in_pages(
    page_for: Callable[[dict[str, str]], Page | None], query: Mapping[str, str]
) -> Iterator[Raw]:
    """All objects of a list. Raises ExpiredError.

    page_for asks for a page, and returns None where the token in the query has expired: then the
    list begins again, and some objects come twice.
    """
    for _ in range(_ATTEMPTS):
        token = ""
        while True:
            more = {"continue": token} if token else {}
            page = page_for({**query, "limit": str(PAGE_LIMIT), **more})
            if page is None:
                break
            yield from page.items
            token = page.continue_token
            if not token:
                return
    raise ExpiredError("changes too fast")


class Event(Struct):
    """One event of a watch."""

    type: str = ""
    object: Raw = _NULL


class _BookmarkMetadata(Struct, rename="camel"):
    resource_version: str | None = None
    annotations: dict[str, str | None] | None = None


class _BookmarkObject(Struct):
    metadata: _BookmarkMetadata | None = None


class Bookmark(Struct):
    """How far a watch has come."""

    resource_version: str
    ends_initial_events: bool


def bookmark_of(raw: Raw) -> Bookmark:
    """Raises DecodeError."""
    metadata = decode(raw, _BookmarkObject, "object").metadata or _BookmarkMetadata()
    if not metadata.resource_version:
        raise DecodeError("bookmark without resourceVersion")
    ends = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return Bookmark(metadata.resource_version, ends)


class _StatusDetails(Struct, rename="camel"):
    retry_after_seconds: int | None = None


class _Status(Struct):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _StatusDetails | None = None


class Status(Struct):
    """An error of the API server; code 0 where it can't be read."""

    code: int
    message: str
    retry_after: float | None = None


def status_of(raw: bytes | Raw) -> Status:
    """The error in an ERROR event or in the body of a response; never raises."""
    try:
        status = decode(raw, _Status)
    except DecodeError:
        return Status(0, "")
    seconds = status.details.retry_after_seconds if status.details else None
    return Status(
        status.code or 0,
        status.message or status.reason or "",
        float(seconds) if seconds else None,
    )


def revision(resource_version: str | None) -> int | None:
    """A resourceVersion as a number of any size, to be compared; None for one that is no number.

    Comparable for built-in types since 1.35 (KEP-5504).
    """
    if not resource_version or not resource_version.isascii() or not resource_version.isdigit():
        return None
    return int(resource_version) if len(resource_version) <= _MAX_DIGITS else None


def is_older(new: int | None, held: int | None) -> bool:
    """Whether one revision certainly came before the other."""
    return new is not None and held is not None and new < held
