"""One reflector against an API server that fails in every way; its waits are cut short."""

import json
import os
import ssl
import threading
from collections import deque
from pathlib import Path

import pytest

from extender.cluster.list_watch import Reason
from extender.cluster.live_cluster import LiveCluster
from extender.cluster.snapshot_store import SnapshotStore
from extender.metrics import Metrics
from tests.certificates import Authority
from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, FakeApiServer, Fault, node, runtime_class
from tests.fakes.following import Following, config_for, following
from tests.processes import until
from tests.vectors_file import RECORDED

API = RECORDED / "apiserver"


def names(run: Following) -> set[str]:
    return {name.decode() for name in run.store.snapshot.nodes}


def serving_context(authority: Authority) -> ssl.SSLContext:
    files = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert, files.key)
    return context


def test_a_heartbeat_changes_no_snapshot(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        server.put(NODES, node("n1", {"k": "v"}, handlers=["", "runsc"]))
        with following(config_for(server, tmp_path), nodes=True) as run:
            until(lambda: names(run) == {"n1"})
            before = run.store.snapshot
            server.put(NODES, node("n1", {"k": "v"}, handlers=["", "runsc"], heartbeat=1))
            # Some runtimes report their handlers in changing order.
            server.put(NODES, node("n1", {"k": "v"}, handlers=["runsc", ""]))
            until(lambda: run.list_watch.resource_version == str(server.revision))
            assert run.store.snapshot is before
            assert run.events.count("MODIFIED") == 2


def test_a_burst_is_folded_into_few_swaps(tmp_path: Path) -> None:
    with FakeApiServer() as server, following(config_for(server, tmp_path), nodes=True) as run:
        until(lambda: run.store.snapshot.nodes_synced)
        swaps: list[object] = []
        run.store.subscribe(swaps.append)
        # All at once, for whoever watches.
        with server.news:
            for number in range(1000):
                server.put(NODES, node(f"n{number}", {"k": str(number), "pad": "x" * 500}))
        until(lambda: len(names(run)) == 1000)
        assert len(swaps) < 500


def test_an_older_version_is_not_applied(tmp_path: Path) -> None:
    def event(version: str, value: str) -> dict[str, object]:
        metadata = {"name": "a", "resourceVersion": version, "labels": {"k": value}}
        return {"type": "MODIFIED", "object": {"kind": "Node", "metadata": metadata}}

    newest = "9" * 30
    with FakeApiServer() as server:
        server.scripts[NODES] = deque(
            [
                {"json": {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}},
                {
                    "watch": [event(newest, "new"), event("10", "old"), event("2", "older")],
                    "end": "hang",
                },
            ]
        )
        with following(config_for(server, tmp_path), nodes=True, watch_list=False) as run:
            until(lambda: len(run.events) == 3)
            until(lambda: names(run) == {"a"})
            assert run.store.snapshot.labels[b"a"] == b'{"k":"new"}'
            assert run.list_watch.resource_version == newest


@pytest.mark.parametrize(
    "item",
    [
        pytest.param({"kind": "Pod", "metadata": {"name": "p"}}, id="another kind"),
        pytest.param({"kind": "Node", "metadata": {"name": "Not A Name"}}, id="an invalid name"),
        pytest.param({"kind": "Node", "metadata": {}}, id="no name"),
        pytest.param({"kind": "Node", "metadata": {"name": "x", "labels": [1]}}, id="wrong labels"),
        pytest.param(["no", "object"], id="a list"),
        pytest.param(None, id="null"),
    ],
)
def test_what_is_no_node_is_skipped_and_the_rest_is_used(item: object, tmp_path: Path) -> None:
    good = {"kind": "Node", "metadata": {"name": "good", "resourceVersion": "5"}}
    listed = {"kind": "NodeList", "metadata": {"resourceVersion": "4"}, "items": [item]}
    with FakeApiServer() as server:
        events = [{"type": "ADDED", "object": each} for each in (item, good)]
        server.scripts[NODES] = deque([{"json": listed}, {"watch": events, "end": "hang"}])
        with following(config_for(server, tmp_path), nodes=True, watch_list=False) as run:
            until(lambda: names(run) == {"good"})
            assert run.restarts == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="no kind"),
        pytest.param({"kind": "Status", "metadata": {"resourceVersion": "1"}}, id="a Status"),
        pytest.param({"kind": "NodeList", "items": []}, id="no resourceVersion"),
        pytest.param({"kind": "PodList", "metadata": {"resourceVersion": "1"}}, id="another kind"),
    ],
)
def test_what_is_no_list_does_not_empty_the_store(body: dict[str, object], tmp_path: Path) -> None:
    with FakeApiServer() as server:
        server.put(NODES, node("n1"))
        with following(config_for(server, tmp_path), nodes=True, watch_list=False) as run:
            until(lambda: names(run) == {"n1"})
            server.scripts[NODES] = deque([{"json": body}] * 3)
            server.compact()
            until(lambda: run.restarts.count(Reason.GARBAGE) >= 3)
            assert names(run) == {"n1"}
            del server.scripts[NODES]


def test_a_server_that_comes_back_with_other_contents_is_followed(tmp_path: Path) -> None:
    server = FakeApiServer().start()
    server.put(NODES, node("old"))
    for _ in range(5):
        server.put(NODES, node("gone"))
    with following(config_for(server, tmp_path), nodes=True) as run:
        until(lambda: names(run) == {"old", "gone"})
        server.stop()
        run.wait_for(Reason.UNREACHABLE)
        assert names(run) == {"old", "gone"}
        assert "last contact" in run.reflector.describe()
        other = FakeApiServer()
        other.port = server.port
        other.put(NODES, node("new"))
        with other:
            until(lambda: names(run) == {"new"})
            assert run.reflector.describe() == ""


@pytest.mark.parametrize("status", [0, 503], ids=["not reached", "not ready"])
def test_one_kind_that_finds_the_server_again_has_all_kinds_try(
    status: int, tmp_path: Path
) -> None:
    """Nodes would wait for half a minute more; it is the RuntimeClasses' turn to try."""
    server = FakeApiServer()
    server.put(NODES, node("n1"))
    faults = [Fault(status=status) if status else Fault(cut=True)] * 2
    server.faults[NODES].extend(faults)
    server.faults[RUNTIME_CLASSES].extend(faults)
    waiting, back = threading.Event(), threading.Event()

    def pause(event: threading.Event, seconds: float) -> bool:
        if threading.current_thread().name != "reflector-nodes":
            assert waiting.wait(10)
            assert back.wait(10)
            return False
        if len([each for each in server.requests if each.path == NODES]) < len(faults):
            return False
        waiting.set()
        return event.wait(60)

    store = SnapshotStore()
    with server:
        cluster = LiveCluster(
            config_for(server, tmp_path), store, Metrics(), watch_list=False, pause=pause
        )
        cluster.start()
        try:
            assert waiting.wait(10)
            assert not store.snapshot.nodes_synced
            back.set()
            until(lambda: store.snapshot.nodes_synced)
        finally:
            cluster.stop()


def test_a_rotated_token_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    with FakeApiServer() as server:
        server.tokens = {"one"}
        config = config_for(server, tmp_path, token_file=str(token))
        with following(config, nodes=True) as run:
            until(lambda: run.store.snapshot.nodes_synced)
            server.tokens = {"two"}
            server.drop_connections()
            run.wait_for(Reason.REFUSED)
            server.put(NODES, node("n1"))
            token.write_text("two\n")
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
            run.wait_for(Reason.UNREACHABLE)
            assert "certificate" in run.reflector.describe()
            server.put(NODES, node("n2"))
            trusted.write_bytes(second.cert.read_bytes())
            until(lambda: names(run) == {"n1", "n2"})


def test_a_ca_without_key_identifiers_is_trusted_as_kubectl_does(tmp_path: Path) -> None:
    """Python 3.13 and later would not; long-lived clusters have such CAs."""
    authority = Authority(tmp_path / "pki", key_identifiers=False)
    with FakeApiServer(tls=serving_context(authority)) as server:
        config = config_for(server, tmp_path, ca_file=str(authority.cert))
        with following(config, nodes=True) as run:
            server.put(NODES, node("n1"))
            until(lambda: names(run) == {"n1"})


def test_an_exec_plugin_is_asked_again_after_a_401(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    plugin = tmp_path / "plugin"
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    document = json.dumps({**credential, "status": {"token": "TOKEN"}})
    plugin.write_text(f"#!/bin/sh\necho '{document}' | sed s/TOKEN/$(cat {token})/\n")
    plugin.chmod(0o755)
    with FakeApiServer() as server:
        server.tokens = {"one"}
        file = tmp_path / "kubeconfig"
        config_for(server, tmp_path)
        configuration = json.loads(file.read_text())
        configuration["users"][0]["user"] = {
            "exec": {"apiVersion": credential["apiVersion"], "command": str(plugin)}
        }
        file.write_text(json.dumps(configuration))
        from extender.cluster.cluster_config import ClusterConfig

        with following(ClusterConfig(str(file)), nodes=True) as run:
            until(lambda: run.store.snapshot.nodes_synced)
            server.put(NODES, node("n1"))
            token.write_text("two")
            server.tokens = {"two"}
            server.drop_connections()
            run.wait_for(Reason.REFUSED)
            server.put(NODES, node("n2"))
            until(lambda: names(run) == {"n1", "n2"})


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_says_once_what_is_missing(
    status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeApiServer() as server:
        server.faults[NODES].extend([Fault(status=status)] * 8)
        with following(config_for(server, tmp_path), nodes=True, watch_list=False) as run:
            until(lambda: run.restarts.count(Reason.REFUSED) == 8)
            until(lambda: run.store.snapshot.nodes_synced)
    lines = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(lines) == 1
    if status == 403:
        text = "missing permission: list nodes at cluster scope; add it to the ClusterRole"
        assert lines == [text]


def test_retry_after_is_honoured(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        server.faults[NODES].append(Fault(status=503, headers={"Retry-After": "7"}))
        server.faults[NODES].append(Fault(status=429, headers={"Retry-After": "9"}))
        with following(config_for(server, tmp_path), nodes=True, watch_list=False) as run:
            until(lambda: run.store.snapshot.nodes_synced)
            assert run.pauses[0] == 7
            assert run.pauses[1] == 9


def test_a_list_of_many_pages_is_complete(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        for number in range(1203):
            server.put(NODES, node(f"n{number}"))
        with following(config_for(server, tmp_path), nodes=True, watch_list=False) as run:
            until(lambda: len(names(run)) == 1203)
        assert [request.query.get("limit") for request in server.requests[:3]] == ["500"] * 3


def test_an_expired_page_begins_the_list_anew(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        for number in range(600):
            server.put(NODES, node(f"n{number}"))
        server.faults[NODES].extend([None, Fault(status=410)])
        with following(config_for(server, tmp_path), nodes=True, watch_list=False) as run:
            until(lambda: len(names(run)) == 600)
            assert run.restarts == [Reason.EXPIRED]
            assert len(server.requests) >= 4


@pytest.mark.parametrize("hangs", [Fault(hang=True), Fault(after=1, end="hang")])
@pytest.mark.parametrize("watch_list", [True, False])
def test_stopping_is_not_delayed_by_a_hanging_server(
    hangs: Fault, watch_list: bool, tmp_path: Path
) -> None:
    """`following` fails when the thread does not end at once."""
    with FakeApiServer() as server:
        server.put(NODES, node("n1"))
        server.faults[NODES].extend([hangs, hangs])
        with following(config_for(server, tmp_path), nodes=True, watch_list=watch_list):
            server.wait_for(lambda: len(server.requests) >= 1)


def test_stopping_is_not_delayed_by_a_tls_watch(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    with FakeApiServer(tls=serving_context(authority)) as server:
        config = config_for(server, tmp_path, ca_file=str(authority.cert))
        with following(config, nodes=True) as run:
            until(lambda: run.store.snapshot.nodes_synced)


def test_hundreds_of_restarts_leave_nothing_behind(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        server.put(NODES, node("n1"))
        server.faults[NODES].extend([None, *[Fault(cut=True)] * 300])
        with following(config_for(server, tmp_path), nodes=True, watch_list=False) as run:
            until(lambda: len(run.restarts) >= 10)
            descriptors = len(os.listdir("/proc/self/fd"))
            until(lambda: len(run.restarts) >= 300)
            until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 5)
            mine = [t for t in threading.enumerate() if t.name.startswith("reflector-")]
            assert len(mine) == 1


@pytest.mark.parametrize("watch_list", [True, False])
def test_what_a_real_api_server_sent_is_understood(watch_list: bool, tmp_path: Path) -> None:
    def document(name: str) -> dict[str, object]:
        loaded = json.loads((API / f"{name}.json").read_bytes())
        assert isinstance(loaded, dict)
        return loaded

    def stream(name: str) -> dict[str, object]:
        return {"watch": [{"raw": (API / f"{name}.json").read_text()}], "end": "close"}

    pages = [{"json": document(f"nodes-list-page{number}")} for number in (1, 2, 3)]
    with FakeApiServer() as server:
        server.scripts[NODES] = deque(
            [stream("nodes-watchlist-sendInitialEvents")]
            if watch_list
            else [*pages, stream("nodes-watch-from-rv"), stream("nodes-watch-rv-too-old")]
        )
        with following(config_for(server, tmp_path), nodes=True, watch_list=watch_list) as run:
            until(lambda: run.store.snapshot.nodes_synced)
            until(lambda: run.restarts[-1:] == [Reason.CLOSED if watch_list else Reason.EXPIRED])
            assert len(names(run)) == 9
            taint = run.store.snapshot.shape(b"node-000000")
            assert taint is not None


def test_runtime_classes_that_a_real_api_server_streamed_are_understood(tmp_path: Path) -> None:
    raw = (API / "runtimeclasses-watchlist.json").read_text()
    with FakeApiServer() as server:
        server.scripts[RUNTIME_CLASSES] = deque([{"watch": [{"raw": raw}], "end": "hang"}])
        with following(config_for(server, tmp_path)) as run:
            until(lambda: run.store.snapshot.runtime_classes_synced)
            classes = run.store.snapshot.runtime_classes
            assert classes["gvisor"].handler == "runsc"
            assert classes["gvisor"].node_selector == (("sandbox.example/gvisor", "true"),)


def test_an_invalid_class_is_used_as_far_as_it_decodes(tmp_path: Path) -> None:
    invalid = {**runtime_class("a", handler="NOT valid"), "unknown": 1}
    with FakeApiServer() as server:
        server.put(RUNTIME_CLASSES, invalid)
        with following(config_for(server, tmp_path)) as run:
            until(lambda: "a" in run.store.snapshot.runtime_classes)
            assert run.store.snapshot.runtime_classes["a"].handler == "NOT valid"
