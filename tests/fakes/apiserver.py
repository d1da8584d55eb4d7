"""A kube-apiserver over real HTTP(S) on loopback: holds objects, plays scripts, and misbehaves.

kmock was weighed: it answers through aiohttp, so it needs an event loop in every test and cannot
reset a connection in the middle of a chunk or leave out what HTTP wants, and that is what the
tests are about.
"""

import contextlib
import itertools
import json
import re
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tests import processes
from tests.vectors_file import RECORDED

NODES: Final = "/api/v1/nodes"
RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
PODS: Final = "/api/v1/pods"
NAMESPACES: Final = "/api/v1/namespaces"

#: What makes pods of a template, by kind.
WORKLOADS: Final = {
    "CronJob": "/apis/batch/v1/cronjobs",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Deployment": "/apis/apps/v1/deployments",
    "Job": "/apis/batch/v1/jobs",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "ReplicationController": "/api/v1/replicationcontrollers",
    "StatefulSet": "/apis/apps/v1/statefulsets",
}

_KINDS: Final = {
    **{
        path: (path.strip("/").rpartition("/")[0].partition("/")[2], kind)
        for kind, path in WORKLOADS.items()
    },
    NODES: ("v1", "Node"),
    PODS: ("v1", "Pod"),
    NAMESPACES: ("v1", "Namespace"),
    RUNTIME_CLASSES: ("node.k8s.io/v1", "RuntimeClass"),
}

#: Of all that it can hold.
KINDS: Final = frozenset(kind for _, kind in _KINDS.values())

Json = dict[str, Any]

#: kube-apiserver hands its data to TLS in pieces of this size.
PIECE_BYTES: Final = 4096

#: How much of a chunk's end, and of the next chunk's size, comes together with its last byte of
#: data. The rest comes with the next chunk.
_TAILS: Final = (b"\r\n", b"\r", b"", b"\r\n0")

_NAMESPACED_PODS: Final = re.compile("/api/v1/namespaces/[^/]+/pods")


def _selects(selector: str, item: Any) -> bool:
    """Whether an object has what a field selector asks for; what is absent is empty."""
    for requirement in filter(None, selector.split(",")):
        path, _, wanted = requirement.partition("=")
        found = item
        for key in path.removesuffix("!").split("."):
            found = (found or {}).get(key)
        if ((found or "") == wanted) is path.endswith("!"):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


#: (group, resource, verb), as a rule of a ClusterRole has them.
Right = tuple[str, str, str]


def right_of(request: Request) -> Right:
    """What a request needs, as RequestInfo of k8s.io/apiserver has it, v1.36.2."""
    words = request.path.strip("/").split("/")
    group, rest = ("", words[2:]) if words[0] == "api" else (words[1], words[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    if request.method != "GET":
        verb = {"POST": "create"}.get(request.method, request.method.lower())
    elif len(rest) > 1:
        verb = "get"
    else:
        verb = "watch" if request.is_watch else "list"
    return group, rest[0], verb


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request.

    status: answer this instead; cut: close without an answer; hang: never answer.
    after: let so many events of a watch through, then do `end`.
    end: close (cleanly), abort (reset), part (half of the next event, then reset), expire and
    throttle (an ERROR event), garbage, unknown (event type), hang.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False
    after: int = 0
    end: str = ""


def status_document(code: int, reason: str = "x", message: str = "x") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


_REASONS: Final = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
}


class FakeApiServer:
    """Holds objects by path and name, and answers lists, watches, GET and PATCH.

    `scripts` take over a path: one answer per request, in the form of watch.json, where `wire` has
    bytes that are not put into a chunk. `faults` spoil the next requests of a path, one each.
    `rights`, if any are set, are all that anybody has.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.revision = 0
        self.compacted = 0
        self.requests: list[Request] = []
        self.scripts: dict[str, deque[Json]] = {}
        self.faults: dict[str, deque[Fault | None]] = {path: deque() for path in _KINDS}
        self.tokens: set[str] | None = None
        self.rights: frozenset[Right] | None = None
        self.supports_watch_list = True
        self.sends_initial_events_end = True
        self.joins_events = False
        self.before_get: Callable[[], None] = lambda: None
        self.patches: list[Request] = []
        #: The Events that were created, by name.
        self.written: dict[str, Json] = {}
        self.news = threading.Condition()
        self._objects: dict[str, dict[str, Json]] = {path: {} for path in _KINDS}
        self._history: list[tuple[int, str, str, Json]] = []
        self._tokens: dict[str, tuple[list[Json], int]] = {}
        self._connections: set[socket.socket] = set()
        self._tails = itertools.cycle(_TAILS)
        self._listener: socket.socket | None = None
        self._closing = threading.Event()
        self.port = 0

    # What the cluster holds.

    def put(self, path: str, item: Json) -> Json:
        """Create or update an object; a copy with its new resourceVersion is stored."""
        with self.news:
            self.revision += 1
            metadata = {**item["metadata"], "resourceVersion": str(self.revision)}
            version, kind = _KINDS[path]
            stored = {"apiVersion": version, "kind": kind, **item, "metadata": metadata}
            name = metadata["name"]
            known = name in self._objects[path]
            self._objects[path][name] = stored
            self._tell(path, "MODIFIED" if known else "ADDED", stored)
            return stored

    def delete(self, path: str, name: str) -> None:
        with self.news:
            self.revision += 1
            last = self._objects[path].pop(name)
            metadata = {**last["metadata"], "resourceVersion": str(self.revision)}
            self._tell(path, "DELETED", {**last, "metadata": metadata})

    def bookmark(self, path: str) -> None:
        """Tell those who watch how far they are, as happens each minute."""
        with self.news:
            self._tell(path, "BOOKMARK", self._bookmark(path, self.revision))

    def objects(self, path: str) -> dict[str, Json]:
        with self.news:
            return dict(self._objects[path])

    def compact(self) -> None:
        """Forget the history: watches and pages from before now get a 410.

        As if other kinds had been written since, no watch is as new as what is left.
        """
        with self.news:
            self.revision += 1
            self.compacted = self.revision
            self._history.clear()
            self._tokens.clear()
            self.news.notify_all()

    def _tell(self, path: str, type: str, item: Json) -> None:
        self._history.append((self.revision, path, type, item))
        self.news.notify_all()

    def _bookmark(self, path: str, revision: int, *, ends: bool = False) -> Json:
        version, kind = _KINDS[path]
        metadata: Json = {"resourceVersion": str(revision)}
        if ends:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return {"apiVersion": version, "kind": kind, "metadata": metadata}

    # The server.

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def start(self) -> "FakeApiServer":
        """Listen; after `stop` again on the same port."""
        self._closing = threading.Event()
        listener = processes.listener(self.port)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop listening and drop all connections, as a process that is killed."""
        self._closing.set()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.drop_connections()
        with self.news:
            self.news.notify_all()

    def drop_connections(self) -> None:
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def __enter__(self) -> "FakeApiServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait for something that the server sees; fails after the deadline."""
        with self.news:
            assert self.news.wait_for(condition, seconds), "not in time"

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.add(connection)
        plain = connection
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self._connections.add(connection)
            with connection.makefile("rb") as reader:
                while not self._closing.is_set():
                    request = _read_request(reader)
                    if request is None:
                        return
                    with self.news:
                        self.requests.append(request)
                        self.news.notify_all()
                    _Answer(self, connection, request, self._closing).send()
        except (_GoneError, OSError, ValueError):
            pass
        finally:
            self._connections -= {plain, connection}
            connection.close()

    def _next(self, request: Request) -> tuple[Json | None, Fault | None]:
        with self.news:
            script = self.scripts.get(request.path)
            if script is not None:
                return (script.popleft() if script else {"hang": True}), None
            faults = self.faults.get(request.path)
            return None, (faults.popleft() if faults else None)


class _GoneError(Exception):
    """The connection is to be closed."""


def _read_request(reader: Any) -> Request | None:
    line = reader.readline(65536)
    if not line.strip():
        return None
    method, target, _ = line.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (header := reader.readline(65536)).strip():
        name, _, value = header.decode().partition(":")
        before = headers.get(name.strip().lower())
        headers[name.strip().lower()] = ", ".join(filter(None, (before, value.strip())))
    body = reader.read(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Request(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, body)


class _Answer:
    """The answer to one request, written to its connection."""

    def __init__(
        self,
        server: FakeApiServer,
        connection: socket.socket,
        request: Request,
        closing: threading.Event,
    ) -> None:
        self._server = server
        self._connection = connection
        self._request = request
        self._closing = closing
        self._owed = b""

    def send(self) -> None:
        if self._forbid():
            return
        script, fault = self._server._next(self._request)
        if script is not None:
            self._play(script)
            return
        if fault is not None and fault.hang:
            self._hang()
        if fault is not None and fault.cut:
            raise _GoneError
        if fault is not None and fault.status:
            document = status_document(fault.status, _REASONS.get(fault.status, "x"))
            self._json(document, fault.status, fault.headers)
            return
        if self._refuse():
            return
        self._route(fault or Fault())

    def _forbid(self) -> bool:
        rights = self._server.rights
        # ClusterRole system:public-info-viewer lets everybody read the version.
        if rights is None or self._request.path == "/version":
            return False
        group, resource, verb = right_of(self._request)
        if (group, resource, verb) in rights:
            return False
        message = (
            f'{resource} is forbidden: User "me" cannot {verb} resource "{resource}" in API group'
            f' "{group}" at the cluster scope'
        )
        self._json(status_document(403, "Forbidden", message), 403)
        return True

    def _refuse(self) -> bool:
        tokens = self._server.tokens
        scheme, _, token = self._request.headers.get("authorization", "").partition(" ")
        if tokens is None or (scheme.lower() == "bearer" and token in tokens):
            return False
        self._json(status_document(401, "Unauthorized", "Unauthorized"), 401)
        return True

    def _route(self, fault: Fault) -> None:
        request, server = self._request, self._server
        if request.method == "PATCH":
            with server.news:
                server.patches.append(request)
                server.news.notify_all()
            self._json({"kind": "Pod", "metadata": {}})
        elif request.method == "POST":
            event = json.loads(request.body)
            with server.news:
                known = server.written.setdefault(event["metadata"]["name"], event) is not event
                server.news.notify_all()
            self._json(event, 409 if known else 201)
        elif _NAMESPACED_PODS.fullmatch(request.path):
            self._list(PODS, request.path.split("/")[4])
        elif request.path not in _KINDS:
            server.before_get()
            path, _, name = request.path.rpartition("/")
            path = PODS if _NAMESPACED_PODS.fullmatch(path) else path
            item = server.objects(path).get(name) if path in _KINDS else None
            document = item or status_document(404, "NotFound", f'"{name}" not found')
            self._json(document, 200 if item else 404)
        elif request.is_watch:
            self._watch(fault)
        else:
            self._list(request.path)

    def _play(self, answer: Json) -> None:
        if answer.get("hang"):
            self._hang()
        if answer.get("cut"):
            raise _GoneError
        if "json" in answer:
            self._json(answer["json"], answer.get("status", 200), answer.get("headers", {}))
            return
        self._head(200, {"Transfer-Encoding": "chunked"})
        for event in answer["watch"]:
            if "sleep_ms" in event:
                self._closing.wait(event["sleep_ms"] / 1000)
            elif "wire" in event:
                self._connection.sendall(event["wire"])
            elif "raw" in event:
                self._chunk(event["raw"].encode())
            else:
                self._chunk(json.dumps(event).encode() + b"\n")
        self._end(answer["end"])

    def _list(self, path: str, namespace: str = "") -> None:
        server, query = self._server, self._request.query
        version, kind = _KINDS[path]
        with server.news:
            token = query.get("continue")
            if token and token not in server._tokens:
                items = None
            elif token:
                items, revision = server._tokens[token]
            else:
                selector = query.get("fieldSelector", "")
                items = [
                    each
                    for each in server._objects[path].values()
                    if _selects(selector, each)
                    and namespace in ("", each["metadata"].get("namespace"))
                ]
                revision = server.revision
        if items is None:
            self._json(status_document(410, "Expired", "continue token too old"), 410)
            return
        limit = int(query.get("limit", "0")) or len(items)
        metadata: Json = {"resourceVersion": str(revision)}
        if items[limit:]:
            metadata["continue"] = f"{revision}-{len(items) - limit}-{len(server._tokens)}"
            with server.news:
                server._tokens[metadata["continue"]] = (items[limit:], revision)
        self._json(
            {
                "kind": f"{kind}List",
                "apiVersion": version,
                "metadata": metadata,
                "items": items[:limit],
            }
        )

    def _watch(self, fault: Fault) -> None:
        server, query = self._server, self._request.query
        initial = query.get("sendInitialEvents") == "true"
        if initial and not server.supports_watch_list:
            self._json(status_document(422, "Invalid", "sendInitialEvents: Forbidden"), 422)
            return
        with server.news:
            position = int(query.get("resourceVersion", "0"))
            if position > server.revision:
                self._json(status_document(504, "Timeout", "Too large resource version"), 504)
                return
            expired = position < server.compacted and not initial
            current = list(server._objects[self._request.path].values()) if initial else []
            if initial:
                position = server.revision
        self._head(200, {"Transfer-Encoding": "chunked"})
        if expired:
            self._event("ERROR", status_document(410, "Expired", "too old resource version"))
            self._end("close")
        sent = 0
        for item in current:
            sent = self._spoiled(sent, fault, "ADDED", item)
        if initial and server.sends_initial_events_end:
            bookmark = server._bookmark(self._request.path, position, ends=True)
            sent = self._spoiled(sent, fault, "BOOKMARK", bookmark)
        for type, item in self._changes(position):
            sent = self._spoiled(sent, fault, type, item)

    def _changes(self, position: int) -> Iterator[tuple[str, Json]]:
        server = self._server
        while not self._closing.is_set():
            with server.news:
                new: Sequence[tuple[int, str, str, Json]] = ()
                while not new and not self._closing.is_set():
                    if position < server.compacted:
                        break
                    new = [each for each in server._history if each[0] > position]
                    if not new:
                        server.news.wait(5.0)
            if not new:
                yield "ERROR", status_document(410, "Expired", "too old resource version")
                raise _GoneError
            for revision, path, type, item in new:
                position = revision
                if path == self._request.path:
                    yield type, item

    def _spoiled(self, sent: int, fault: Fault, type: str, item: Json) -> int:
        """Send an event, unless it is this one that goes wrong."""
        if fault.end and sent == fault.after:
            self._spoil(fault.end, type, item)
        self._event(type, item)
        return sent + 1

    def _spoil(self, end: str, type: str, item: Json) -> None:
        if end == "expire":
            self._event("ERROR", status_document(410, "Expired", "too old resource version"))
        elif end == "throttle":
            self._event("ERROR", status_document(429, "TooManyRequests"))
        elif end == "unknown":
            self._event("RENAMED", item)
        elif end == "garbage":
            self._chunk(b"<html>502 Bad Gateway</html>\n")
        elif end == "part":
            line = json.dumps({"type": type, "object": item}).encode()
            self._chunk(line[: len(line) // 2])
            end = "abort"
        self._end(end if end in ("close", "abort", "hang") else "close")

    def _event(self, type: str, item: Json) -> None:
        line = json.dumps({"type": type, "object": item}).encode()
        self._chunk(line if self._server.joins_events else line + b"\n")

    def _json(self, document: Json, status: int = 200, headers: Mapping[str, str] = {}) -> None:
        body = json.dumps(document, separators=(",", ":")).encode()
        self._head(status, {"Content-Length": str(len(body)), **headers})
        self._connection.sendall(body)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())

    def _chunk(self, data: bytes) -> None:
        """Send a chunk in pieces, and its end perhaps with the next chunk only."""
        self._connection.sendall(b"%s%x\r\n" % (self._owed, len(data)))
        tail = next(self._server._tails)
        self._owed = b"\r\n"[len(tail) :]
        data += tail
        for start in range(0, len(data), PIECE_BYTES):
            self._connection.sendall(data[start : start + PIECE_BYTES])

    def _end(self, end: str) -> None:
        if end == "hang":
            self._hang()
        if end == "close":
            self._connection.sendall(self._owed + b"0\r\n\r\n")
        else:
            # Closing with SO_LINGER 0 is a reset.
            linger = struct.pack("ii", 1, 0)
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        raise _GoneError

    def _hang(self) -> None:
        """Neither answer nor close, until the client or the server gives up."""
        with contextlib.suppress(OSError):
            self._connection.settimeout(60.0)
            self._connection.recv(1)
        raise _GoneError


#: A kubelet reports up to 50 images (nodeStatusMaxImages).
IMAGES: Final = [
    {
        "names": [
            f"registry.example/shop/service-{number}@sha256:{number:064x}",
            f"registry.example/shop/service-{number}:v1.{number}.0",
        ],
        "sizeBytes": 50_000_000 + number,
    }
    for number in range(50)
]


def real_node() -> Json:
    """A recorded node with the images of a busy one: 14 KB."""
    found: Json = json.loads((RECORDED / "real-node" / "node.json").read_bytes())["items"][0]
    found["status"]["images"] += IMAGES
    return found


_REAL: Final = real_node()

#: What decides where pods fit is each test's own.
_DECISIVE: Final = ("allocatable", "capacity", "declaredFeatures", "features", "runtimeHandlers")


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    taints: Sequence[Mapping[str, str]] = (),
    handlers: Sequence[str] = (),
    **status: object,
) -> Json:
    """A node as large as real ones are."""
    told = {key: value for key, value in _REAL["status"].items() if key not in _DECISIVE}
    return {
        "metadata": {**_REAL["metadata"], "name": name, "labels": dict(labels or {})},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {**told, "runtimeHandlers": [{"name": each} for each in handlers], **status},
    }


def runtime_class(name: str, handler: str = "h", selector: Mapping[str, str] | None = None) -> Json:
    scheduling = {"scheduling": {"nodeSelector": dict(selector)}} if selector else {}
    return {"metadata": {"name": name}, "handler": handler, **scheduling}


def pod(name: str, runtime_class: str = "", *, message: str = "", **spec: object) -> Json:
    """A Pending pod of namespace default, with what kube-scheduler said of it, if anything."""
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    ]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {**({"runtimeClassName": runtime_class} if runtime_class else {}), **spec},
        "status": {"phase": "Pending", **({"conditions": conditions} if message else {})},
    }


def filled(server: FakeApiServer, objects: Iterable[Json]) -> FakeApiServer:
    """The server with these objects too, by namespace and name, as etcd has them."""
    paths = {kind: path for path, (_, kind) in _KINDS.items()}
    found = []
    for each in objects:
        metadata = dict(each["metadata"])
        if each["kind"] not in ("Node", "RuntimeClass", "Namespace"):
            metadata.setdefault("namespace", "default")
        found.append({**each, "metadata": metadata})
    found.sort(key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))
    for each in found:
        server.put(paths[each["kind"]], each)
    return server


def kubeconfig(
    server: str, *, ca_file: str = "", token: str = "", token_file: str = "", **user: str
) -> str:
    """A kubeconfig in JSON, which is YAML."""
    cluster = {"server": server, **({"certificate-authority": ca_file} if ca_file else {})}
    credentials = {
        **({"token": token} if token else {}),
        **({"tokenFile": token_file} if token_file else {}),
        **user,
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "me", "user": credentials}],
            "contexts": [{"name": "there", "context": {"cluster": "fake", "user": "me"}}],
            "current-context": "there",
        }
    )
