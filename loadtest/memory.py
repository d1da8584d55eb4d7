"""How much memory one body at the limit takes, of every kind, and two at once.

    make bench-memory        or        python -m loadtest.memory --nodes 65000

Each kind is sent to a fresh service at the default --max-body-bytes, with the compiled part and
without, once and by two clients at the same time. The table has the most that master and worker
took together; it is held against the memory limit of the shipped manifests. Writes memory.md into
loadtest/out/.
"""

import contextlib
import re
import socket
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from extender.http.review_routes import DEFAULT_MAX_REVIEW_BYTES
from extender.http.service import DEFAULT_MAX_BODY_BYTES
from extender.wire.bodies import MAX_NAMES, MAX_POD_VALUES
from extender.wire.preempt_bodies import MAX_PREEMPTION_BYTES
from extender.wire.review_bodies import MAX_REVIEW_VALUES
from loadtest import arguments, tables
from loadtest.generator import HALF_CLASS, Cluster, ClusterSpec, go_json
from loadtest.processes import (
    Server,
    ServerError,
    running,
    serve_command,
    webhook_command,
)
from loadtest.progress import Progress
from loadtest.shipped import shipped

_TIMEOUT_SECONDS: Final = 120.0
_RECEIVE: Final = 1 << 20
_PEAK: Final = re.compile(r"VmHWM:\s+(\d+) kB")

_POD: Final = b'{"metadata":{"name":"p"},"spec":{"runtimeClassName":"%s"}}' % HALF_CLASS.encode()
_NAME: Final = b"node-00000000.of-a-cluster.example"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of body; make gets the limit and a cluster."""

    name: str
    path: str
    make: Callable[[int, Cluster], bytes]
    is_review: bool = False


def _names(limit: int, name: bytes) -> bytes:
    head, tail = b'{"Pod":%s,"Nodes":null,"NodeNames":["' % _POD, b'"]}'
    count = min(MAX_NAMES, (limit - len(head) - len(tail)) // (len(name) + 3))
    return head + b'","'.join([name] * count) + tail


def _nodes(limit: int, cluster: Cluster) -> bytes:
    head = b'{"Pod":%s,"Nodes":{"metadata":{},"items":[' % _POD
    tail = b']},"NodeNames":null}'
    items: list[bytes] = []
    size, number = len(head) + len(tail), 0
    while True:
        item = go_json(cluster.node(number % len(cluster.names), fat=True))
        size += len(item) + 1
        if size > limit:
            return head + b",".join(items) + tail
        items.append(item)
        number += 1


def _tolerations(limit: int) -> bytes:
    head = b'{"NodeNames":["a"],"Pod":%s"tolerations":[' % _SPEC
    return _filled(min(limit, MAX_POD_VALUES * len(b"{},")), head, b"{}", b"]}}}")


def _filled(limit: int, head: bytes, item: bytes, tail: bytes) -> bytes:
    """As many items as fit."""
    count = (limit - len(head) - len(tail)) // (len(item) + 1)
    return head + b",".join([item] * count) + tail


def _victims(limit: int, victims: bytes) -> bytes:
    limit = min(limit, MAX_PREEMPTION_BYTES)
    head, tail = b'{"Pod":%s,"NodeNameToMetaVictims":{' % _POD, b"}}"
    size = len(b'"n00000000":,') + len(victims)
    count = (limit - len(head) - len(tail)) // size
    return head + b",".join(b'"n%08d":%s' % (each, victims) for each in range(count)) + tail


def _review(limit: int, head: bytes, item: bytes) -> bytes:
    limit = min(limit, MAX_REVIEW_VALUES * (len(item) + 1))
    start = (
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u",'
        b'"operation":"CREATE","object":'
    )
    return _filled(limit, start + head, item, b"]}}}}")


_VICTIMS: Final = b'{"Pods":[{"UID":"448ab719-ba5f-4280-af04-cb884555fa7c"}],"NumPDBViolations":0}'
_SPEC: Final = b'{"spec":{"runtimeClassName":"%s",' % HALF_CLASS.encode()

KINDS: Final = (
    Kind("junk", "/filter", lambda limit, _: b"x" * limit),
    Kind("Nodes of 10 KB", "/filter", _nodes),
    Kind(
        "null Nodes",
        "/filter",
        lambda limit, _: _filled(limit, b'{"Pod":%s,"Nodes":{"items":[' % _POD, b"null", b"]}}"),
    ),
    Kind("names", "/filter", lambda limit, _: _names(limit, _NAME)),
    Kind("empty names", "/filter", lambda limit, _: _names(limit, b"")),
    Kind("names to score", "/prioritize", lambda limit, _: _names(limit, _NAME)),
    Kind("victims", "/preempt", lambda limit, _: _victims(limit, _VICTIMS)),
    Kind("null victims", "/preempt", lambda limit, _: _victims(limit, b"null")),
    Kind("tolerations", "/filter", lambda limit, _: _tolerations(limit)),
    Kind("junk review", "/mutate", lambda limit, _: b"x" * limit, is_review=True),
    Kind(
        "review of tolerations",
        "/mutate",
        lambda limit, _: _review(limit, _SPEC + b'"tolerations":[', b"{}"),
        is_review=True,
    ),
    Kind(
        "review of containers",
        "/mutate",
        lambda limit, _: _review(limit, _SPEC + b'"containers":[', b'{"name":"c"}'),
        is_review=True,
    ),
)


def send(server: Server, path: str, body: bytes) -> None:
    """Send a body and read the answer, whatever it is; the server may close before its end."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    )
    with socket.create_connection(server.address, _TIMEOUT_SECONDS) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(head.encode() + b"\r\n")
            connection.sendall(body)
        with contextlib.suppress(ConnectionError):
            while connection.recv(_RECEIVE):
                pass


def peak(pid: int) -> int:
    """The most memory that a process has had so far, bytes."""
    match = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
    assert match
    return int(match[1]) * 1024


def measure(kind: Kind, clients: int, body: bytes, manifest: Path, out: Path, pure: bool) -> int:
    """The most that a fresh service takes, master and worker together. Raises ServerError."""
    command = (webhook_command if kind.is_review else serve_command)(manifest)
    with running("memory", command, out, pure=pure) as server:
        with ThreadPoolExecutor(clients) as threads:
            list(threads.map(lambda _: send(server, kind.path, body), range(clients)))
        return peak(server.worker) + peak(server.process.pid)


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments.parser("memory", "What bodies at the limit take in memory.")
    parser.add_argument(
        "--nodes", type=arguments.at_least_one, default=65_000, metavar="N", help="of the cluster"
    )
    parser.add_argument(
        "--max-mebibytes",
        type=arguments.at_least_one,
        default=DEFAULT_MAX_BODY_BYTES // 2**20,
        metavar="N",
        help="smaller bodies than the limit, for a quick run",
    )
    parser.add_argument(
        "--kinds",
        type=arguments.one_of([kind.name for kind in KINDS]),
        default=",".join(kind.name for kind in KINDS),
        metavar="KIND,KIND",
        help="which of them",
    )
    arguments.add_out(parser)
    flags = parser.parse_args(argv)
    cluster = Cluster(ClusterSpec(flags.nodes, 20, 20))
    rows: list[tuple[str, ...]] = [("body", "MiB", "compiled", "two", "Python", "two", "limit")]
    over: list[str] = []
    with tempfile.TemporaryDirectory() as folder, Progress() as progress:
        manifest = Path(folder) / "cluster.json"
        cluster.write_manifest(manifest)
        for kind in [kind for kind in KINDS if kind.name in flags.kinds]:
            most = DEFAULT_MAX_REVIEW_BYTES if kind.is_review else flags.max_mebibytes * 2**20
            body, limit = (
                kind.make(most, cluster),
                shipped("limits", "memory", review=kind.is_review),
            )
            taken = []
            for pure in (False, True):
                for clients in (1, 2):
                    progress.say(f"{kind.name}, {clients} at once")
                    try:
                        taken.append(measure(kind, clients, body, manifest, flags.out, pure))
                    except (ServerError, OSError) as error:
                        progress.note(f"memory: {error}")
                        return 1
            rows.append((kind.name, *map(tables.mebibytes, (len(body), *taken, limit))))
            if max(taken) > limit:
                over.append(kind.name)
    (flags.out / "memory.md").write_text(tables.markdown(rows) + "\n")
    print("MiB: the most that master and worker took together\n")
    print(tables.terminal(rows))
    for name in over:
        print(f"over the manifests' limit: {name}")
    return 1 if over else 0


if __name__ == "__main__":
    arguments.end(main)
