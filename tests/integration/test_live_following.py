"""One reflector against an API server that fails in every way; its waits are cut short."""

import json
import os
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from extender.cluster.api.config import ClusterConfig
from extender.cluster.api.connection import ApiConnection, SilentError
from extender.cluster.api.list_watch import Reason
from tests.cases_file import cases
from tests.certificates import Authority
from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, FakeApiServer, Fault, node, runtime_class
from tests.fakes.following import Following, config_for, following
from tests.processes import until
from tests.vectors_file import RECORDED

API = RECORDED / "apiserver"

Follow = Callable[..., AbstractContextManager[Following]]

EMPTY_LIST = {"json": {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}}


@pytest.fixture
def follow(config: str) -> Follow:
    """Follows the nodes of the cluster."""
    return partial(following, ClusterConfig(config), nodes=True)


def names(run: Following) -> set[str]:
    return {name.decode() for name in run.store.snapshot.nodes}


def has_labels(run: Following, name: str, labels: object) -> bool:
    found: object = json.loads(run.store.snapshot.table.labels.get(name.encode(), b"null"))
    return found == labels


def serving_context(authority: Authority) -> ssl.SSLContext:
    files = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert, files.key)
    return context


@contextmanager
def behind_tls(
    folder: Path, *, key_identifiers: bool = True
) -> Iterator[tuple[FakeApiServer, ClusterConfig]]:
    authority = Authority(folder / "pki", key_identifiers=key_identifiers)
    with FakeApiServer(tls=serving_context(authority)) as server:
        yield server, config_for(server, folder, ca_file=str(authority.cert))


def test_a_heartbeat_changes_no_snapshot(cluster: FakeApiServer, follow: Follow) -> None:
    cluster.put(NODES, node("n1", {"k": "v"}, handlers=["", "runsc"]))
    with follow() as run:
        until(lambda: names(run) == {"n1"})
        before = run.store.snapshot
        cluster.put(NODES, node("n1", {"k": "v"}, handlers=["", "runsc"], heartbeat=1))
        # Some runtimes report their handlers in changing order.
        cluster.put(NODES, node("n1", {"k": "v"}, handlers=["runsc", ""]))
        until(lambda: run.list_watch.resource_version == str(cluster.revision))
        assert run.store.snapshot is before
        assert run.events.count("MODIFIED") == 2


def test_what_a_real_api_server_sent_is_applied_before_anything_follows(tmp_path: Path) -> None:
    """Each event is in two pieces, and the end of its chunk is read with the next event only."""
    pieces = json.loads((RECORDED / "real-node" / "watch-pieces.json").read_bytes())
    texts = "".join(piece["bytes"] for piece in pieces[1:]).split("\r\n")[1::2]
    told = [json.loads(text)["object"]["metadata"]["labels"] for text in texts]
    assert len(told) == 3
    applied = threading.Semaphore(0)

    def answer() -> Iterator[dict[str, bytes]]:
        for piece in pieces[1:]:
            yield {"wire": piece["bytes"].encode()}
            if piece["bytes"].endswith("\n\r\n"):
                assert applied.acquire(timeout=10)

    # TLS keeps the pieces apart.
    with behind_tls(tmp_path) as (server, config):
        server.scripts[NODES] = deque([EMPTY_LIST, {"watch": answer(), "end": "hang"}])
        with following(config, nodes=True, watch_list=False) as run:
            for labels in told:
                until(partial(has_labels, run, "node1", labels))
                applied.release()


def test_changes_that_arrive_together_make_few_snapshots(tmp_path: Path) -> None:
    """A snapshot of 65,000 nodes takes 3 ms: one for each of a thousand changes, 3 s."""
    wire = b""
    for number in range(1000):
        metadata = {"name": f"n{number}", "resourceVersion": f"{number + 2}"}
        line = json.dumps({"type": "ADDED", "object": {"kind": "Node", "metadata": metadata}})
        wire += b"%x\r\n%s\n\r\n" % (len(line) + 1, line.encode())
    with behind_tls(tmp_path) as (server, config):
        watch = {"watch": iter([{"wire": wire}]), "end": "hang"}
        server.scripts[NODES] = deque([EMPTY_LIST, watch])
        with following(config, nodes=True, watch_list=False) as run:
            swaps: list[object] = []
            run.store.subscribe(swaps.append)
            until(lambda: len(run.store.snapshot.nodes) == 1000)
            assert len(swaps) < 100


@cases
def test_what_is_no_node_is_skipped_and_the_rest_is_used(
    item: object, cluster: FakeApiServer, follow: Follow
) -> None:
    good = {"kind": "Node", "metadata": {"name": "good", "resourceVersion": "5"}}
    listed = {"kind": "NodeList", "metadata": {"resourceVersion": "4"}, "items": [item]}
    events = [{"type": "ADDED", "object": each} for each in (item, good)]
    cluster.scripts[NODES] = deque([{"json": listed}, {"watch": events, "end": "hang"}])
    with follow(watch_list=False) as run:
        until(lambda: names(run) == {"good"})
        assert run.restarts == []


@cases
def test_what_is_no_list_does_not_empty_the_store(
    body: dict[str, object], cluster: FakeApiServer, follow: Follow
) -> None:
    cluster.put(NODES, node("n1"))
    with follow(watch_list=False) as run:
        until(lambda: names(run) == {"n1"})
        cluster.scripts[NODES] = deque([{"json": body}] * 3)
        cluster.compact()
        until(lambda: run.restarts.count(Reason.GARBAGE) >= 3)
        assert names(run) == {"n1"}
        del cluster.scripts[NODES]


def test_a_server_that_comes_back_with_other_contents_is_followed(
    cluster: FakeApiServer, follow: Follow
) -> None:
    for name in ("old", *["gone"] * 5):
        cluster.put(NODES, node(name))
    with follow() as run:
        until(lambda: names(run) == {"old", "gone"})
        cluster.stop()
        until(lambda: "last contact" in run.reflector.contact.describe())
        assert names(run) == {"old", "gone"}
        other = FakeApiServer()
        other.port = cluster.port
        other.put(NODES, node("new"))
        with other:
            until(lambda: names(run) == {"new"})
            assert run.reflector.contact.describe() == ""


def test_a_rotated_token_is_read_again(cluster: FakeApiServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    cluster.tokens = {"one"}
    with following(config_for(cluster, tmp_path, token_file=str(token)), nodes=True) as run:
        until(lambda: run.store.snapshot.nodes_synced)
        cluster.tokens = {"two"}
        cluster.drop_connections()
        run.wait_for(Reason.REFUSED)
        cluster.put(NODES, node("n1"))
        token.write_text("two\n")
        until(lambda: names(run) == {"n1"})


def test_an_exec_plugin_is_asked_again_after_a_401(
    cluster: FakeApiServer, config: str, follow: Follow, tmp_path: Path
) -> None:
    token, plugin, file = (tmp_path / "token", tmp_path / "plugin", Path(config))
    token.write_text("one")
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    document = json.dumps({**credential, "status": {"token": "TOKEN"}})
    plugin.write_text(f"#!/bin/sh\necho '{document}' | sed s/TOKEN/$(cat {token})/\n")
    plugin.chmod(0o755)
    cluster.tokens = {"one"}
    configuration: dict[str, Any] = json.loads(file.read_text())
    asked = {"apiVersion": credential["apiVersion"], "command": str(plugin)}
    configuration["users"][0]["user"] = {"exec": asked}
    file.write_text(json.dumps(configuration))
    with follow() as run:
        until(lambda: run.store.snapshot.nodes_synced)
        token.write_text("two")
        cluster.tokens = {"two"}
        cluster.drop_connections()
        run.wait_for(Reason.REFUSED)
        cluster.put(NODES, node("n1"))
        until(lambda: names(run) == {"n1"})


def test_a_changed_certificate_authority_is_read_again(tmp_path: Path) -> None:
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(first.cert.read_bytes())
    with FakeApiServer(tls=serving_context(first)) as server:
        config = config_for(server, tmp_path, ca_file=str(trusted))
        with following(config, nodes=True) as run:
            until(lambda: run.store.snapshot.nodes_synced)
            server.tls = serving_context(second)
            server.put(NODES, node("n1"))
            until(lambda: names(run) == {"n1"})
            server.drop_connections()
            until(lambda: "certificate" in run.reflector.contact.describe())
            server.put(NODES, node("n2"))
            trusted.write_bytes(second.cert.read_bytes())
            until(lambda: names(run) == {"n1", "n2"})


def test_a_ca_without_key_identifiers_is_trusted_as_kubectl_does(tmp_path: Path) -> None:
    """Python 3.13 and later would not; long-lived clusters have such CAs."""
    with (
        behind_tls(tmp_path, key_identifiers=False) as (server, config),
        following(config, nodes=True) as run,
    ):
        server.put(NODES, node("n1"))
        until(lambda: names(run) == {"n1"})


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_once_what_is_missing(
    status: int, cluster: FakeApiServer, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.faults[NODES].extend([Fault(status=status)] * 6)
    with follow(watch_list=False) as run:
        until(lambda: run.restarts.count(Reason.REFUSED) == 6)
        until(lambda: run.store.snapshot.nodes_synced)
    (line,) = (record.message for record in caplog.records if record.levelname == "ERROR")
    if status == 403:
        assert line == "missing permission: list nodes at cluster scope; add it to the ClusterRole"


@pytest.mark.parametrize("watch_list", [True, False])
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_of_a_server_that_has_just_started_is_no_missing_right(
    status: int,
    watch_list: bool,
    cluster: FakeApiServer,
    follow: Follow,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """kube-apiserver refuses everybody until it has read its roles; a second try is let in."""
    refusals = [Fault(status=status)] * (2 if watch_list else 1)
    cluster.faults[NODES].extend(refusals)
    with follow(watch_list=watch_list) as run:
        until(lambda: run.store.snapshot.nodes_synced)
        # An event shows that the watch has begun: an earlier request, cut off, would get no 403.
        cluster.put(NODES, node("n0"))
        until(lambda: run.list_watch.resource_version == str(cluster.revision))
        # Some minutes later, as the clock of `following` has it.
        run.pauses.append(300.0)
        run.restarts.clear()
        cluster.faults[NODES].extend(refusals)
        cluster.drop_connections()
        until(lambda: Reason.REFUSED in run.restarts)
        cluster.put(NODES, node("n1"))
        until(lambda: run.list_watch.resource_version == str(cluster.revision))
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []
    assert f"HTTP {status}" in str([vars(each).get("cause") for each in caplog.records])


def test_a_right_to_watch_that_is_missing_is_named_though_lists_are_allowed(
    cluster: FakeApiServer, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.rights = frozenset({("", "nodes", "list")})
    with follow():
        until(lambda: "missing permission: watch nodes at cluster scope" in caplog.text)
    assert "missing permission: list" not in caplog.text


def test_a_silent_server_is_waited_for_as_long_as_whoever_asks_it_says(
    cluster: FakeApiServer, config: str
) -> None:
    cluster.faults[NODES].append(Fault(hang=True))
    began = time.monotonic()
    with pytest.raises(SilentError):
        ApiConnection(ClusterConfig(config)).get(NODES, silence=0.1)
    assert time.monotonic() - began < 5


def test_retry_after_is_honoured(cluster: FakeApiServer, follow: Follow) -> None:
    for status, seconds in ((503, "7"), (429, "9")):
        cluster.faults[NODES].append(Fault(status=status, headers={"Retry-After": seconds}))
    with follow(watch_list=False) as run:
        until(lambda: run.store.snapshot.nodes_synced)
        assert run.pauses[:2] == [7, 9]


@pytest.mark.parametrize("hangs", [Fault(hang=True), Fault(after=1, end="hang"), None])
@pytest.mark.parametrize("watch_list", [True, False])
def test_stopping_is_not_delayed_by_a_hanging_server_or_a_tls_watch(
    hangs: Fault | None, watch_list: bool, tmp_path: Path
) -> None:
    """`following` fails when the thread does not end at once."""
    with behind_tls(tmp_path) as (server, config):
        server.put(NODES, node("n1"))
        server.faults[NODES].extend([hangs, hangs])
        with following(config, nodes=True, watch_list=watch_list) as run:
            server.wait_for(lambda: len(server.requests) >= 1)
            until(lambda: hangs is not None or run.store.snapshot.nodes_synced)


def test_hundreds_of_restarts_leave_nothing_behind(cluster: FakeApiServer, follow: Follow) -> None:
    cluster.put(NODES, node("n1"))
    cluster.faults[NODES].extend([None, *[Fault(cut=True)] * 300])
    with follow(watch_list=False) as run:
        until(lambda: len(run.restarts) >= 10)
        descriptors = len(os.listdir("/proc/self/fd"))
        until(lambda: len(run.restarts) >= 300)
        until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 5)
        mine = [t for t in threading.enumerate() if t.name.startswith("reflector-")]
        assert len(mine) == 1


@pytest.mark.parametrize("watch_list", [True, False])
def test_what_a_real_api_server_sent_is_understood(
    watch_list: bool, cluster: FakeApiServer, follow: Follow
) -> None:
    def stream(name: str) -> dict[str, object]:
        return {"watch": [{"raw": (API / f"{name}.json").read_text()}], "end": "close"}

    lists = [API / f"nodes-list-page{number}.json" for number in (1, 2, 3)]
    cluster.scripts[NODES] = deque(
        [stream("nodes-watchlist-sendInitialEvents")]
        if watch_list
        else [
            *({"json": json.loads(page.read_bytes())} for page in lists),
            stream("nodes-watch-from-rv"),
            stream("nodes-watch-rv-too-old"),
        ]
    )
    with follow(watch_list=watch_list) as run:
        until(lambda: run.store.snapshot.nodes_synced)
        until(lambda: run.restarts[-1:] == [Reason.CLOSED if watch_list else Reason.EXPIRED])
        assert len(names(run)) == 9
        assert run.store.snapshot.shape(b"node-000000") is not None


def test_runtime_classes_are_followed_as_far_as_they_decode(
    cluster: FakeApiServer, config: str
) -> None:
    """The classes of a recorded stream, and one that no API server of today would store."""
    raw = (API / "runtimeclasses-watchlist.json").read_text()
    invalid = {"kind": "RuntimeClass", **runtime_class("a", handler="NOT valid"), "unknown": 1}
    invalid["metadata"]["resourceVersion"] = "99999"
    watch: list[dict[str, Any]] = [{"raw": raw}, {"type": "ADDED", "object": invalid}]
    cluster.scripts[RUNTIME_CLASSES] = deque([{"watch": watch, "end": "hang"}])
    with following(ClusterConfig(config)) as run:
        until(lambda: "a" in run.store.snapshot.runtime_classes)
        classes = run.store.snapshot.runtime_classes
        assert run.store.snapshot.runtime_classes_synced
        assert classes["gvisor"].handler == "runsc"
        assert classes["gvisor"].node_selector == (("sandbox.example/gvisor", "true"),)
        assert classes["a"].handler == "NOT valid"
