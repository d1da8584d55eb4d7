"""The errors of a question that can't be answered yet, which routes and look-ups raise."""

from typing import Final

#: The beginning of every text in an answer's Error.
ERROR_PREFIX: Final = "runtimeclass-extender: "


class UndecidedError(Exception):
    """The caches are not synced, or the API server does not answer; its text is for the Error."""


class WouldWaitError(Exception):
    """The answer would have to wait, and the caller does not allow it."""


def not_synced(what: str) -> UndecidedError:
    """The error until all objects of a kind are known."""
    return UndecidedError(f"{ERROR_PREFIX}{what} not synced yet")
