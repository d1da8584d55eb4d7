"""When a reflector last heard of the API server, and what has gone wrong since."""

import logging
import time
from collections.abc import Callable
from typing import Final

from extender.cluster.api.connection import CONNECT_SECONDS
from extender.cluster.api.list_watch import (
    SHORT_WATCH_SECONDS,
    SILENCE_SECONDS,
    Ending,
    Reason,
    Step,
)
from extender.cluster.rate_limit import LogLimit
from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.kinds import Kind

#: kube-apiserver refuses everybody for a moment after its start, until it has read its roles.
DOUBTED_SECONDS: Final = 2.0


class Refusals:
    """The refusals in a row, 401 and 403. For one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None

    def is_believed(self) -> bool:
        """Count a refusal; whether it has been like this for DOUBTED_SECONDS."""
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since >= DOUBTED_SECONDS

    def over(self) -> None:
        """A request has been granted."""
        self._since = None


_LOG: Final = logging.getLogger(__name__)

#: Readiness tells of a longer silence: by then a silent watch has been begun again and answered.
_QUIET_SECONDS: Final = SILENCE_SECONDS + CONNECT_SECONDS


class Contact:
    """The contact of one reflector with the API server: for readiness, the gauge and the log.

    The reflector's thread writes it; any thread reads `describe` and `heard_at_epoch`.
    """

    def __init__(self, kind: Kind, clock: Callable[[], float]) -> None:
        self._kind = kind
        self._clock = clock
        self._limit = LogLimit(_LOG, clock)
        self._refusals = Refusals(clock)
        self._trouble = ""
        self._heard_at: float | None = None
        #: Seconds since the epoch of the last contact; 0 before the first.
        self.heard_at_epoch = 0.0

    def describe(self) -> str:
        """Empty while all is well; else what is wrong, and how old the state is."""
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

    def watching(self) -> None:
        """A watch has begun, so no right is missing."""
        self._refusals.over()
        self.heard()

    def skipped(self, error: DecodeError) -> None:
        """An object could not be read."""
        self._limit.say(
            logging.WARNING,
            "skip",
            "object skipped",
            resource=self._kind.resource,
            cause=str(error),
        )

    def lost(self, ending: Ending, step: Step, delay: float) -> None:
        """A request has ended, and the next one follows in `delay` seconds."""
        reason = ending.reason
        if reason in (Reason.CLOSED, Reason.SILENT) and ending.lived >= SHORT_WATCH_SECONDS:
            # The server ends a watch after some minutes, and a watch on a kind without changes
            # stays empty: before the first event there is no bookmark either (kube-apiserver's
            # cacher, dispatchEvents, v1.36.2). A real fault shows in the next request.
            return
        self._trouble = ending.detail or reason.value
        # A list replaces the watch-list, and it begins at once.
        falls_back = step is Step.STREAM and not delay
        level = logging.INFO if reason is Reason.EXPIRED or falls_back else logging.WARNING
        text = f"{step.value} of {self._kind.resource} ended, trying again"
        topic = reason.value
        if reason is Reason.REFUSED and self._refusals.is_believed():
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
