"""A running service that is asked instead of the API server: --server.

It is reached at its own address, or through the API server's proxy with the kubeconfig's rights.
"""

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
import urllib3

from extender.cluster.api.config import ClusterConfig
from extender.cluster.api.connection import ApiConnection, ApiResponse, ConnectionFaultError, faults
from extender.kubernetes.kinds import pod_path
from extender.model.errors import UsageError
from extender.model.reasons import printable, shown

_SILENCE_SECONDS: Final = 30.0
_MAX_TEXT: Final = 1000

#: NAMESPACE/SERVICE:PORT
_IN_CLUSTER: Final = re.compile(r"([a-z0-9-]+)/(?:http:)?([a-z0-9-]+):([a-z0-9-]+)")

#: The keys of an answer that are printed. All must be there: another version may have answered.
_EXPLANATION: Final = frozenset(
    {
        *("pod", "runtimeClass", "feasible", "total", "fitting", "nextSteps", "event", "lastEvent"),
        *("summary", "reasons", "requirements", "warnings"),
    }
)
_CLASS_NODES: Final = frozenset({"runtimeClass", "matching", "notMatching", "leftOut", "state"})


class RunningService:
    """The service of --server. Methods raise UsageError, one line that begins with --server."""

    def __init__(self, server: str, config: Callable[[], ClusterConfig]) -> None:
        self._server, self._base = server, server.rstrip("/")
        self._config: ClusterConfig | None = None
        self._connection: ApiConnection | None = None
        proxied = _IN_CLUSTER.fullmatch(server)
        if proxied:
            namespace, service, port = proxied.groups()
            self._base = f"/api/v1/namespaces/{namespace}/services/http:{service}:{port}/proxy"
            self._config = config()
            self._connection = ApiConnection(self._config)
        elif not re.match(r"https?://[^/]", server):
            raise self._error(
                "expected a URL, or NAMESPACE/SERVICE:PORT for the API server's proxy"
            )

    @property
    def namespace(self) -> str | None:
        """The default namespace of the kubeconfig; None without the API server's proxy."""
        return self._config.namespace if self._config else None

    def explained(self, pod: str, body: bytes | None, query: Mapping[str, str]) -> dict[str, Any]:
        """The explanation of the cluster's pod NAMESPACE/NAME, or of the pod in the body.

        Through the proxy, the pod is read with the user's own rights and sent as the body. So a
        user who may only POST to the proxy learns nothing about pods that they may not read.
        """
        if body is None and self._connection:
            body = self._sent("GET", pod_path(*pod.split("/", 1)), None)
        named = {} if body is not None else {"pod": pod}
        return self._answered("/explain", {**named, **query}, _EXPLANATION, body)

    def class_nodes(self, name: str, limit: int | None) -> dict[str, Any]:
        """The nodes that match a class, and the nodes that don't."""
        query = {} if limit is None else {"limit": str(limit)}
        return self._answered(f"/runtimeclasses/{quote(name, safe='')}/nodes", query, _CLASS_NODES)

    def classes(self) -> dict[str, Any]:
        return self._answered("/runtimeclasses", {}, frozenset({"items"}))

    def _answered(
        self,
        path: str,
        query: Mapping[str, str],
        printed: frozenset[str],
        body: bytes | None = None,
    ) -> dict[str, Any]:
        path = f"{self._base}{path}?{urlencode(query)}"
        answer = _object_of(self._sent("GET" if body is None else "POST", path, body))
        lacking = sorted(printed - answer.keys())
        if lacking:
            raise self._error(f"its answer is not this version's: it lacks {', '.join(lacking)}")
        return answer

    def _sent(self, method: str, path: str, body: bytes | None) -> bytes:
        """Send a request, and return the body of a 200."""
        connection = self._connection
        try:
            if connection is None:
                response = _plain(method, path, body)
            elif body is None:
                response = connection.get(path, silence=_SILENCE_SECONDS)
            else:
                response = connection.send(method, path, body, silence=_SILENCE_SECONDS)
            answer = response.read_all(_SILENCE_SECONDS)
        except ConnectionFaultError as error:
            raise self._error(str(error)) from None
        if response.status == HTTPStatus.OK:
            return answer
        said = _object_of(answer)
        text = said.get("error") or said.get("message") or "nothing of that name is there"
        raise self._error(f"{response.status}: {printable(str(text)[:_MAX_TEXT])}")

    def _error(self, text: str) -> UsageError:
        return UsageError(f"--server {shown(self._server)}: {text}")


def _object_of(answer: bytes) -> dict[str, Any]:
    """The answer as a JSON object; empty if it is anything else."""
    try:
        return msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _plain(method: str, url: str, body: bytes | None) -> ApiResponse:
    """Raises ConnectionFaultError."""
    with faults():
        response = urllib3.PoolManager().request(
            method,
            url,
            body=body,
            timeout=urllib3.Timeout(connect=10.0, read=_SILENCE_SECONDS),
            retries=False,
            redirect=False,
            preload_content=False,
        )
    return ApiResponse(response, None)
