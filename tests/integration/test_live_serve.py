"""`serve` as a process, following a fake API server."""

import threading
import time
from collections import deque
from functools import partial
from pathlib import Path

import orjson
import pytest

from tests.fakes.apiserver import (
    NODES,
    PODS,
    RUNTIME_CLASSES,
    FakeApiServer,
    Fault,
    kubeconfig,
    node,
    pod,
    runtime_class,
    status_document,
)
from tests.processes import Server, run, running, until


def body(runtime_class: str, *names: str, pod: str = "web") -> bytes:
    metadata = {"name": pod, "namespace": "default", "uid": f"uid-{pod}"}
    spec = {"runtimeClassName": runtime_class} if runtime_class else {}
    return orjson.dumps({"Pod": {"metadata": metadata, "spec": spec}, "NodeNames": names})


def filtered(
    server: Server, runtime_class: str, *names: str, pod: str = "web"
) -> dict[str, object]:
    answer = server.post("/filter", body(runtime_class, *names, pod=pod))
    assert isinstance(answer, dict)
    return answer


def start(api: FakeApiServer, folder: Path) -> tuple[str, ...]:
    file = folder / "kubeconfig"
    file.write_text(kubeconfig(api.url))
    return ("serve", "--bind", "127.0.0.1:0", "--kubeconfig", str(file))


def is_ready(server: Server) -> bool:
    return server.request("GET", "/readyz")[0] == 200


def verbose(server: Server) -> str:
    return server.request("GET", "/readyz?verbose")[1].decode()


def test_before_the_first_sync_an_error_is_answered_and_plain_pods_pass(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(RUNTIME_CLASSES, runtime_class("kata"))
        api.faults[NODES].append(Fault(hang=True))
        with running(*start(api, tmp_path)) as server:
            until(lambda: "[+]runtimeclasses-synced ok" in verbose(server))
            status, text, _ = server.request("GET", "/readyz?verbose")
            assert status == 503
            assert b"[-]nodes-synced failed: not all objects known yet" in text
            answer = filtered(server, "kata", "n1")
            assert answer["Error"] == "runtimeclass-extender: nodes not synced yet"
            assert filtered(server, "", "n1")["NodeNames"] == ["n1"]
            assert server.stop() == 0


def test_a_source_that_never_gave_anything_is_not_called_ok(tmp_path: Path) -> None:
    """A missing right to list nodes: the line that says so is the one that fails."""
    with FakeApiServer() as api:
        api.put(RUNTIME_CLASSES, runtime_class("kata"))
        api.scripts[NODES] = deque([{"json": status_document(403), "status": 403}] * 1000)
        with running(*start(api, tmp_path)) as server:
            until(lambda: "[+]runtimeclasses-synced ok" in verbose(server))
            until(lambda: "HTTP 403" in verbose(server))
            lines = verbose(server).splitlines()
            assert "[+]runtimeclass-watch ok" in lines
            (line,) = (each for each in lines if "403" in each)
            assert line.startswith("[-]node-watch failed: nothing heard of the API server yet: ")
            assert not is_ready(server)


def test_through_an_outage_the_last_state_is_answered_with_its_age(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(RUNTIME_CLASSES, runtime_class("kata", selector={"k": "v"}))
        api.put(NODES, node("n1", {"k": "v"}))
        with running(*start(api, tmp_path)) as server:
            until(lambda: is_ready(server))
            api.stop()
            until(lambda: "[+]node-watch stale: last contact" in verbose(server))
            assert is_ready(server)
            assert "answering from the state of then" in verbose(server)
            assert filtered(server, "kata", "n1", "n2")["NodeNames"] == ["n1"]
            # Whether there is such a class nobody can say.
            answer = filtered(server, "unheard-of", "n1")
            assert str(answer["Error"]).startswith(
                'runtimeclass-extender: RuntimeClass "unheard-of" is not in the cache'
            )
            api.put(NODES, node("n2", {"k": "v"}))
            api.start()
            until(lambda: filtered(server, "kata", "n1", "n2")["NodeNames"] == ["n1", "n2"])
            until(lambda: "last contact" not in verbose(server))


def test_a_class_that_the_cache_lacks_is_asked_for_before_refusing(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(NODES, node("n1", {"k": "v"}))
        api.put(NODES, node("n2"))
        # The watch of classes says nothing more after its first list.
        api.faults[RUNTIME_CLASSES].append(Fault(after=1, end="hang"))
        with running(*start(api, tmp_path)) as server:
            until(lambda: is_ready(server))
            api.put(RUNTIME_CLASSES, runtime_class("late", selector={"k": "v"}))
            answer = filtered(server, "late", "n1", "n2")
            assert answer["NodeNames"] == ["n1"]
            assert answer["FailedAndUnresolvableNodes"] == {
                "n2": 'nodes don\'t match RuntimeClass "late" (nodeSelector k=v)'
            }
            asked = [each for each in api.requests if each.path.endswith("/late")]
            assert len(asked) == 1


def test_a_missing_class_is_asked_for_once_a_second(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(NODES, node("n1"))
        with running(*start(api, tmp_path)) as server:
            until(lambda: is_ready(server))
            began = time.monotonic()
            for _ in range(20):
                reasons = filtered(server, "nope", "n1")["FailedAndUnresolvableNodes"]
                text = 'nodes don\'t match RuntimeClass "nope" (RuntimeClass not found)'
                assert reasons == {"n1": text}
            took = time.monotonic() - began
            asked = [each for each in api.requests if each.path.endswith("/nope")]
            assert 1 <= len(asked) <= took + 1


def test_more_than_ten_questions_a_second_are_an_error_not_a_guess(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(NODES, node("n1"))
        with running(*start(api, tmp_path)) as server:
            until(lambda: is_ready(server))
            errors = [filtered(server, f"nope{each}", "n1")["Error"] for each in range(40)]
            assert errors[:10] == [""] * 10
            assert any("more than 10 look-ups a second" in str(error) for error in errors)


def test_a_server_that_does_not_answer_costs_a_second_and_an_error(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(NODES, node("n1"))
        with running(*start(api, tmp_path)) as server:
            until(lambda: is_ready(server))
            api.faults[f"{RUNTIME_CLASSES}/slow"] = deque([Fault(hang=True)])
            began = time.monotonic()
            answer = filtered(server, "slow", "n1")
            assert time.monotonic() - began > 0.9
            assert "no answer within 1 s" in str(answer["Error"])


def test_a_node_event_within_30_ms_is_waited_for(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(RUNTIME_CLASSES, runtime_class("kata", selector={"k": "v"}))
        api.put(NODES, node("n1"))
        with running(*start(api, tmp_path)) as server:
            until(lambda: is_ready(server))
            filtered(server, "kata", "n1")
            in_time = 0
            for number in range(10):
                api.put(
                    RUNTIME_CLASSES, runtime_class(f"kata{number}", selector={"l": str(number)})
                )
                until(partial(knows_class, server, f"kata{number}"))
                # As where kube-scheduler has the event a moment earlier than the service.
                event = threading.Timer(0.01, api.put, (NODES, node("n1", {"l": str(number)})))
                event.start()
                in_time += filtered(server, f"kata{number}", "n1")["NodeNames"] == ["n1"]
                event.join()
            # On a busy machine an event may take longer than that.
            assert in_time > 5


def knows_class(server: Server, name: str) -> bool:
    return f'"{name}"' in server.request("GET", "/runtimeclasses")[1].decode()


def test_the_wait_for_node_events_is_short_and_seldom(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(RUNTIME_CLASSES, runtime_class("kata", selector={"k": "v"}))
        api.put(NODES, node("n1"))
        with running(*start(api, tmp_path)) as server:
            until(lambda: is_ready(server))

            def seconds(runtime_class: str) -> float:
                """How long 200 questions about the node take."""
                began = time.monotonic()
                for _ in range(200):
                    filtered(server, runtime_class, "n1")
                return time.monotonic() - began

            # 10 waits of 30 ms a second at the most; a wait each would be 6 s more.
            assert seconds("kata") < 1.5 * seconds("") + 3


def test_requeue_wakes_the_pods_of_a_class_that_appears(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(NODES, node("n1", {"k": "v"}))
        with running(*start(api, tmp_path), "--requeue-pods") as server:
            until(lambda: is_ready(server))
            for pod in ("one", "two"):
                filtered(server, "late", "n1", pod=pod)
            filtered(server, "other", "n1", pod="three")
            api.put(RUNTIME_CLASSES, runtime_class("late", selector={"k": "v"}))
            api.wait_for(lambda: len(api.patches) == 2)
            paths = {each.path for each in api.patches}
            assert paths == {
                "/api/v1/namespaces/default/pods/one",
                "/api/v1/namespaces/default/pods/two",
            }
            document = orjson.loads(api.patches[0].body)["metadata"]
            assert document["uid"] in ("uid-one", "uid-two")
            assert set(document["annotations"]) == {"runtimeclass-extender/retry"}
            assert api.patches[0].headers["content-type"] == "application/merge-patch+json"
            counted = b"runtimeclass_extender_requeued_pods_total 2.0"
            until(lambda: counted in server.request("GET", "/metrics")[1])


def no_handler(count: int) -> str:
    """What kube-scheduler says of a pod that it asked about `count` nodes for."""
    return (
        f"0/{count + 1} nodes are available: 1 node(s) had untolerated taint(s), {count} nodes"
        ' don\'t match RuntimeClass "kata" (no runtime handler "kata-qemu"). preemption: 0/3 nodes'
        " are available: 3 Preemption is not helpful for scheduling."
    )


def patched(api: FakeApiServer) -> list[str]:
    return sorted(each.path.rpartition("/")[2] for each in api.patches)


def lists_of_pods(api: FakeApiServer) -> list[dict[str, str]]:
    return [dict(each.query) for each in api.requests if each.path == PODS]


def test_what_was_refused_before_a_restart_is_woken_after_it(tmp_path: Path) -> None:
    """By the same change: the handler appears, and the pod is tried at once."""
    with FakeApiServer() as api:
        api.put(RUNTIME_CLASSES, runtime_class("kata", "kata-qemu"))
        api.put(NODES, node("n1", handlers=["runc"]))
        api.put(PODS, pod("new", "kata"))
        api.put(PODS, pod("plain"))
        api.put(PODS, pod("bound", "kata", nodeName="n1"))
        with running(*start(api, tmp_path), "--requeue-pods") as server:
            until(lambda: is_ready(server))
            filtered(server, "kata", "n1", pod="refused")
            api.put(PODS, pod("refused", "kata", message=no_handler(1)))
        with running(*start(api, tmp_path), "--requeue-pods") as server:
            server.wait_for_line("waiting pods listed")
            assert api.patches == []
            api.put(NODES, node("n1", handlers=["runc", "kata-qemu"]))
            api.wait_for(lambda: len(api.patches) == 2)
            server.stop()
        assert patched(api) == ["new", "refused"]
        assert {each["fieldSelector"] for each in lists_of_pods(api)} == {
            "spec.nodeName=,status.phase=Pending"
        }


def test_what_changed_while_nobody_was_there_wakes_at_the_start(tmp_path: Path) -> None:
    """Only the pods that were refused for what is so no longer, lest each start wakes all."""
    with FakeApiServer() as api:
        api.put(RUNTIME_CLASSES, runtime_class("kata", "kata-qemu"))
        api.put(NODES, node("n1", handlers=["runc", "kata-qemu"]))
        api.put(NODES, node("n2", handlers=["runc"]))
        api.put(PODS, pod("once", "kata", message=no_handler(2)))
        api.put(PODS, pod("still", "kata", message=no_handler(1)))
        full = "0/2 nodes are available: 2 Insufficient cpu."
        api.put(PODS, pod("full", "kata", message=full))
        with running(*start(api, tmp_path), "--requeue-pods") as server:
            api.wait_for(lambda: bool(api.patches))
            api.put(NODES, node("n2", handlers=["runc", "kata-qemu"]))
            api.wait_for(lambda: len(api.patches) >= 3)
            server.stop()
        assert patched(api) == ["once", "once", "still"]


def test_many_waiting_pods_are_listed_in_pages_through_faults(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(NODES, node("n1", {"k": "v"}))
        for number in range(1100):
            api.put(PODS, pod(f"p{number}", "late"))
        api.faults[PODS].extend([Fault(status=503), None, Fault(status=410)])
        with running(*start(api, tmp_path), "--requeue-pods") as server:
            server.wait_for_line("waiting pods listed")
            api.put(RUNTIME_CLASSES, runtime_class("late", selector={"k": "v"}))
            api.wait_for(lambda: len(api.patches) >= 40)
        queries = lists_of_pods(api)
        assert {each["limit"] for each in queries} == {"500"}
        # Refused; a page, and the next one's token has expired; then three in a row.
        assert ["continue" in each for each in queries] == [False, False, True, False, True, True]


def test_without_the_right_to_list_pods_one_line_says_so_and_the_rest_works(
    tmp_path: Path,
) -> None:
    with FakeApiServer() as api:
        api.put(NODES, node("n1", {"k": "v"}))
        api.faults[PODS].append(Fault(status=403))
        with running(*start(api, tmp_path), "--requeue-pods") as server:
            server.wait_for_line("missing permission: list pods")
            filtered(server, "late", "n1")
            api.put(RUNTIME_CLASSES, runtime_class("late", selector={"k": "v"}))
            api.wait_for(lambda: len(api.patches) == 1)
        assert len(lists_of_pods(api)) == 1


def test_without_the_flag_no_pod_is_touched(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(NODES, node("n1", {"k": "v"}))
        with running(*start(api, tmp_path)) as server:
            until(lambda: is_ready(server))
            filtered(server, "late", "n1")
            api.put(RUNTIME_CLASSES, runtime_class("late"))
            until(lambda: filtered(server, "late", "n1")["NodeNames"] == ["n1"])
            assert api.patches == []
            assert lists_of_pods(api) == []


def test_metrics_tell_of_the_watches(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(NODES, node("n1"))
        with running(*start(api, tmp_path)) as server:
            until(lambda: is_ready(server))
            api.drop_connections()
            api.put(NODES, node("n2"))
            restarted = b'watch_restarts_total{kind="Node",reason="reset"} 1.0'
            until(lambda: restarted in server.request("GET", "/metrics")[1])
            text = server.request("GET", "/metrics")[1].decode()
            prefix = "runtimeclass_extender_"
            assert f'{prefix}watch_events_total{{kind="Node",type="ADDED"}}' in text
            assert f'{prefix}cache_synced{{kind="Node"}} 1.0' in text
            contact = f'{prefix}cache_last_contact_timestamp_seconds{{kind="Node"}} '
            at = float(text.partition(contact)[2].split()[0])
            assert abs(at - time.time()) < 60


@pytest.mark.parametrize(
    ("content", "flags", "said"),
    [
        pytest.param(None, (), "No such file", id="no file"),
        pytest.param("{", (), "line 2, column 1: invalid YAML", id="no YAML"),
        pytest.param("{users: 5, contexts: 5, current-context: a}", (), "kubeconfig", id="numbers"),
        pytest.param("a: &a [*a]", (), "*a stands within &a itself", id="an alias of itself"),
        pytest.param("[]", (), "not a kubeconfig", id="a list"),
        pytest.param("{}", (), "no current-context", id="empty"),
        pytest.param(
            kubeconfig("http://127.0.0.1:1"),
            ("--context", "elsewhere"),
            "--context elsewhere: not in",
            id="unknown context",
        ),
        pytest.param(
            kubeconfig("https://127.0.0.1:1", ca_file="/nonexistent/ca.crt"),
            (),
            "/nonexistent/ca.crt",
            id="no CA file",
        ),
        pytest.param(
            kubeconfig("https://127.0.0.1:1", ca_file="/dev/zero"),
            (),
            "/dev/zero is a device",
            id="an endless CA file",
        ),
    ],
)
def test_an_unusable_kubeconfig_ends_with_one_line(
    content: str | None, flags: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    ended = run("serve", "--bind", "127.0.0.1:0", "--kubeconfig", str(file), *flags)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert said in ended.stderr


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", "{users: 5, contexts: 5, current-context: a}"]
)
def test_a_kubeconfig_is_named_as_it_was_given(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    ended = run("nodes", "gvisor")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"KUBECONFIG={file}: " in ended.stderr
    assert "--kubeconfig" not in ended.stderr


def test_an_api_server_that_is_down_at_the_start_is_no_error(tmp_path: Path) -> None:
    api = FakeApiServer().start()
    api.stop()
    with running(*start(api, tmp_path)) as server:
        until(lambda: "nothing heard of the API server yet" in verbose(server))
        assert not is_ready(server)
        api.start()
        until(lambda: is_ready(server))
        api.stop()
