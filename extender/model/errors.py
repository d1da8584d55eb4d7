"""The errors that more than one room raises."""

from typing import Final

#: The beginning of every text in an answer's Error.
ERROR_PREFIX: Final = "runtimeclass-extender: "


class UndecidedError(Exception):
    """The caches are not synced, or the API server does not answer. The text goes into Error."""


def not_synced(what: str) -> UndecidedError:
    return UndecidedError(f"{ERROR_PREFIX}{what} not synced yet")


class UsageError(Exception):
    """A fault that the user of a command can fix, or has to wait out. The text is one line."""


class BadRequestError(ValueError):
    """The request is malformed; the message names the place. Becomes a 400."""


class TooLargeError(BadRequestError):
    """The body exceeds a verb's own limit; the message names the limit. Becomes a 413."""


class TooMuchEffortError(Exception):
    """The Effort is spent: judging the pod would take longer than the client waits."""


class Effort:
    """A budget of requirement comparisons, at about a microsecond each."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def spend(self, requirements: int) -> None:
        """Raises TooMuchEffortError when the budget is spent."""
        self._left -= requirements
        if self._left < 0:
            raise TooMuchEffortError
