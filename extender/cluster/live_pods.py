"""Asks the API server for one pod, for GET /explain: no cache holds pods."""

from extender.cluster.cluster_config import ClusterConfig
from extender.cluster.reading_once import ClusterReader, ReadError
from extender.objects import Pod
from extender.undecided import ERROR_PREFIX, UndecidedError

#: A person waits for this; kube-scheduler's calls are served by other threads meanwhile.
LIMIT_SECONDS = 5.0


class LivePods:
    """Safe to use from any thread: each call has a connection of its own."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config

    def __call__(self, namespace: str, name: str) -> Pod | None:
        """None when there is no such pod. Raises UndecidedError without an answer."""
        try:
            return ClusterReader(self._config, silence=LIMIT_SECONDS).find_pod(namespace, name)
        except ReadError as error:
            raise UndecidedError(f"{ERROR_PREFIX}{error}") from None
