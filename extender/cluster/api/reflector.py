"""Keeps the feeds of one kind in step with the API server, by the list/watch protocol.

Its thread owns feeds, connection and ListWatch. Other threads read `contact` and call `stop`.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Raw

from extender.cluster.api.connection import (
    CONNECT_SECONDS,
    ApiConnection,
    ApiResponse,
    ConnectionFaultError,
    SilentError,
    UnreachableError,
)
from extender.cluster.api.list_watch import (
    INITIAL_EVENTS_SECONDS,
    LIST_SILENCE_SECONDS,
    SHORT_WATCH_SECONDS,
    SILENCE_SECONDS,
    Ending,
    ListWatch,
    Reason,
    Request,
    Step,
    reason_of_status,
)
from extender.cluster.api.objects import Event, EventStream, bookmark_of, page_of, status_of
from extender.cluster.node_and_class_feeds import Feed
from extender.cluster.rate_limit import LogLimit
from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.kinds import Kind
from extender.verbs.metrics import Metrics

_LOG: Final = logging.getLogger(__name__)

#: The longest silence in the body of an error, which should arrive at once.
_STATUS_SECONDS: Final = 5.0

#: How long each request may wait for its answer.
_SILENCES: Final = {
    Step.LIST: LIST_SILENCE_SECONDS,
    Step.STREAM: INITIAL_EVENTS_SECONDS,
    Step.WATCH: SILENCE_SECONDS,
}

_KNOWN: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})

#: Waits until an event is set, at most for some seconds. Returns whether it is set.
Pause = Callable[[threading.Event, float], bool]

#: A longer silence shows in readiness. A silent watch would have been restarted by then.
_QUIET_SECONDS: Final = SILENCE_SECONDS + CONNECT_SECONDS

#: More refusals than this mean a missing right. kube-apiserver refuses every client for a
#: moment after its start, until it has read its roles.
_DOUBTED_REFUSALS: Final = 3


class Contact:
    """The contact of one reflector with the API server: for readiness, the gauge and the log.

    The reflector's thread writes it; any thread may use `describe` and `heard_at_epoch`.
    """

    def __init__(self, kind: Kind, clock: Callable[[], float]) -> None:
        self._kind = kind
        self._clock = clock
        self._limit = LogLimit(_LOG, clock)
        #: Answers 401 and 403 since the last watch that was granted: a right may be missing.
        self.refusals = 0
        self._trouble = ""
        self._heard_at: float | None = None
        #: Seconds since the epoch of the last contact; 0 before the first.
        self.heard_at_epoch = 0.0

    def describe(self) -> str:
        """Empty while all is well; else the fault, and the age of the state."""
        trouble, heard_at = self._trouble, self._heard_at
        if heard_at is None:
            return f"nothing heard of the API server yet: {trouble}" if trouble else ""
        age = self._clock() - heard_at
        if not trouble and age < _QUIET_SECONDS:
            return ""
        cause = f": {trouble}" if trouble else ""
        return f"last contact {age:.0f}s ago, answering from the state of that time{cause}"

    def heard(self) -> None:
        self._heard_at = self._clock()
        self.heard_at_epoch = time.time()
        self._trouble = ""

    def skipped(self, error: DecodeError) -> None:
        """Log an object that could not be read."""
        about = {"resource": self._kind.resource, "cause": str(error)}
        self._limit.say(logging.WARNING, "skip", "object skipped", **about)

    def lost(self, ending: Ending, step: Step, delay: float) -> None:
        """Note the end of a request; the next one follows in `delay` seconds."""
        reason = ending.reason
        if reason in (Reason.CLOSED, Reason.SILENT) and ending.lived >= SHORT_WATCH_SECONDS:
            # The server ends a watch after some minutes, and a watch on a kind without changes
            # stays empty: before the first event there is no bookmark either (kube-apiserver's
            # cacher, dispatchEvents, v1.36.2). A real fault shows in the next request.
            return
        self._trouble = ending.detail or reason.value
        # A list replaces the failed watch-list at once.
        falls_back = step is Step.STREAM and not delay
        level = logging.INFO if reason is Reason.EXPIRED or falls_back else logging.WARNING
        text = f"{step.value} of {self._kind.resource} ended, trying again"
        topic = reason.value
        if reason is Reason.REFUSED:
            self.refusals += 1
            if self.refusals > _DOUBTED_REFUSALS:
                topic = "missing"
                level, text = logging.ERROR, self._what_is_missing(ending.status, step)
        self._limit.say(level, topic, text, cause=self._trouble, retryInSeconds=round(delay, 1))

    def _what_is_missing(self, status: int, step: Step) -> str:
        resource = self._kind.resource
        if status == 401:
            return (
                f"the API server does not accept our credentials for {resource}: "
                "check the token or client certificate; reading them again"
            )
        verb = "list" if step is Step.LIST else "watch"
        return f"missing permission: {verb} {resource} at cluster scope; add it to the ClusterRole"


class Reflector:
    """Follows one kind from `start` to `stop`, whatever goes wrong meanwhile.

    Each feed gets all objects, in order: if one can't decode an object, later feeds don't get it.
    """

    def __init__(
        self,
        kind: Kind,
        feeds: Sequence[Feed[Any]],
        connection: ApiConnection,
        list_watch: ListWatch,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Pause = threading.Event.wait,
        rest: float = 0.0,
    ) -> None:
        """rest: the seconds between two reads of a watch, so that events are read together."""
        self.kind = kind
        self._feeds = feeds
        self._connection = connection
        self._list_watch = list_watch
        self._metrics = metrics
        self._clock = clock
        self._stopping = threading.Event()
        self._pause = pause
        self._rest = rest
        self._asked_at = clock()
        self.contact = Contact(kind, clock)
        name = f"reflector-{kind.resource}"
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop at once, whatever the thread is doing. Does not wait for the thread."""
        self._stopping.set()
        self._connection.interrupt()

    def run(self) -> None:
        """The thread's work; returns only after `stop`."""
        while not self._stopping.is_set():
            ending: Ending | None
            try:
                ending = self._step()
            except Exception as error:
                ending = Ending(Reason.EXCEPTION, repr(error))
                if not self._stopping.is_set():
                    _LOG.exception("following %s failed; going on", self.kind.resource)
            if self._stopping.is_set():
                return
            if ending is not None:
                step = self._list_watch.step
                delay = self._list_watch.ended(ending)
                self._metrics.restart(self.kind.name, ending.reason)
                self.contact.lost(ending, step, delay)
                self._pause(self._stopping, delay)

    def _step(self) -> Ending | None:
        """Send a request and take its answer. Returns None if the next request follows at once."""
        request = self._list_watch.request()
        if request.is_first_page or request.step is Step.STREAM:
            self._asked_at = self._clock()
        try:
            response = self._connection.get(
                self.kind.path, request.query, silence=_SILENCES[request.step]
            )
        except SilentError as error:
            return Ending(_silence_of(request.step), str(error))
        except ConnectionFaultError as error:
            return Ending(Reason.UNREACHABLE, str(error))
        try:
            if response.status != 200:
                return self._refused(response)
            if request.step is Step.LIST:
                return self._take_page(request, response)
            return self._follow(request, response)
        finally:
            response.close()

    def _refused(self, response: ApiResponse) -> Ending:
        try:
            status = status_of(response.read_all(_STATUS_SECONDS))
        except ConnectionFaultError:
            status = status_of(b"")
        return Ending(
            reason_of_status(response.status),
            f"HTTP {response.status} {status.message}".rstrip(),
            response.status,
            response.retry_after,
        )

    def _take_page(self, request: Request, response: ApiResponse) -> Ending | None:
        try:
            page = page_of(response.read_all(LIST_SILENCE_SECONDS), self.kind.name)
        except DecodeError as error:
            return Ending(Reason.GARBAGE, str(error))
        except ConnectionFaultError as error:
            return Ending(_reason_of_fault(error), str(error))
        self.contact.heard()
        if request.is_first_page:
            self._begin()
        for item in page.items:
            try:
                self._collect(item)
            except DecodeError as error:
                self.contact.skipped(error)
        if self._list_watch.page_received(page.resource_version, page.continue_token):
            self._commit(page.resource_version)
        return None

    def _begin(self) -> None:
        for feed in self._feeds:
            feed.begin()

    def _collect(self, raw: Raw, *, deleted: bool = False) -> None:
        for feed in self._feeds:
            feed.collect(raw, deleted=deleted)

    def _flush(self) -> None:
        for feed in self._feeds:
            feed.flush()

    def _commit(self, resource_version: str) -> None:
        count = self._feeds[0].collected
        for feed in self._feeds:
            feed.commit()
            feed.positioned(resource_version)
        seconds = round(self._clock() - self._asked_at, 3)
        about = {"resource": self.kind.resource, "objects": count}
        version = {"resourceVersion": resource_version}
        _LOG.info("synced", extra={**about, **version, "seconds": seconds})

    def _follow(self, request: Request, response: ApiResponse) -> Ending:
        self.contact.refusals = 0
        self.contact.heard()
        if request.step is Step.STREAM:
            self._begin()
        watch = _Watch(self._clock())
        try:
            return self._read(response, watch)
        except ConnectionFaultError as error:
            reason = _reason_of_fault(error)
            if reason is Reason.SILENT:
                reason = _silence_of(self._list_watch.step)
            return self._ending(watch, reason, str(error))
        except DecodeError as error:
            return self._ending(watch, Reason.GARBAGE, str(error))
        finally:
            self._flush()

    def _read(self, response: ApiResponse, watch: "_Watch") -> Ending:
        while True:
            silence = SILENCE_SECONDS
            if self._list_watch.step is Step.STREAM:
                silence = watch.progress_at + INITIAL_EVENTS_SECONDS - self._clock()
                if silence <= 0:
                    detail = f"no new object for {INITIAL_EVENTS_SECONDS:.0f}s"
                    return self._ending(watch, Reason.NO_INITIAL_EVENTS_END, detail)
            data = response.read_some(silence)
            if not data:
                cut = "" if watch.stream.is_between_events else "in the middle of an event"
                return self._ending(watch, Reason.CLOSED, cut)
            self.contact.heard()
            for event in watch.stream.feed(data):
                watch.events += 1
                ending = self._take(event, watch)
                if ending is not None:
                    return ending
            if not response.has_more:
                self._flush()
                if self._rest and self._list_watch.step is Step.WATCH:
                    self._pause(self._stopping, self._rest)

    def _take(self, event: Event, watch: "_Watch") -> Ending | None:
        """Take one event. Returns how the watch ends if it ends with this event."""
        known = event.type if event.type in _KNOWN else "unknown"
        self._metrics.event(self.kind.name, known)
        if known == "unknown":
            detail = f"unknown event type {event.type[:40]!r}"
            return self._ending(watch, Reason.GARBAGE, detail)
        if event.type == "ERROR":
            status = status_of(event.object)
            detail = f"ERROR event {status.code} {status.message}".rstrip()
            return self._ending(watch, reason_of_status(status.code), detail, status.code)
        try:
            if event.type == "BOOKMARK":
                self._take_bookmark(event)
            else:
                self._take_change(event, watch)
        except DecodeError as error:
            self.contact.skipped(error)
        return None

    def _take_change(self, event: Event, watch: "_Watch") -> None:
        deleted = event.type == "DELETED"
        if self._list_watch.step is not Step.STREAM:
            for feed in self._feeds:
                version = feed.change(event.object, deleted=deleted)
            self._moved(version)
            return
        self._collect(event.object, deleted=deleted)
        if event.type == "ADDED":
            watch.progress_at = self._clock()

    def _take_bookmark(self, event: Event) -> None:
        resource_version, ends_initial_events = bookmark_of(event.object)
        if self._list_watch.step is Step.WATCH:
            self._moved(resource_version)
        elif ends_initial_events:
            self._list_watch.initial_events_ended(resource_version)
            self._commit(resource_version)

    def _moved(self, resource_version: str) -> None:
        self._list_watch.moved(resource_version)
        for feed in self._feeds:
            feed.positioned(self._list_watch.resource_version)

    def _ending(self, watch: "_Watch", reason: Reason, detail: str, status: int = 0) -> Ending:
        lived = self._clock() - watch.began_at
        return Ending(reason, detail, status, lived=lived, events=watch.events)


class _Watch:
    """The state of the watch that is being read."""

    def __init__(self, now: float) -> None:
        self.stream = EventStream()
        self.began_at = self.progress_at = now
        self.events = 0


def _silence_of(step: Step) -> Reason:
    return Reason.NO_INITIAL_EVENTS_END if step is Step.STREAM else Reason.SILENT


def _reason_of_fault(error: ConnectionFaultError) -> Reason:
    if isinstance(error, SilentError):
        return Reason.SILENT
    return Reason.UNREACHABLE if isinstance(error, UnreachableError) else Reason.RESET
