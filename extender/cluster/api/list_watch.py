"""The list/watch protocol as a state machine: what to ask next, and how long to wait first.

It has no I/O and no clock; `extender.cluster.api.reflector` sends the requests. Follows client-go
tools/cache/reflector.go, v1.36.2, with the differences in docs/decisions.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from http import HTTPStatus
from typing import Final

from extender.cluster.api.objects import PAGE_LIMIT, is_older, revision

FIRST_DELAY: Final = 0.8
MAX_DELAY: Final = 30.0
QUIET_SECONDS: Final = 120.0

#: A longer Retry-After is cut to this.
MAX_RETRY_AFTER: Final = 60.0

#: Delays are up to a quarter longer, at most MAX_DELAY, so that clients don't return together.
_JITTER: Final = 0.25

#: A watch that ends sooner counts as failed, to avoid a busy loop if the server ends each watch.
SHORT_WATCH_SECONDS: Final = 1.0

#: A watch ends after a random time between these, so that load spreads over API servers.
MIN_WATCH_SECONDS: Final = 300
MAX_WATCH_SECONDS: Final = 600

#: Without a new object for this long, the server is assumed not to mark the initial events' end.
INITIAL_EVENTS_SECONDS: Final = 30.0

#: kube-apiserver sends a bookmark a minute (cacher bookmarkFrequency, v1.36.2). A watch that is
#: silent for longer may hang; resuming it at its last version costs one request.
SILENCE_SECONDS: Final = 90.0

#: The longest wait for the first byte of an answer, and between two pieces of a list.
LIST_SILENCE_SECONDS: Final = 60.0

#: The statuses with which a server answers if it does not know sendInitialEvents.
_NOT_SUPPORTED: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_ACCEPTABLE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)


class Step(Enum):
    """What a reflector is doing."""

    STREAM = "watch-list"
    LIST = "list"
    WATCH = "watch"


class Reason(StrEnum):
    """Why a request ended; the label `reason` of watch_restarts_total."""

    CLOSED = "closed"
    RESET = "reset"
    SILENT = "silent"
    UNREACHABLE = "unreachable"
    EXPIRED = "expired"
    THROTTLED = "throttled"
    REFUSED = "refused"
    STATUS = "status"
    GARBAGE = "garbage"
    NO_INITIAL_EVENTS_END = "no_initial_events_end"
    EXCEPTION = "exception"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a request ended. lived: seconds since its answer began. events: number received."""

    reason: Reason
    detail: str = ""
    status: int = 0
    retry_after: float | None = None
    lived: float = 0.0
    events: int = 0


_REASONS: Final[dict[int, Reason]] = {
    HTTPStatus.GONE: Reason.EXPIRED,
    HTTPStatus.TOO_MANY_REQUESTS: Reason.THROTTLED,
    HTTPStatus.UNAUTHORIZED: Reason.REFUSED,
    HTTPStatus.FORBIDDEN: Reason.REFUSED,
}


def reason_of_status(status: int) -> Reason:
    return _REASONS.get(status, Reason.STATUS)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send; query has the parameters that are not empty."""

    step: Step
    query: dict[str, str]

    @property
    def is_first_page(self) -> bool:
        return self.step is Step.LIST and "continue" not in self.query


@dataclass(slots=True)
class Backoff:
    """Delays of 0.8 s, doubling up to 30 s; reset by another reason, or 2 minutes without failure.

    `chance` returns numbers from 0 to 1.
    """

    clock: Callable[[], float]
    chance: Callable[[], float] = random.random
    _reason: Reason | None = None
    _count: int = 0
    _failed_at: float = 0.0

    def delay(self, reason: Reason, *, first_free: bool = False) -> float:
        """Count a failure. Returns the seconds to wait. first_free: 0 for the first failure."""
        now = self.clock()
        if reason is not self._reason or now - self._failed_at > QUIET_SECONDS:
            self._count = 0
        power = self._count - first_free
        self._reason, self._failed_at, self._count = reason, now, min(self._count + 1, 16)
        if power < 0:
            return 0.0
        longest = MAX_DELAY / (1 + _JITTER)
        return min(longest, FIRST_DELAY * 2.0**power) * (1 + _JITTER * self.chance())


class ListWatch:
    """The state of one kind's reflector, owned by its thread. resource_version is "" at first."""

    def __init__(
        self,
        backoff: Backoff,
        *,
        watch_list: bool = True,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._backoff = backoff
        self._streams = watch_list
        self._chance = chance
        self._continue = ""
        self.resource_version = ""
        self.step = self._first_step

    @property
    def _first_step(self) -> Step:
        return Step.STREAM if self._streams else Step.LIST

    def request(self) -> Request:
        if self.step is Step.LIST:
            # client-go sends resourceVersion "0", but kube-apiserver then ignores the limit: 65,000
            # nodes come as one body, which may be older than the last list.
            query = {"limit": str(PAGE_LIMIT)}
            if self._continue:
                query["continue"] = self._continue
            return Request(self.step, query)
        span = MAX_WATCH_SECONDS - MIN_WATCH_SECONDS
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(MIN_WATCH_SECONDS + int(span * self._chance())),
        }
        if self.step is Step.STREAM:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if self.resource_version:
            query["resourceVersion"] = self.resource_version
        return Request(self.step, query)

    def page_received(self, resource_version: str, continue_token: str) -> bool:
        """Note a page. Returns whether it is the last one."""
        self._continue = continue_token
        if not continue_token:
            self.resource_version = resource_version
            self.step = Step.WATCH
        return not continue_token

    def initial_events_ended(self, resource_version: str) -> None:
        self.resource_version = resource_version
        self.step = Step.WATCH

    def moved(self, resource_version: str) -> None:
        """Note the version of an event or bookmark; resource_version never goes back."""
        if self.step is Step.WATCH and not is_older(
            revision(resource_version), revision(self.resource_version)
        ):
            self.resource_version = resource_version

    def ended(self, ending: Ending) -> float:
        """Note the end of a request. Returns the seconds to wait before the next one."""
        # The continue token may no longer be valid, whatever the reason.
        self._continue = ""
        of_step = {
            Step.LIST: self._delay,
            Step.STREAM: self._stream_ended,
            Step.WATCH: self._watch_ended,
        }
        delay = of_step[self.step](ending)
        return max(delay, min(ending.retry_after or 0.0, MAX_RETRY_AFTER))

    def _stream_ended(self, ending: Ending) -> float:
        reason = ending.reason
        if reason is Reason.NO_INITIAL_EVENTS_END or ending.status in _NOT_SUPPORTED:
            self._streams = False
        again = reason in (Reason.THROTTLED, Reason.UNREACHABLE) or (
            reason in (Reason.CLOSED, Reason.RESET) and ending.events > 0
        )
        if again:
            return self._delay(ending)
        self.step = Step.LIST
        return 0.0

    def _watch_ended(self, ending: Ending) -> float:
        reason = ending.reason
        if reason in (Reason.CLOSED, Reason.RESET, Reason.SILENT):
            return 0.0 if ending.lived >= SHORT_WATCH_SECONDS else self._delay(ending)
        if reason not in (Reason.UNREACHABLE, Reason.THROTTLED):
            self.step = self._first_step
        return self._delay(ending)

    def _delay(self, ending: Ending) -> float:
        # A first expired version needs no wait: a list fixes it. If the list expires too, wait.
        return self._backoff.delay(ending.reason, first_free=ending.reason is Reason.EXPIRED)
