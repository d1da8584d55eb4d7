"""The effort that trying a pod on nodes may take where the pod's author decides about it."""


class TooMuchEffortError(Exception):
    """Trying the pod would take longer than anybody waits for the answer."""


class Effort:
    """Counts requirements that are compared; each takes about a microsecond."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def spend(self, requirements: int) -> None:
        """Raises TooMuchEffortError when all is spent."""
        self._left -= requirements
        if self._left < 0:
            raise TooMuchEffortError
