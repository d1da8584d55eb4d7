"""Reads a cluster once, in pages: for commands that print something and end."""

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

from msgspec import Raw

from extender.cluster.api_connection import ApiConnection, ConnectionFaultError
from extender.cluster.api_objects import (
    ExpiredError,
    Page,
    listed_in_pages,
    page_of,
    status_of,
    whole_body,
)
from extender.cluster.cluster_config import ClusterConfig
from extender.cluster.kinds import NAMESPACES, NODES, PODS, RUNTIME_CLASSES, Kind, pod_path
from extender.cluster.manifest_objects import Manifests
from extender.decoding.class_using_objects import RawNodeState, is_ready
from extender.decoding.decoder import DecodeError, decode
from extender.decoding.explained_pods import explained_pod
from extender.decoding.nodes import RawNode, node_of
from extender.decoding.runtime_classes import (
    RawNamespace,
    RawRuntimeClass,
    namespace_of,
    runtime_class_of,
)
from extender.flags import UsageError
from extender.objects import Namespace, Pod, RuntimeClass
from extender.reasons import shown

_LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")

_SILENCE_SECONDS: Final = 30.0

#: The message for a 403.
_WHO_MAY: Final = "ClusterRole runtimeclass-viewer of scheduler-config/viewer gives the right"


class ReadError(UsageError):
    """The cluster could not be read; one line that says what was asked and why it failed."""


class ForbiddenError(ReadError):
    """The API server knows who asks, and denies the request."""


class ClusterReader:
    """Reads what a command needs of a cluster, in one thread. All methods raise ReadError."""

    def __init__(self, config: ClusterConfig, *, silence: float = _SILENCE_SECONDS) -> None:
        """silence: seconds without a byte after which a request fails."""
        self._config = config
        self._silence = silence
        self._connection = ApiConnection(config)

    def read_into(self, loaded: Manifests, *, nodes: bool = True) -> None:
        """Put all RuntimeClasses, and unless nodes is false all Nodes, into `loaded`."""
        loaded.runtime_classes.update(self.runtime_classes())
        for raw in self.objects(NODES) if nodes else ():
            node = node_of(self.decoded(raw, RawNode))
            loaded.nodes[node.name] = node
            if loaded.uses is not None and not is_ready(self.decoded(raw, RawNodeState)):
                loaded.uses.not_ready.add(node.name)

    def runtime_classes(self) -> Mapping[str, RuntimeClass]:
        """All of them, by name."""
        found = (
            runtime_class_of(self.decoded(raw, RawRuntimeClass))
            for raw in self.objects(RUNTIME_CLASSES)
        )
        return {each.name: each for each in found}

    def namespaces(self, name: str = "") -> Mapping[str, Namespace]:
        """All Namespaces by name, or the one that is named."""
        query = {"fieldSelector": f"metadata.name={name}"} if name else {}
        found = self.objects(NAMESPACES, query)
        return dict(namespace_of(self.decoded(raw, RawNamespace)) for raw in found)

    def pending_pods(self) -> Mapping[str, Pod]:
        """The pods in phase Pending, by NAMESPACE/NAME."""
        found = {}
        for raw in self.objects(PODS, {"fieldSelector": "status.phase=Pending"}):
            pod = self.explained(raw)
            found[f"{pod.namespace}/{pod.name}"] = pod
        return found

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """One pod; None when there is none."""
        path = pod_path(namespace, name)
        status, body = self._get(path, {})
        if status == HTTPStatus.NOT_FOUND:
            return None
        self._check(path, status, body)
        return self.explained(Raw(body))

    def explained(self, raw: Raw) -> Pod:
        """A pod with all that explain reads of it."""
        try:
            return explained_pod(raw)
        except DecodeError as error:
            raise ReadError(str(error)) from None

    @staticmethod
    def decoded(raw: Raw, kind: type[T]) -> T:
        """An object decoded into a struct."""
        try:
            return decode(raw, kind)
        except DecodeError as error:
            raise ReadError(str(error)) from None

    def objects(self, kind: Kind, query: Mapping[str, str] | None = None) -> Iterator[Raw]:
        """All objects of a kind, a page at a time.

        When a list takes so long that its token expires, it begins again, and some objects come
        twice.
        """
        try:
            yield from listed_in_pages(partial(self._page, kind), query or {})
        except ExpiredError as error:
            raise ReadError(f"{self._config.host}{kind.path}: {error}") from None

    def _page(self, kind: Kind, query: dict[str, str]) -> Page | None:
        status, body = self._get(kind.path, query)
        if status == HTTPStatus.GONE and "continue" in query:
            return None
        self._check(kind.path, status, body)
        try:
            return page_of(body, kind.name)
        except DecodeError as error:
            raise ReadError(f"{self._config.host}{kind.path}: {error}") from None

    def _get(self, path: str, query: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            response = self._connection.get(path, query, silence=self._silence)
            if response.status == HTTPStatus.UNAUTHORIZED:
                response.close()
                self._connection.rejected()
                response = self._connection.get(path, query, silence=self._silence)
            body = whole_body(response, self._silence)
        except ConnectionFaultError as error:
            raise ReadError(f"{self._config.host}: {error}") from None
        _LOG.debug("asked", extra={"path": path, "status": response.status, "bytes": len(body)})
        return response.status, body

    def _check(self, path: str, status: int, body: bytes) -> None:
        if status != HTTPStatus.OK:
            said = f"{self._config.host}{path}: {status} {shown(status_of(body).message)}".rstrip()
            if status == HTTPStatus.FORBIDDEN:
                raise ForbiddenError(f"{said}; {_WHO_MAY}")
            raise ReadError(said)
