"""Objects read on demand and not kept, in pages of a cluster or from manifests: for commands."""

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

#: The user of the API server's message (forbiddenMessage, k8s.io/apiserver, v1.36.2).
_USER: Final = re.compile(r'User "([^"]+)"')

#: The pods that may still run.
_ALIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"
_WAITING: Final = "spec.nodeName=,status.phase=Pending"


class ReadError(UsageError):
    """The cluster could not be read; one line: the address, and the cause."""


class ForbiddenError(ReadError):
    """The API server knows who asks, and denies the request; also: further rights that lack."""

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
    """A pod that has not finished; explained is as explain reads it, load as nodes do."""

    placed: PlacedPod
    explained: Callable[[], Pod]
    load: Callable[[], PodLoad | None]


class ManifestInventory:
    """The same of manifests; of those that were loaded with `uses` also what uses the classes."""

    def __init__(self, loaded: Manifests) -> None:
        self._loaded = loaded

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        return self._loaded.pods.get(f"{namespace}/{name}")

    def pending_pods(self) -> Mapping[str, Pod]:
        """By NAMESPACE/NAME: all, since manifests don't say which are bound."""
        return self._loaded.pods

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
        """The objects of NODE_TEMPLATES, each with its kind; none of a kind that is not there."""
        return iter(self._loaded.uses.node_templates if self._loaded.uses else ())

    def subjects(self) -> Iterator[tuple[str, Raw]]:
        """Each with its kind; of manifests that were loaded with `subjects`."""
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


#: Nodes tried for room, one by one. Of an idle cluster the first has some.
_TRIED: Final = 8

#: Up to so many nodes are asked for by name, some ms each; a page of 500 pods takes some tens.
_BY_NAME: Final = 100

#: The number of pods that are read, in some 4 s (make bench-usage); 5,000 nodes may have as many.
MAX_PODS: Final = 100_000


def _on(node: bytes) -> str:
    return f"spec.nodeName={text_of(node)},{_ALIVE}"


class ClusterReader:
    """Reads a cluster, in one thread. All methods raise ReadError or ForbiddenError."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        silence: float = _SILENCE_SECONDS,
        counted: Callable[[Iterable[Raw], str], Iterable[Raw]] = lambda found, _: found,
    ) -> None:
        """silence: seconds without a byte after which a request fails.

        counted: passes on the objects of a list, and may show that they are being read.
        """
        self._config = config
        self._silence = silence
        self._counted = counted
        self._connection = ApiConnection(config)

    def read_into(self, loaded: Manifests, *, nodes: bool = True) -> None:
        """Put all RuntimeClasses, and unless nodes is false all Nodes, into `loaded`."""
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
        """All Namespaces by name, or at least the named one."""
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
        """Each pod that has not finished; pending: only those without a node."""
        kind = kinds.pods_of(namespace)
        for raw in self.objects(kind, _WAITING if pending else _ALIVE):
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
        for kind in kinds.NODE_TEMPLATES:
            try:
                for raw in listed(self._connection, kind, {}, self._silence):
                    yield kind.name, raw
            except ConnectionFaultError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise self._read_error(kind.path, error) from None

    def subjects(self) -> Iterator[tuple[str, Raw]]:
        for kind in (kinds.PODS, *WORKLOADS):
            for raw in self.objects(kind, _ALIVE if kind is kinds.PODS else ""):
                yield kind.name, raw

    def pods_beside(self, incoming: IncomingPod, most: int = MAX_PODS) -> Iterator[PodLoad]:
        """The pods that take room of the nodes which the pod reaches: as few as decide.

        One node with room decides, so a few are tried before all are read. Raises UncountedError.
        """
        names = incoming.reached
        if not names:
            return
        waiting = f"status.nominatedNodeName!=,spec.nodeName=,{_ALIVE}"
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
            yield from self._loads(_ALIVE, most)
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
        """True where nobody knows."""
        try:
            fetched(self._connection, kind.path, {"limit": "1"}, self._silence)
        except ConnectionFaultError as error:
            return error.status != HTTPStatus.FORBIDDEN
        return True

    def kubernetes_version(self) -> Version | None:
        """The API server's; None where it is not known."""
        try:
            body = fetched(self._connection, kinds.VERSION_PATH, {}, self._silence)
            return version_of(decode(body, _ServerVersion).git_version or "")
        except (ConnectionFaultError, DecodeError):
            return None

    def objects(self, kind: kinds.Kind, selector: str = "") -> Iterator[Raw]:
        """All objects of a kind that a field selector has."""
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


#: Where pods and the like come from.
Inventory = ManifestInventory | ClusterReader

#: A person waits for this; kube-scheduler's calls are served by other threads meanwhile.
LIMIT_SECONDS = 5.0

#: The number of pods read for one answer: ten pages, some 0.2 s of this process.
_MAX_PODS: Final = 5_000


class LivePods:
    """A service's answers for people. Any thread may use it: each call has its own connection."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config

    def _reader(self) -> ClusterReader:
        return ClusterReader(self._config, silence=LIMIT_SECONDS)

    def __call__(self, namespace: str, name: str) -> Pod | None:
        """None when there is no such pod. Raises UndecidedError without an answer."""
        try:
            return self._reader().find_pod(namespace, name)
        except ReadError as error:
            raise UndecidedError(f"{ERROR_PREFIX}{error}") from None

    def node(self, name: str) -> Node | None:
        """None also where the API server does not tell; listed, since there is no right to get."""
        try:
            found = list(self._reader().objects(kinds.NODES, f"metadata.name={name}"))
            return NodeReader().read(found[0]) if found else None
        except (DecodeError, ReadError):
            return None

    def pods_beside(self, incoming: IncomingPod) -> Iterator[PodLoad]:
        """As pods_beside, of fewer pods: whoever asks, a service answers. Raises UncountedError."""
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
