"""The real webhook process, asked over a socket as kube-apiserver asks."""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.processes import SAMPLES, Server, run, running, until
from tests.reviews import Response, response_of, review
from tests.vectors_file import RECORDED, recorded

CLUSTER = str(SAMPLES / "cluster")


@pytest.fixture(scope="module")
def webhook() -> Iterator[Server]:
    manifests = str(RECORDED / "runtimeclasses.yaml")
    with running("webhook", "--bind", "127.0.0.1:0", "--manifests", manifests) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        yield server


@pytest.mark.parametrize("verb", ["mutate", "validate"])
def test_recorded_reviews_are_answered(webhook: Server, verb: str) -> None:
    for parameters in recorded("admission", verb):
        (body,) = parameters.values
        status, answer, headers = webhook.request("POST", f"/{verb}?timeout=10s", body)
        assert status == 200
        assert headers["Content-Type"] == "application/json"
        response_of(answer, json.loads(body)["request"]["uid"])


def test_probes_and_metrics_are_on_the_main_listener(webhook: Server) -> None:
    assert webhook.request("GET", "/livez")[:2] == (200, b"ok")
    _, verbose, _ = webhook.request("GET", "/readyz?verbose")
    assert b"[+]runtimeclasses-synced ok" in verbose
    assert b"nodes-synced" not in verbose
    webhook.request("POST", "/mutate", review({}))
    _, metrics, _ = webhook.request("GET", "/metrics")
    assert b'admission_requests_total{operation="mutate",outcome="skipped"}' in metrics
    assert b'request_duration_seconds_count{verb="mutate"}' in metrics


def test_a_body_over_the_limit_is_a_413_that_names_it() -> None:
    flags = ("--bind", "127.0.0.1:0", "--max-body-bytes", "100", "--manifests", CLUSTER)
    with running("webhook", *flags) as server:
        status, answer, _ = server.request("POST", "/mutate", review({}))
        assert status == 413
        assert "limit of 100 bytes (--max-body-bytes)" in json.loads(answer)["error"]


def test_metrics_move_to_the_ops_listener() -> None:
    flags = ("--bind", "127.0.0.1:0", "--ops-bind", "127.0.0.1:0", "--manifests", CLUSTER)
    with running("webhook", *flags) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        assert server.request("GET", "/metrics")[0] == 404
        match = server.wait_for_line(r"probes and metrics on http://127\.0\.0\.1:(\d+)")
        connection = http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=5)
        with closing(connection):
            connection.request("GET", "/metrics")
            assert b"admission_requests_total" in connection.getresponse().read()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/mutate", 405),
        ("POST", "/", 404),
        ("POST", "//mutate", 404),
        ("POST", "/filter", 404),
        ("POST", "/mutate", 400),
    ],
)
def test_other_paths_and_methods_are_told_in_json(
    webhook: Server, method: str, path: str, status: int
) -> None:
    got, body, _ = webhook.request(method, path, b"{}" if method == "POST" else None)
    assert got == status
    assert list(json.loads(body)) == ["error"]


def _runtime_class(folder: Path, name: str) -> None:
    document = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {
            "name": name,
            "annotations": {"runtimeclass-extender/is-default-class": "true"},
        },
        "handler": "h",
    }
    fresh = folder / ".new"
    fresh.write_text(json.dumps(document))
    fresh.rename(folder / "class.json")


def _given(server: Server, namespace: str) -> Any:
    answer = server.post("/mutate", review({"spec": {}}, namespace=namespace))
    pod: Any = response_of(json.dumps(answer).encode()).applied_to({"spec": {}})
    return pod["spec"].get("runtimeClassName")


def test_default_classes_follow_edited_manifests(tmp_path: Path) -> None:
    _runtime_class(tmp_path, "one")
    (tmp_path / "namespaces.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: plain\n  annotations:"
        ' {runtimeclass-extender/default-class: "false"}\n'
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: 7}\n"
    )
    flags = ("--bind", "127.0.0.1:0", "--manifests", str(tmp_path), "--default-class")
    with running("webhook", *flags) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        assert (_given(server, "default"), _given(server, "plain")) == ("one", None)
        server.wait_for_line("Namespace ignored: metadata.name")
        _runtime_class(tmp_path, "two")
        until(lambda: _given(server, "default") == "two")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        pytest.param(["--bind", "0.0.0.0:0"], "needs --tls-cert-file", id="no TLS"),
        pytest.param(["--bind", ":0"], "needs --tls-cert-file", id="no TLS, all addresses"),
        pytest.param(["--merge", "some"], "--merge", id="unknown merge"),
        pytest.param(["--handler-check", "off"], "--handler-check", id="flag of serve"),
        pytest.param(["--tls-cert-file", "x"], "go together", id="certificate without key"),
        pytest.param(["--manifests", "/none"], "/none: No such file", id="missing file"),
    ],
)
def test_what_a_person_can_mend_is_told_in_one_line(flags: list[str], said: str) -> None:
    result = run("webhook", "--manifests", CLUSTER, *flags)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_flags_come_from_the_environment_too() -> None:
    result = run("webhook", env={"RUNTIMECLASS_EXTENDER_WEBHOOK_MERGE": "none"})
    assert result.returncode == 2
    assert "RUNTIMECLASS_EXTENDER_WEBHOOK_MERGE" in result.stderr


# TLS


def tls_flags(authority: Authority) -> list[str]:
    files = authority.issue("webhook")
    return ["--tls-cert-file", str(files.cert), "--tls-private-key-file", str(files.key)]


class Client:
    """One HTTPS connection, as kube-apiserver keeps them."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        raw = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._sock = context.wrap_socket(raw, server_hostname="localhost")
        self.certificate = self._sock.getpeercert(binary_form=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._connection.sock = self._sock

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        self._connection.request("POST", path, body)
        response = self._connection.getresponse()
        return response.status, response.read()

    def close(self) -> None:
        self._connection.close()


class Load:
    """Clients that ask without a pause: half keep their connection, half open one each time."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port, self._context = port, context
        self._stopping = threading.Event()
        self.answers: list[tuple[int, bool]] = []
        self.certificates: list[bytes | None] = []
        self.failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=[n % 2]) for n in range(4)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, keeps: int) -> None:
        body = review({"spec": {"runtimeClassName": "kata"}})
        try:
            client = self._client()
            while not self._stopping.is_set():
                status, answer = client.post("/mutate", body)
                self.answers.append((status, response_of(answer).operations is not None))
                if not keeps:
                    client.close()
                    client = self._client()
            client.close()
        except BaseException as error:
            self.failures.append(error)
            raise

    def _client(self) -> Client:
        client = Client(self._port, self._context)
        self.certificates.append(client.certificate)
        return client


def test_a_certificate_is_replaced_under_load_and_no_request_is_lost(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    flags = tls_flags(authority)
    manifests = str(RECORDED / "runtimeclasses.yaml")
    with running("webhook", "--bind", "0.0.0.0:0", "--manifests", manifests, *flags) as server:
        assert server.url.startswith("https://")
        port = server.address[1]
        context = ssl.create_default_context(cafile=str(authority.cert))
        with Load(port, context) as load:
            until(lambda: len(load.answers) > 200 or bool(load.failures))
            (first,) = set(load.certificates)
            authority.issue("webhook")
            until(lambda: load.certificates[-1] != first or bool(load.failures))
            so_far = len(load.answers)
            until(lambda: len(load.answers) > so_far + 200 or bool(load.failures))
        assert not load.failures
        assert set(load.answers) == {(200, True)}
        # At most one change, and none back.
        seen = list(dict.fromkeys(load.certificates))
        assert len(seen) == 2
        assert load.certificates[-1] == seen[1]
    assert "Traceback" not in server.log


def test_a_client_certificate_is_asked_for(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    flags = tls_flags(authority)
    flags += ["--client-ca-file", str(authority.cert)]
    with running("webhook", "--bind", "127.0.0.1:0", "--manifests", CLUSTER, *flags) as server:
        port = server.address[1]
        context = ssl.create_default_context(cafile=str(authority.cert))
        refusals = (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)
        with closing(Client(port, context)) as stranger, pytest.raises(refusals):
            stranger.post("/mutate", review({}))
        own = authority.issue("kube-apiserver")
        context.load_cert_chain(own.cert, own.key)
        with closing(Client(port, context)) as client:
            assert client.post("/mutate", review({}))[0] == 200


def test_with_mark_pods_a_pod_with_a_class_asks_for_the_resource_and_is_counted() -> None:
    flags = ("--bind", "127.0.0.1:0", "--manifests", CLUSTER, "--mark-pods")
    container = {"name": "c", "image": "i"}
    with running("webhook", *flags) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        spec: dict[str, Any] = {"containers": [container]}
        plain = {"metadata": {"name": "p"}, "spec": spec}
        pod = {"metadata": {"name": "p"}, "spec": {**spec, "runtimeClassName": "runc"}}
        assert _asked(server, "mutate", plain).operations is None
        marked = _asked(server, "mutate", pod).applied_to(pod)
        amounts = {"runtimeclass-extender/pod": "1"}
        assert marked["spec"]["containers"][0]["resources"] == {
            "requests": amounts,
            "limits": amounts,
        }
        # What comes past the mutating webhook is let in, and whoever creates it is told.
        answer = _asked(server, "validate", pod)
        assert answer.allowed
        (warning,) = answer.raw["warnings"]
        assert "does not ask for runtimeclass-extender/pod" in warning
        assert "warnings" not in _asked(server, "validate", marked).raw
        _, metrics, _ = server.request("GET", "/metrics")
        assert b"\nruntimeclass_extender_marked_pods_total 1.0\n" in metrics


def _asked(server: Server, verb: str, pod: dict[str, Any]) -> Response:
    status, answer, _ = server.request("POST", f"/{verb}", review(pod))
    assert status == 200, answer
    return response_of(answer)
