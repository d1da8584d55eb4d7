"""`serve` as a process, following a fake API server."""

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import orjson
import pytest

from tests.cases_file import cases
from tests.fakes.apiserver import (
    NODES,
    PODS,
    RUNTIME_CLASSES,
    FakeApiServer,
    Fault,
    node,
    pod,
    runtime_class,
    status_document,
)
from tests.processes import Server, run, running, until

Serving = Callable[..., AbstractContextManager[Server]]


@pytest.fixture
def serving(config: str) -> Serving:
    """`serve` on the cluster; ready, unless waits is False."""

    @contextmanager
    def start(
        *flags: str, waits: bool = True, constants: dict[str, dict[str, object]] | None = None
    ) -> Iterator[Server]:
        own = ("--bind", "127.0.0.1:0", "--kubeconfig", config)
        with running("serve", *own, *flags, constants=constants) as server:
            until(lambda: not waits or is_ready(server))
            yield server

    return start


def filtered(
    server: Server, runtime_class: str, *names: str, pod: str = "web"
) -> dict[str, object]:
    metadata = {"name": pod, "namespace": "default", "uid": f"uid-{pod}"}
    spec = {"runtimeClassName": runtime_class} if runtime_class else {}
    asked = {"Pod": {"metadata": metadata, "spec": spec}, "NodeNames": names}
    answer = server.post("/filter", orjson.dumps(asked))
    assert isinstance(answer, dict)
    return answer


def is_ready(server: Server) -> bool:
    return server.request("GET", "/readyz")[0] == 200


def verbose(server: Server) -> str:
    return server.request("GET", "/readyz?verbose")[1].decode()


def test_before_the_first_sync_an_error_is_answered_and_plain_pods_pass(
    cluster: FakeApiServer, serving: Serving
) -> None:
    cluster.put(RUNTIME_CLASSES, runtime_class("kata"))
    cluster.faults[NODES].append(Fault(hang=True))
    with serving(waits=False) as server:
        until(lambda: "[+]runtimeclasses-synced ok" in verbose(server))
        assert not is_ready(server)
        assert "[-]nodes-synced failed: not all objects known yet" in verbose(server)
        answer = filtered(server, "kata", "n1")
        assert answer["Error"] == "runtimeclass-extender: nodes not synced yet"
        assert filtered(server, "", "n1")["NodeNames"] == ["n1"]
        assert server.stop() == 0


def test_a_source_that_never_gave_anything_is_not_called_ok(
    cluster: FakeApiServer, serving: Serving
) -> None:
    """Without the right to list nodes, the line that says so is one that fails."""
    cluster.put(RUNTIME_CLASSES, runtime_class("kata"))
    cluster.scripts[NODES] = deque([{"json": status_document(403), "status": 403}] * 1000)
    with serving(waits=False) as server:
        until(lambda: "[+]runtimeclasses-synced ok" in verbose(server))
        until(lambda: "HTTP 403" in verbose(server))
        lines = verbose(server).splitlines()
        assert "[+]runtimeclass-watch ok" in lines
        (line,) = (each for each in lines if "403" in each)
        assert line.startswith("[-]node-watch failed: nothing heard of the API server yet: ")
        assert not is_ready(server)


def test_through_an_outage_the_last_state_is_answered_with_its_age(
    cluster: FakeApiServer, serving: Serving
) -> None:
    cluster.put(RUNTIME_CLASSES, runtime_class("kata", selector={"k": "v"}))
    cluster.put(NODES, node("n1", {"k": "v"}))
    with serving() as server:
        cluster.stop()
        until(lambda: "[+]node-watch stale: last contact" in verbose(server))
        assert is_ready(server)
        assert "answering from the state of that time" in verbose(server)
        assert filtered(server, "kata", "n1", "n2")["NodeNames"] == ["n1"]
        # Nobody can tell whether there is such a class.
        answer = filtered(server, "unheard-of", "n1")
        assert str(answer["Error"]).startswith(
            'runtimeclass-extender: RuntimeClass "unheard-of" is not in the cache'
        )
        cluster.put(NODES, node("n2", {"k": "v"}))
        cluster.start()
        until(lambda: filtered(server, "kata", "n1", "n2")["NodeNames"] == ["n1", "n2"])
        until(lambda: "last contact" not in verbose(server))


def test_a_class_that_the_cache_lacks_is_asked_for_before_refusing(
    cluster: FakeApiServer, serving: Serving
) -> None:
    cluster.put(NODES, node("n1", {"k": "v"}))
    cluster.put(NODES, node("n2"))
    # The watch of classes says nothing more after its first list.
    cluster.faults[RUNTIME_CLASSES].append(Fault(after=1, end="hang"))
    # The answer may take a second where the machine is busy.
    with serving(constants={"extender.cluster.live_cluster": {"LIMIT_SECONDS": 15.0}}) as server:
        cluster.put(RUNTIME_CLASSES, runtime_class("late", selector={"k": "v"}))
        answer = filtered(server, "late", "n1", "n2")
        assert answer["NodeNames"] == ["n1"]
        assert answer["FailedAndUnresolvableNodes"] == {
            "n2": 'nodes don\'t match RuntimeClass "late" (nodeSelector k=v)'
        }
        assert len([each for each in cluster.requests if each.path.endswith("/late")]) == 1
        text = 'nodes don\'t match RuntimeClass "nope" (RuntimeClass not found)'
        assert filtered(server, "nope", "n1")["FailedAndUnresolvableNodes"] == {"n1": text}


def test_a_server_that_does_not_answer_costs_a_second_and_an_error(
    cluster: FakeApiServer, serving: Serving
) -> None:
    cluster.put(NODES, node("n1"))
    with serving() as server:
        cluster.faults[f"{RUNTIME_CLASSES}/slow"] = deque([Fault(hang=True)])
        began = time.monotonic()
        answer = filtered(server, "slow", "n1")
        assert time.monotonic() - began > 0.9
        assert "no answer within 1 s" in str(answer["Error"])


def test_a_node_event_that_comes_a_moment_later_is_waited_for(
    cluster: FakeApiServer, serving: Serving
) -> None:
    """kube-scheduler may have the event a moment earlier than the service."""
    cluster.put(RUNTIME_CLASSES, runtime_class("kata", selector={"k": "v"}))
    cluster.put(NODES, node("n1"))
    with serving(constants={"extender.cluster.node_wait": {"WAIT_SECONDS": 15.0}}) as server:
        until(lambda: b'"kata"' in server.request("GET", "/runtimeclasses")[1])
        event = threading.Timer(0.01, cluster.put, (NODES, node("n1", {"k": "v"})))
        event.start()
        assert filtered(server, "kata", "n1")["NodeNames"] == ["n1"]
        event.join()


def lists_of_pods(cluster: FakeApiServer) -> list[dict[str, str]]:
    return [dict(each.query) for each in cluster.requests if each.path == PODS]


def test_requeue_wakes_the_pods_of_a_class_that_appears(
    cluster: FakeApiServer, serving: Serving
) -> None:
    cluster.put(NODES, node("n1", {"k": "v"}))
    with serving("--requeue-pods") as server:
        for name in ("one", "two"):
            filtered(server, "late", "n1", pod=name)
        filtered(server, "other", "n1", pod="three")
        cluster.put(RUNTIME_CLASSES, runtime_class("late", selector={"k": "v"}))
        cluster.wait_for(lambda: len(cluster.patches) == 2)
        assert {each.path for each in cluster.patches} == {
            "/api/v1/namespaces/default/pods/one",
            "/api/v1/namespaces/default/pods/two",
        }
        document = orjson.loads(cluster.patches[0].body)["metadata"]
        assert document["uid"] in ("uid-one", "uid-two")
        assert set(document["annotations"]) == {"runtimeclass-extender/retry"}
        assert cluster.patches[0].headers["content-type"] == "application/merge-patch+json"
        counted = b"runtimeclass_extender_requeued_pods_total 2.0"
        until(lambda: counted in server.request("GET", "/metrics")[1])


def test_many_waiting_pods_are_listed_in_pages_through_faults(
    cluster: FakeApiServer, serving: Serving
) -> None:
    cluster.put(NODES, node("n1", {"k": "v"}))
    refused = 'nodes don\'t match RuntimeClass "late" (RuntimeClass not found)'
    for number in range(1100):
        message = f"0/1 nodes are available: 1 {refused}."
        cluster.put(PODS, pod(f"p{number}", "late", message=message))
    cluster.faults[PODS].extend([Fault(status=503), None, Fault(status=410)])
    with serving("--requeue-pods", "--distrust=off", waits=False) as server:
        server.wait_for_line("waiting pods listed")
        cluster.put(RUNTIME_CLASSES, runtime_class("late", selector={"k": "v"}))
        cluster.wait_for(lambda: len(cluster.patches) >= 40)
    queries = lists_of_pods(cluster)
    asked = {(each["limit"], each["fieldSelector"]) for each in queries}
    assert asked == {("500", "spec.nodeName=,status.phase=Pending")}
    # A 503; a page, and an expired token for the next one; then three pages in a row.
    assert ["continue" in each for each in queries] == [False, False, True, False, True, True]


def test_without_the_right_to_list_pods_one_line_says_so_and_the_rest_works(
    cluster: FakeApiServer, serving: Serving
) -> None:
    cluster.put(NODES, node("n1", {"k": "v"}))
    cluster.faults[PODS].extend([Fault(status=403)] * 9)
    with serving("--requeue-pods", "--distrust=off", waits=False) as server:
        server.wait_for_line("missing permission: list pods")
        filtered(server, "late", "n1")
        cluster.put(RUNTIME_CLASSES, runtime_class("late", selector={"k": "v"}))
        cluster.wait_for(lambda: len(cluster.patches) == 1)
    # A 403 is tried again for two seconds: the API server may still read its roles.
    assert 2 <= len(lists_of_pods(cluster)) <= 3


def test_without_the_flags_no_pod_is_touched(cluster: FakeApiServer, serving: Serving) -> None:
    cluster.put(NODES, node("n1", {"k": "v"}))
    with serving("--distrust=off") as server:
        filtered(server, "late", "n1")
        cluster.put(RUNTIME_CLASSES, runtime_class("late"))
        until(lambda: filtered(server, "late", "n1")["NodeNames"] == ["n1"])
        assert cluster.patches == []
        assert lists_of_pods(cluster) == []


def test_metrics_tell_of_the_watches(cluster: FakeApiServer, serving: Serving) -> None:
    cluster.put(NODES, node("n1"))
    with serving() as server:
        cluster.drop_connections()
        cluster.put(NODES, node("n2"))
        # The connection ends within a piece of an event, or between two.
        restarted = re.compile(rb'watch_restarts_total\{kind="Node",reason="(reset|closed)"\} 1\.0')
        until(lambda: bool(restarted.search(server.request("GET", "/metrics")[1])))
        text = server.request("GET", "/metrics")[1].decode()
        prefix = "runtimeclass_extender_"
        assert f'{prefix}watch_events_total{{kind="Node",type="ADDED"}}' in text
        assert f'{prefix}cache_synced{{kind="Node"}} 1.0' in text
        contact = f'{prefix}cache_last_contact_timestamp_seconds{{kind="Node"}} '
        at = float(text.partition(contact)[2].split()[0])
        assert abs(at - time.time()) < 60


@pytest.mark.parametrize("by_flag", [True, False], ids=["flag", "KUBECONFIG"])
@cases
def test_an_unusable_kubeconfig_ends_with_one_line_that_names_it_as_it_was_given(
    content: str, said: str, by_flag: bool, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    if by_flag:
        ended = run("serve", "--bind", "127.0.0.1:0", "--kubeconfig", str(file))
        place = f"--kubeconfig {file}"
    else:
        ended = run("nodes", "gvisor", env={"KUBECONFIG": str(file)})
        place = f"KUBECONFIG={file}"
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert place in ended.stderr
    assert said in ended.stderr


def test_an_unknown_context_ends_with_one_line(config: str) -> None:
    ended = run("serve", "--kubeconfig", config, "--context", "elsewhere")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "--context elsewhere: not in" in ended.stderr
