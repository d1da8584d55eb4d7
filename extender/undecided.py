"""Nothing can be said yet: what both the routes and the cluster's look-ups raise."""

from typing import Final

#: How each text of an answer's Error begins.
ERROR_PREFIX: Final = "runtimeclass-extender: "


class UndecidedError(Exception):
    """Nothing can be said yet; the text goes into the answer's Error."""


class WouldWaitError(Exception):
    """The answer has to wait for something, and whoever asked must not wait."""


def not_synced(what: str) -> UndecidedError:
    """What is said until all of one kind of object is known."""
    return UndecidedError(f"{ERROR_PREFIX}{what} not synced yet")
