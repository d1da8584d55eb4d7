"""An API server for measuring: nodes of 10 KB in pages or as a stream, heartbeats, short watches.

Encoded beforehand and in a process of its own, so that what is measured is the client.
"""

import argparse
import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from extender.cluster import kinds
from loadtest.generator import Cluster, Json, add_cluster_flags, cluster_of, go_json
from loadtest.pods import Pods

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
NAMESPACES: Final = "/api/v1/namespaces"
RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"

WORKLOADS: Final = {each.path: each.name for each in kinds.WORKLOADS}

_VERSION: Final = b"@version@"
_PAGE: Final = 500
_BOUND: Final = b'"nodeName":'
_BOOKMARK: Final = (
    b'{"type":"BOOKMARK","object":{"kind":"%b","metadata":{"resourceVersion":"%d",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)


@dataclass(slots=True)
class Behaviour:
    """What the server does beyond answering; changed while it runs by PUT /behaviour?…

    heartbeats and churn are changes of nodes and of pods a second.
    """

    heartbeats: float = 0.0
    churn: float = 0.0
    short_watches: bool = False

    def rate(self, path: str) -> float:
        return {NODES: self.heartbeats, PODS: self.churn}.get(path, 0.0)


class Counts(NamedTuple):
    """Requests so far, those of them that were watches, and the bytes of what was sent."""

    requests: int
    watches: int
    sent: int


class Contents:
    """The objects, encoded once; a version is put in as they are sent."""

    def __init__(self, cluster: Cluster, pods: int = 0) -> None:
        indexes = range(cluster.spec.nodes)
        self.objects: dict[str, Sequence[bytes]] = {
            NODES: [_encoded("Node", "v1", cluster.node(each, fat=True)) for each in indexes],
            RUNTIME_CLASSES: [
                _encoded("RuntimeClass", "node.k8s.io/v1", each)
                for each in cluster.runtime_classes()
            ],
            PODS: Pods(cluster, pods),
            NAMESPACES: [],
            **{path: [] for path in WORKLOADS},
        }
        self.kinds = {
            NODES: b"Node",
            RUNTIME_CLASSES: b"RuntimeClass",
            PODS: b"Pod",
            NAMESPACES: b"Namespace",
            **{path: kind.encode() for path, kind in WORKLOADS.items()},
        }
        self.counts = Counts(0, 0, 0)
        self.lock = threading.Lock()
        self.version = 1000

    def count(self, *, requests: int = 0, watches: int = 0, sent: int = 0) -> None:
        with self.lock:
            before = self.counts
            self.counts = Counts(
                before.requests + requests, before.watches + watches, before.sent + sent
            )

    def next_version(self) -> int:
        with self.lock:
            self.version += 1
            return self.version


def _encoded(kind: str, version: str, item: Json) -> bytes:
    metadata = {**item["metadata"], "resourceVersion": _VERSION.decode()}
    return go_json({**item, "kind": kind, "apiVersion": version, "metadata": metadata})


def _event(type: bytes, item: bytes, version: int) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type, item.replace(_VERSION, b"%d" % version, 1))


def _some(items: Sequence[bytes], first: int) -> tuple[int, Sequence[bytes]]:
    """A page, and where the next one begins."""
    last = first + _PAGE
    return last, items[first:last]


def _unbound(items: Sequence[bytes], first: int) -> tuple[int, Sequence[bytes]]:
    """As _some, of pods without a node: as kube-apiserver does, it goes on until a page is full."""
    page: list[bytes] = []
    for number in range(first, len(items)):
        if len(page) == _PAGE:
            return number, page
        if _BOUND not in (item := items[number]):
            page.append(item)
    return len(items), page


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, contents: Contents) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.contents = contents
        self.behaviour = Behaviour()

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients come and go; that is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_PUT(self) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        behaviour = self.server.behaviour
        behaviour.heartbeats = float(query.get("heartbeats", behaviour.heartbeats))
        behaviour.churn = float(query.get("churn", behaviour.churn))
        behaviour.short_watches = query.get("short_watches", "") == "true"
        self._whole(b"{}")

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        contents = self.server.contents
        if parts.path == "/counts":
            self._answer(b"%d %d %d" % contents.counts)
            return
        watches = query.get("watch") == "true"
        contents.count(requests=1, watches=watches)
        if parts.path not in self.server.contents.objects:
            self._whole(b'{"kind":"Status","code":404}', 404)
        elif watches:
            self._watch(parts.path, query)
        else:
            pending = query.get("fieldSelector", "").startswith("spec.nodeName=,")
            self._page(parts.path, int(query.get("continue", "0")), pending=pending)

    def _page(self, path: str, first: int, *, pending: bool) -> None:
        items = self.server.contents.objects[path]
        last, page = (_unbound if pending else _some)(items, first)
        more = b',"continue":"%d"' % last if last < len(items) else b""
        head = b'{"kind":"%bList","metadata":{"resourceVersion":"%d"%b},"items":[' % (
            self.server.contents.kinds[path],
            self.server.contents.version,
            more,
        )
        versioned = (each.replace(_VERSION, b"1000", 1) for each in page)
        self._whole(head + b",".join(versioned) + b"]}")

    def _whole(self, body: bytes, status: int = 200) -> None:
        self._answer(body, status)
        self.server.contents.count(sent=len(body))

    def _answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self, path: str, query: dict[str, str]) -> None:
        contents = self.server.contents
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if query.get("sendInitialEvents") == "true":
            for item in contents.objects[path]:
                self._chunk(_event(b"ADDED", item, 1000))
            self._chunk(_BOOKMARK % (contents.kinds[path], contents.version))
        if self.server.behaviour.short_watches:
            item = contents.objects[path][0]
            self._chunk(_event(b"MODIFIED", item, contents.next_version()))
            self._chunk(b"")
            return
        self._changes(path)

    def _changes(self, path: str) -> None:
        number = 0
        due = time.monotonic()
        while True:
            rate = self.server.behaviour.rate(path)
            if not rate:
                time.sleep(0.1)
                due = time.monotonic()
                if self.server.behaviour.short_watches:
                    self._chunk(b"")
                    return
                continue
            items = self.server.contents.objects[path]
            version = self.server.contents.next_version()
            self._chunk(_event(b"MODIFIED", items[number * 7919 % len(items)], version))
            number += 1
            due += 1 / rate
            time.sleep(max(0.0, due - time.monotonic()))

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.server.contents.count(sent=len(data))


class ApiServer:
    """A running one."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def counts(self) -> Counts:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/counts")
        numbers = connection.getresponse().read().split()
        connection.close()
        return Counts(*map(int, numbers))

    def behave(self, **behaviour: object) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        query = "&".join(f"{name}={value}" for name, value in behaviour.items())
        connection.request("PUT", f"/behaviour?{query}")
        connection.getresponse().read()
        connection.close()


@contextmanager
def apiserver(cluster: Cluster, pods: int = 0) -> Iterator[ApiServer]:
    """Start one in a process of its own; that takes a while for many nodes."""
    spec = cluster.spec
    flags = (
        *("--nodes", spec.nodes, "--shapes", spec.shapes),
        *("--runtimeclasses", spec.runtime_classes, "--seed", spec.seed),
        *("--pods", pods),
    )
    command = [sys.executable, "-m", "loadtest.apiserver", *map(str, flags)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield ApiServer(int(process.stdout.readline()))
        finally:
            process.kill()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.apiserver", description=__doc__)
    add_cluster_flags(parser, nodes=100)
    parser.add_argument("--pods", type=int, default=0, help="pods of the cluster")
    flags = parser.parse_args(argv)
    contents = Contents(cluster_of(flags), flags.pods)
    server = _Server(contents)
    print(server.server_port, flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
