"""Asks the API server for a class that the cache does not have: the cache may lag.

Only the API server's 404 says that there is no such class.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import quote

from msgspec import Raw

from extender.cluster.api_connection import ConnectionFaultError
from extender.cluster.api_objects import Response, refusal_text, status_of, whole_body
from extender.cluster.kinds import RUNTIME_CLASSES
from extender.cluster.node_and_class_feeds import RuntimeClassFeed
from extender.cluster.rate_limit import TokenBucket
from extender.decoding.decoder import DecodeError
from extender.objects import RuntimeClass
from extender.reasons import shown
from extender.undecided_errors import ERROR_PREFIX, UndecidedError
from extender.validation.name_rules import validate_node_name

_LOG: Final = logging.getLogger(__name__)

#: The longest that a request waits, whatever the connection does.
LIMIT_SECONDS: Final = 1.0

#: An answer, or the lack of one, is used for further requests with that name this long.
REUSE_SECONDS: Final = 1.0

#: Look-ups a second, for all names together.
QUESTIONS_PER_SECOND: Final = 10

#: Look-ups that have not ended, though nobody waits for them any more, as when a DNS server does
#: not answer; each has a thread.
MAX_UNDER_WAY: Final = 8

#: No RuntimeClass is larger than what etcd stores.
_MAX_BYTES: Final = 4 * 2**20


class Connection(Protocol):
    """What a look-up needs of a connection; see api_connection.ApiConnection."""

    def get(
        self, path: str, query: Mapping[str, str], *, silence: float, connect: float
    ) -> Response: ...
    def rejected(self) -> None: ...


@dataclass(slots=True)
class _Question:
    """One name looked up; once `done` is set, the answer is there: a class, None or a fault."""

    asked_at: float
    done: threading.Event = field(default_factory=threading.Event)
    answer: RuntimeClass | None = None
    fault: str = ""


class LiveLookup:
    """One GET for a missing class, for request threads; a class found is put into the store."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        feed: RuntimeClassFeed,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._feed = feed
        self._clock = clock
        self._lock = threading.Lock()
        self._bucket = TokenBucket(QUESTIONS_PER_SECOND, QUESTIONS_PER_SECOND, clock)
        self._questions: dict[str, _Question] = {}
        self._idle: deque[Connection] = deque(maxlen=MAX_UNDER_WAY)
        self._places = threading.BoundedSemaphore(MAX_UNDER_WAY)

    def __call__(self, name: str) -> RuntimeClass | None:
        """None when there is no such class. Raises UndecidedError without an answer in time."""
        if validate_node_name(name):
            # Names of classes follow the same rules as those of nodes: there is no class of this
            # name.
            return None
        question = self._question(name)
        left = question.asked_at + LIMIT_SECONDS - self._clock()
        if not question.done.wait(max(0.0, left)):
            raise _undecided(name, f"no answer within {LIMIT_SECONDS:g} s")
        if question.fault:
            raise _undecided(name, question.fault)
        return question.answer

    def _question(self, name: str) -> _Question:
        now = self._clock()
        with self._lock:
            question = self._questions.get(name)
            if question is not None and self._stands(name, question, now):
                return question
            if not self._bucket.take():
                raise _undecided(name, f"more than {QUESTIONS_PER_SECOND} look-ups a second")
            if not self._places.acquire(blocking=False):
                raise _undecided(name, f"{MAX_UNDER_WAY} look-ups have had no answer yet")
            recent = (each for each in self._questions.items() if now - each[1].asked_at < 1.0)
            self._questions = dict(recent)
            question = self._questions[name] = _Question(now)
        threading.Thread(
            target=self._ask, args=(name, question), name="lookup", daemon=True
        ).start()
        return question

    def _stands(self, name: str, question: _Question, now: float) -> bool:
        """Whether an earlier look-up still answers for one made now."""
        if now - question.asked_at >= REUSE_SECONDS:
            return False
        # A class that was found is in the feed, until the reflector hears that it was deleted.
        return question.answer is None or self._feed.holds(name)

    def _ask(self, name: str, question: _Question) -> None:
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            question.answer = self._get(connection, name)
            self._idle.append(connection)
        except (ConnectionFaultError, DecodeError, _RefusedError) as error:
            question.fault = str(error)
        except Exception as error:
            _LOG.exception("looking for RuntimeClass %s failed", name)
            question.fault = repr(error)
        finally:
            self._places.release()
            question.done.set()

    def _get(self, connection: Connection, name: str) -> RuntimeClass | None:
        path = f"{RUNTIME_CLASSES.path}/{quote(name, safe='')}"
        response = connection.get(path, {}, silence=LIMIT_SECONDS, connect=LIMIT_SECONDS)
        body = whole_body(response, LIMIT_SECONDS, _MAX_BYTES)
        if response.status == 200:
            return self._feed.offer(Raw(body))
        if response.status == 404 and status_of(body).code == 404:
            return None
        if response.status == 401:
            connection.rejected()
        missing = "; add get runtimeclasses to the ClusterRole" if response.status == 403 else ""
        raise _RefusedError(refusal_text(response, body) + missing)


class _RefusedError(Exception):
    """The API server has answered, but not whether there is such a class."""


def _undecided(name: str, cause: str) -> UndecidedError:
    return UndecidedError(
        f'{ERROR_PREFIX}RuntimeClass "{shown(name)}" is not in the cache, '
        f"and the API server could not be asked: {cause}"
    )
