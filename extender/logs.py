"""Log lines: one line each, text or JSON, to stderr. Fields travel in `extra`."""

import json
import logging
import sys
import time
from typing import Final

import orjson

from extender.printable import printable

#: Attributes that every LogRecord has; whatever else it has came in by `extra`.
_STANDARD: Final = frozenset(
    {*logging.LogRecord("", 0, "", 0, "", (), None).__dict__, "message", "asctime", "taskName"}
)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


def _time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


def _quoted(value: object) -> str:
    # Values may come from a pod's author: quoting keeps a line one line.
    return _json(value)


def _json(value: object) -> str:
    """One line of JSON; what moves a cursor or is half a character is escaped."""
    try:
        text = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        if text.isprintable():
            return text
    except TypeError:  # a file's name that is no UTF-8, as os.fsdecode gives it
        pass
    return json.dumps(value, default=str)


class TextFormatter(logging.Formatter):
    """TIME LEVEL MESSAGE key=value …"""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if not message.isprintable():
            message = _quoted(message)
        parts = [_time(record), record.levelname, message]
        parts += [f"{key}={_quoted(value)}" for key, value in _fields(record).items()]
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


def configure(log_format: str, verbosity: int) -> None:
    """Set up the root logger: INFO by default, DEBUG with -v."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter() if log_format == "json" else TextFormatter())
    # What libraries warn of would stand between the lines as text of its own form.
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("extender").setLevel(logging.DEBUG if verbosity else logging.INFO)
    if verbosity > 1:
        root.setLevel(logging.DEBUG)
