"""Reads objects on demand and does not keep them: from a cluster in pages, or from manifests."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple, ParamSpec, TypeVar

from msgspec import Raw, Struct

from extender.cluster.api.config import ClusterConfig
from extender.cluster.api.connection import (
    ApiConnection,
    ConnectionFaultError,
    StatusError,
    fetched,
    listed,
)
from extender.cluster.manifest_objects import Manifests
from extender.kubernetes import kinds
from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.namespaces import NamespaceRules, rules_of
from extender.kubernetes.nodes import NodeReader, RawNode, is_ready
from extender.kubernetes.pods import RawPod, placed_pod_of
from extender.kubernetes.resources import PodLoad, load_of, load_of_pod
from extender.kubernetes.runtime_classes import (
    RawNamespace,
    RawRuntimeClass,
    namespace_of,
    runtime_class_of,
)
from extender.kubernetes.versions import Version, version_of
from extender.kubernetes.workloads import WORKLOADS, workload_of
from extender.model.errors import ERROR_PREFIX, UndecidedError, UsageError
from extender.model.names import text_of
from extender.model.objects import Namespace, Node, Pod, RuntimeClass
from extender.model.reasons import shown
from extender.model.using_objects import PlacedPod, Workload
from extender.rules.resource_fit import IDLE, IncomingPod, UncountedError, node_loads

P = ParamSpec("P")
T = TypeVar("T")

_SILENCE_SECONDS: Final = 30.0

#: The user in the API server's message (forbiddenMessage, k8s.io/apiserver, v1.36.2).
_USER: Final = re.compile(r'User "([^"]+)"')


class ReadError(UsageError):
    """The cluster could not be read. The text is one line: the address and the cause."""


class ForbiddenError(ReadError):
    """The API server denies the request (403). also: what else the user may not list."""

    def __init__(self, said: str, also: Sequence[str] = ()) -> None:
        self.said = said
        lacks = f"; nor may it list {', '.join(also)}" if also else ""
        user = _USER.search(said)
        name = shlex.quote(user[1] if user else "USER")
        super().__init__(
            f"{said}{lacks}; an administrator grants all rights with: kubectl create"
            " clusterrolebinding runtimeclass-viewer --clusterrole=runtimeclass-viewer"
            f" --user={name} (the role is in install/viewer.yaml); or use --manifests with an"
            " export"
        )


def _read(read: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    try:
        return read(*args, **more)
    except DecodeError as error:
        raise ReadError(str(error)) from None


class FoundPod(NamedTuple):
    """An unfinished pod. explained: as `explain` reads it. load: the room that it takes."""

    placed: PlacedPod
    explained: Callable[[], Pod]
    load: Callable[[], PodLoad | None]


class ManifestReader:
    """Reads manifests. `pods`, `workloads`, `node_templates` are empty without Manifests.uses."""

    def __init__(self, loaded: Manifests) -> None:
        self._loaded = loaded

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        return self._loaded.pods.get(f"{namespace}/{name}")

    def pending_pods(self) -> Mapping[str, Pod]:
        """The unfinished pods by NAMESPACE/NAME, as manifests may not say which are bound."""
        return {key: pod for key, pod in self._loaded.pods.items() if not pod.state.is_finished}

    def pods(self, namespace: str = "", *, pending: bool = False) -> Iterator[FoundPod]:
        uses = self._loaded.uses
        for key, pod in sorted(uses.pods.items() if uses else ()):
            wanted = not namespace or pod.namespace == namespace
            if wanted and not pod.finished and not (pending and pod.node):
                yield FoundPod(
                    pod,
                    lambda key=key: self._loaded.pods[key],  # type: ignore[misc]
                    lambda key=key: load_of_pod(self._loaded.pods[key]),  # type: ignore[misc]
                )

    def workloads(self) -> Iterator[Workload]:
        uses = self._loaded.uses
        yield from uses.workloads.values() if uses else ()

    def node_templates(self) -> Iterator[tuple[str, Raw]]:
        """The objects of NODE_TEMPLATES, each with its kind."""
        return iter(self._loaded.uses.node_templates if self._loaded.uses else ())

    def subjects(self) -> Iterator[tuple[str, Raw]]:
        """Pods and workloads, each with its kind. Empty without Manifests.subjects."""
        return ((kind, raw) for (kind, _), raw in (self._loaded.subjects or {}).items())

    def namespaces(self, _: str = "") -> Mapping[str, Namespace]:
        return self._loaded.namespaces

    def kubernetes_version(self) -> Version | None:
        return None

    def pods_beside(self, _: IncomingPod) -> Iterator[PodLoad]:
        yield from filter(None, map(load_of_pod, self._loaded.pods.values()))


class _ServerVersion(Struct, rename="camel"):
    """k8s.io/apimachinery/pkg/version Info."""

    git_version: str | None = None


#: How many nodes are tried for room, one by one. In an idle cluster the first one has room.
_TRIED: Final = 8

#: Pods of up to this many nodes are listed node by node, in some ms each. Otherwise all pods are
#: listed; a page of 500 pods takes some tens of ms.
_BY_NAME: Final = 100

#: The most pods read of one list, in about 4 s. 5,000 nodes may have as many.
MAX_PODS: Final = 100_000


def _on(node: bytes) -> str:
    return f"spec.nodeName={text_of(node)},{kinds.ALIVE}"


class ClusterReader:
    """Reads a cluster, in one thread. Methods raise ReadError unless they say otherwise."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        silence: float = _SILENCE_SECONDS,
        counted: Callable[[Iterable[Raw], str], Iterable[Raw]] = lambda found, _: found,
    ) -> None:
        """silence: seconds to wait for each byte. counted: passes objects on, to show progress."""
        self._config = config
        self._silence = silence
        self._counted = counted
        self._connection = ApiConnection(config)

    def read_into(self, loaded: Manifests, *, nodes: bool = True) -> None:
        """Put all RuntimeClasses into `loaded`, and all Nodes unless nodes is False."""
        loaded.runtime_classes.update(self.runtime_classes())
        for raw in self.objects(kinds.NODES) if nodes else ():
            node = NodeReader().node_of(_read(decode, raw, RawNode))
            loaded.nodes[node.name] = node
            if loaded.uses is not None and not is_ready(node):
                loaded.uses.not_ready.add(node.name)

    def runtime_classes(self) -> Mapping[str, RuntimeClass]:
        raws = self.objects(kinds.RUNTIME_CLASSES)
        found = (runtime_class_of(_read(decode, raw, RawRuntimeClass)) for raw in raws)
        return {each.name: each for each in found}

    def namespaces(self, name: str = "") -> Mapping[str, Namespace]:
        """All Namespaces by name; if a name is given, only that one."""
        raws = self.objects(kinds.NAMESPACES, f"metadata.name={name}" if name else "")
        return dict(namespace_of(_read(decode, raw, RawNamespace)) for raw in raws)

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        path = kinds.pod_path(namespace, name)
        try:
            body = fetched(self._connection, path, {}, self._silence)
        except ConnectionFaultError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise self._read_error(path, error) from None
        return _read(explained_pod, Raw(body))

    def pending_pods(self) -> Mapping[str, Pod]:
        raws = self.objects(kinds.PODS, "status.phase=Pending")
        pods = (_read(explained_pod, raw) for raw in raws)
        return {f"{pod.namespace}/{pod.name}": pod for pod in pods}

    def pods(self, namespace: str = "", *, pending: bool = False) -> Iterator[FoundPod]:
        """All pods that have not finished. pending: only pods without a node."""
        kind = kinds.pods_of(namespace)
        for raw in self.objects(kind, kinds.WAITING if pending else kinds.ALIVE):
            read = _read(decode, raw, RawPod)
            pod = placed_pod_of(read)
            if not (pod.finished or (pending and pod.node)):
                explained, load = partial(_read, explained_pod, raw), partial(_read, load_of, read)
                yield FoundPod(pod, explained, load)

    def workloads(self) -> Iterator[Workload]:
        for kind in WORKLOADS:
            for raw in self.objects(kind):
                yield _read(workload_of, raw, kind.name)

    def node_templates(self) -> Iterator[tuple[str, Raw]]:
        """The objects of NODE_TEMPLATES, with their kinds; none of kinds that are not installed."""
        for kind in kinds.NODE_TEMPLATES:
            try:
                for raw in listed(self._connection, kind, {}, self._silence):
                    yield kind.name, raw
            except ConnectionFaultError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise self._read_error(kind.path, error) from None

    def subjects(self) -> Iterator[tuple[str, Raw]]:
        for kind in (kinds.PODS, *WORKLOADS):
            for raw in self.objects(kind, kinds.ALIVE if kind is kinds.PODS else ""):
                yield kind.name, raw

    def pods_beside(self, incoming: IncomingPod, most: int = MAX_PODS) -> Iterator[PodLoad]:
        """The pods that take room on the nodes that `incoming` reaches, as few as are needed.

        One node with room is enough, so some nodes are tried first. Raises UncountedError.
        """
        names = incoming.reached
        if not names:
            return
        waiting = f"status.nominatedNodeName!=,spec.nodeName=,{kinds.ALIVE}"
        nominated = list(self._loads(waiting, most))
        tried = dict[bytes, list[PodLoad]]()
        for name in names[:_TRIED]:
            if not incoming.fits(name, IDLE):
                break
            tried[name] = list(self._loads(_on(name), most))
            there = [*tried[name], *(each for each in nominated if each.node == text_of(name))]
            if incoming.fits(name, node_loads(there, incoming.pod).get(name, IDLE)):
                yield from there
                return
        if len(names) > _BY_NAME:
            yield from self._loads(kinds.ALIVE, most)
            return
        yield from nominated
        for name in names:
            yield from tried[name] if name in tried else self._loads(_on(name), most)

    def _loads(self, selector: str, most: int) -> Iterator[PodLoad]:
        try:
            for count, raw in enumerate(self.objects(kinds.PODS, selector)):
                if count >= most:
                    raise UncountedError(f"more than {most:,} pods would have to be read")
                found = load_of(decode(raw, RawPod, "Pod"))
                if found is not None:
                    yield found
        except (DecodeError, ReadError) as error:
            raise UncountedError(str(error)) from None

    def may_list(self, kind: kinds.Kind) -> bool:
        """Whether the user may list a kind; True if the API server gives no answer."""
        try:
            fetched(self._connection, kind.path, {"limit": "1"}, self._silence)
        except ConnectionFaultError as error:
            return error.status != HTTPStatus.FORBIDDEN
        return True

    def kubernetes_version(self) -> Version | None:
        """The API server's version; None if it is unknown."""
        try:
            body = fetched(self._connection, kinds.VERSION_PATH, {}, self._silence)
            return version_of(decode(body, _ServerVersion).git_version or "")
        except (ConnectionFaultError, DecodeError):
            return None

    def objects(self, kind: kinds.Kind, selector: str = "") -> Iterator[Raw]:
        """All objects of a kind that match a field selector."""
        query = {"fieldSelector": selector} if selector else {}
        try:
            found = listed(self._connection, kind, query, self._silence)
            yield from self._counted(found, f"reading {kind.plural}")
        except ConnectionFaultError as error:
            raise self._read_error(kind.path, error) from None

    def _read_error(self, path: str, error: ConnectionFaultError) -> ReadError:
        host = self._config.host
        if not isinstance(error, StatusError):
            return ReadError(f"{host}: {error}")
        said = f"{host}{path}: {error.status} {shown(error.message)}".rstrip()
        if error.status == HTTPStatus.FORBIDDEN:
            return ForbiddenError(said)
        return ReadError(said)


#: The source of pods, workloads and Namespaces.
Inventory = ManifestReader | ClusterReader

#: The longest silence while a user waits. Other threads serve kube-scheduler meanwhile.
LIMIT_SECONDS = 5.0

#: The same for a service's answers: ten pages, about 0.2 s of this process.
_MAX_PODS: Final = 5_000


class LivePods:
    """Reads the cluster for a service's users. Thread-safe: each call has its own connection."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config

    def _reader(self) -> ClusterReader:
        return ClusterReader(self._config, silence=LIMIT_SECONDS)

    def __call__(self, namespace: str, name: str) -> Pod | None:
        """None if the pod does not exist. Raises UndecidedError without an answer."""
        try:
            return self._reader().find_pod(namespace, name)
        except ReadError as error:
            raise UndecidedError(f"{ERROR_PREFIX}{error}") from None

    def node(self, name: str) -> Node | None:
        """None also without an answer. Lists by name, since the service may not get Nodes."""
        try:
            found = list(self._reader().objects(kinds.NODES, f"metadata.name={name}"))
            return NodeReader().read(found[0]) if found else None
        except (DecodeError, ReadError):
            return None

    def pods_beside(self, incoming: IncomingPod) -> Iterator[PodLoad]:
        """Reads fewer pods than a command, since anybody may ask. Raises UncountedError."""
        return self._reader().pods_beside(incoming, _MAX_PODS)

    def rules_of_namespace(self, namespace: str) -> NamespaceRules | None:
        """None if unknown: the service may lack the right to list Namespaces."""
        try:
            known = self._reader().namespaces(namespace).get(namespace)
        except ReadError:
            return None
        return rules_of(namespace, known.annotations) if known else None

    def kubernetes_version(self) -> Version | None:
        return self._reader().kubernetes_version()
