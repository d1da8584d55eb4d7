"""Go's time.ParseDuration, as far as configurations need it."""

import re
from typing import Final

_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_PART: Final = re.compile(r"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<unit>ns|us|µs|μs|ms|s|m|h)")
_MAX_TEXT: Final = 100


def parse_duration(text: str) -> float | None:
    """Seconds, or None for what is no duration."""
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0.0
    if not rest or len(rest) > _MAX_TEXT:
        return None
    seconds, position = 0.0, 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            return None
        seconds += float(part["number"]) * _UNITS[part["unit"]]
        position = part.end()
    return sign * seconds
