"""Asks the API server for one pod and its Namespace, for GET /explain: no cache holds either."""

from extender.admission.namespace_rules import NamespaceRules, rules_of
from extender.cluster.cluster_config import ClusterConfig
from extender.cluster.reading_once import ClusterReader, ReadError
from extender.objects import Pod
from extender.undecided_errors import ERROR_PREFIX, UndecidedError

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

    def rules_of_namespace(self, namespace: str) -> NamespaceRules | None:
        """None if unknown: the service may lack the right to list Namespaces."""
        try:
            found = ClusterReader(self._config, silence=LIMIT_SECONDS).namespaces(namespace)
        except ReadError:
            return None
        known = found.get(namespace)
        return rules_of(namespace, known.annotations) if known else None
