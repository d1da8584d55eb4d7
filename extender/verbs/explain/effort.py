"""A budget for trying a pod on nodes, where the pod's author decides how much work that is."""


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
