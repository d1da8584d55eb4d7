"""An API server for measurements: nodes of 10 KB in pages or as a stream, and their updates.

It encodes all objects beforehand and has its own process, so that only the client is measured.
"""

import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from loadtest.generator import Cluster, ClusterSpec, Json, go_json

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
_KINDS: Final = {NODES: b"Node", PODS: b"Pod", RUNTIME_CLASSES: b"RuntimeClass"}

_VERSION: Final = b"@version@"
_PAGE: Final = 500
_BOOKMARK: Final = (
    b'{"type":"BOOKMARK","object":{"kind":"%b","metadata":{"resourceVersion":"%d",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)


class Counts(NamedTuple):
    """The number of watches started so far, and of bytes sent."""

    watches: int
    sent: int


class Contents:
    """The objects, encoded once. Their resourceVersion is filled in when they are sent."""

    def __init__(self, cluster: Cluster) -> None:
        nodes = (cluster.node(index, fat=True) for index in range(cluster.spec.nodes))
        classes = cluster.runtime_classes()
        self.objects: dict[str, Sequence[bytes]] = {
            NODES: [_encoded("Node", "v1", each) for each in nodes],
            RUNTIME_CLASSES: [_encoded("RuntimeClass", "node.k8s.io/v1", each) for each in classes],
            PODS: [],
        }
        self.counts = Counts(0, 0)
        self.lock = threading.Lock()
        self.version = 1000

    def count(self, *, watches: int = 0, sent: int = 0) -> None:
        with self.lock:
            self.counts = Counts(self.counts.watches + watches, self.counts.sent + sent)

    def next_version(self) -> int:
        with self.lock:
            self.version += 1
            return self.version


def _encoded(kind: str, version: str, item: Json) -> bytes:
    metadata = {**item["metadata"], "resourceVersion": _VERSION.decode()}
    return go_json({**item, "kind": kind, "apiVersion": version, "metadata": metadata})


def _event(type: bytes, item: bytes, version: int) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type, item.replace(_VERSION, b"%d" % version, 1))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, contents: Contents) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.contents = contents
        #: Node updates a second, set by PUT /heartbeats/RATE.
        self.heartbeats = 0.0

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing: clients disconnect at any time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_PUT(self) -> None:
        self.server.heartbeats = float(self.path.rpartition("/")[2])
        self._answer(b"{}")

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        contents = self.server.contents
        if parts.path == "/counts":
            self._answer(b"%d %d" % contents.counts)
            return
        watches = query.get("watch") == "true"
        contents.count(watches=watches)
        if parts.path not in contents.objects:
            self._whole(b'{"kind":"Status","code":404}', 404)
        elif watches:
            self._watch(parts.path, query)
        else:
            self._page(parts.path, int(query.get("continue", "0")))

    def _page(self, path: str, first: int) -> None:
        items = self.server.contents.objects[path]
        last = first + _PAGE
        more = b',"continue":"%d"' % last if last < len(items) else b""
        head = b'{"kind":"%bList","metadata":{"resourceVersion":"%d"%b},"items":[' % (
            _KINDS[path],
            self.server.contents.version,
            more,
        )
        versioned = (each.replace(_VERSION, b"1000", 1) for each in items[first:last])
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
            self._chunk(_BOOKMARK % (_KINDS[path], contents.version))
        self._changes(path)

    def _changes(self, path: str) -> None:
        number = 0
        due = time.monotonic()
        while True:
            rate = self.server.heartbeats if path == NODES else 0.0
            if not rate:
                time.sleep(0.1)
                due = time.monotonic()
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
    """A running API server."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def counts(self) -> Counts:
        return Counts(*map(int, self._ask("GET", "/counts").split()))

    def _ask(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def change_nodes(self, a_second: float) -> None:
        self._ask("PUT", f"/heartbeats/{a_second}")


@contextmanager
def apiserver(nodes: int) -> Iterator[ApiServer]:
    """Start an API server in its own process. Many nodes take a while."""
    command = [sys.executable, "-m", "loadtest.apiserver", str(nodes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield ApiServer(int(process.stdout.readline()))
        finally:
            process.kill()


if __name__ == "__main__":
    _server = _Server(Contents(Cluster(ClusterSpec(int(sys.argv[1])))))
    print(_server.server_port, flush=True)
    _server.serve_forever()
