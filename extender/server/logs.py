"""Writes each log record to stderr as one line of text or JSON. Fields are passed in `extra`."""

import contextlib
import json
import logging
import os
import select
import time
from typing import Final

from extender.model.reasons import printable

STDERR: Final = 2

#: Attributes that every LogRecord has. All others are fields, passed in `extra`.
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


class _Unblocking(logging.Handler):
    """Writes to stderr. A line is dropped if the pipe is full: waiting would stop all verbs."""

    def emit(self, record: logging.LogRecord) -> None:
        line = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
        with contextlib.suppress(OSError):
            # A writable pipe takes PIPE_BUF bytes at once. A longer write might block.
            while line and select.select([], [STDERR], [], 0)[1]:
                line = line[os.write(STDERR, line[: select.PIPE_BUF]) :]


def configure(log_format: str, verbosity: int) -> None:
    """Set up the root logger: INFO by default, DEBUG with -v."""
    handler = _Unblocking()
    handler.setFormatter(JSONFormatter() if log_format == "json" else TextFormatter())
    # Otherwise warnings of libraries would appear in a format of their own.
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("extender").setLevel(logging.DEBUG if verbosity else logging.INFO)
    if verbosity > 1:
        root.setLevel(logging.DEBUG)
