"""The errors that more than one room raises."""

from typing import Final

#: The beginning of every text in an answer's Error.
ERROR_PREFIX: Final = "runtimeclass-extender: "


class UndecidedError(Exception):
    """The caches are not synced, or the API server does not answer; its text is for the Error."""


def not_synced(what: str) -> UndecidedError:
    return UndecidedError(f"{ERROR_PREFIX}{what} not synced yet")


class UsageError(Exception):
    """What the person at the command line can correct, or must wait for; one line."""


class BadRequestError(ValueError):
    """The body can't be read; the message names the place. Becomes a 400."""


class TooLargeError(BadRequestError):
    """A body over a limit below the server's own; the message names it. Becomes a 413."""


class TooMuchEffortError(Exception):
    """Trying the pod would take longer than anybody waits for the answer."""


class Effort:
    """A budget of comparisons of requirements; each takes about a microsecond."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def spend(self, requirements: int) -> None:
        """Raises TooMuchEffortError when the budget is spent."""
        self._left -= requirements
        if self._left < 0:
            raise TooMuchEffortError
