"""Log lines: one line each, text or JSON, to stderr. Fields travel in `extra`."""

import atexit
import contextlib
import json
import logging
import logging.handlers
import os
import queue
import time
from typing import Final

from extender.model.reasons import printable

STDERR: Final = 2

#: How many lines may wait to be written, of a few hundred bytes each; more are dropped and counted.
MAX_WAITING_LINES: Final = 10_000

#: How long the end of the process waits for them.
FINISH_SECONDS: Final = 1.0

#: Attributes that every LogRecord has; the others are fields, passed as `extra`.
_STANDARD: Final = frozenset(
    {*logging.LogRecord("", 0, "", 0, "", (), None).__dict__, "message", "asctime", "taskName"}
)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


def _time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


def _json(value: object) -> str:
    """One line of ASCII, whatever a pod's author wrote."""
    return json.dumps(value, default=str)


class TextFormatter(logging.Formatter):
    """TIME LEVEL MESSAGE key=value …"""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if not message.isprintable():
            message = _json(message)
        parts = [_time(record), record.levelname, message]
        parts += [f"{key}={_json(value)}" for key, value in _fields(record).items()]
        line = " ".join(parts)
        if not record.exc_info:
            return line
        return "\n".join([line, *map(printable, self.formatException(record.exc_info).split("\n"))])


class JSONFormatter(logging.Formatter):
    """One JSON object a line: ts, level, msg, logger and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, object] = {
            "ts": _time(record),
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
            "logger": record.name,
            **_fields(record),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return _json(document)


class _Writer(logging.Handler):
    """Writes to stderr without lock or buffer: a stuck write does not delay the process's end."""

    def createLock(self) -> None:  # noqa: N802 (logging's name)
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        # From Python 3.13 on, logging's own takes a lock that is None for one.
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        left = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
        with contextlib.suppress(OSError):
            while left:
                left = left[os.write(STDERR, left) :]


class _Unblocking(logging.handlers.QueueHandler):
    """Hands lines to a thread, and drops them while too many wait: a full stderr stops no verb."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__(queue.Queue(MAX_WAITING_LINES))
        self._writer = _Writer()
        self._writer.setFormatter(formatter)
        self._dropped = 0
        self.begin()
        os.register_at_fork(after_in_child=self.begin)
        atexit.register(self.finish)

    def begin(self) -> None:
        """Start the thread, on a new queue: an inherited one may be locked for ever."""
        self._waiting: queue.Queue[logging.LogRecord] = queue.Queue(MAX_WAITING_LINES)
        self.queue = self._waiting
        logging.handlers.QueueListener(self.queue, self._writer).start()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Leave the record as it is: it stays in this process, with its fields."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped:
                text = f"{self._dropped} log lines were dropped: nobody read them in time"
                told = logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (), None)
                self.queue.put_nowait(told)
                self._dropped = 0
            self.queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def finish(self) -> None:
        """Give the waiting lines a moment to be written."""
        deadline = time.monotonic() + FINISH_SECONDS
        while not self._waiting.empty() and time.monotonic() < deadline:
            time.sleep(FINISH_SECONDS / 100)


def configure(log_format: str, verbosity: int) -> None:
    """Set up the root logger: INFO by default, DEBUG with -v."""
    handler = _Unblocking(JSONFormatter() if log_format == "json" else TextFormatter())
    # Warnings of libraries would otherwise appear between the lines in a format of their own.
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("extender").setLevel(logging.DEBUG if verbosity else logging.INFO)
    if verbosity > 1:
        root.setLevel(logging.DEBUG)
