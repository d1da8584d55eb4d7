"""docs/troubleshooting.md: symptoms are made on real programs, and what is seen is in the page."""

import base64
import contextlib
import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.certificates import Authority
from tests.e2e.cluster import PODS, Cluster, free_ports, scheduler_minor
from tests.e2e.policies import MARK
from tests.e2e.test_webhook import installed
from tests.fakes.apiserver import kubeconfig
from tests.processes import ROOT, Server, running, until

PAGE: Final = ROOT / "docs" / "troubleshooting.md"
#: How Go's client reports that the server has closed a connection.
CLOSED: Final = ("EOF", "http: server closed idle connection", "connection reset by peer")

ROLE: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles/runtimeclass-extender-control-plane"

#: What differs between a test and a reader, and how the page has it.
_HERE: Final = {
    r"https://127\.0\.0\.1:\d+/mutate\?timeout=\d+s": (
        "https://runtimeclass-webhook.runtimeclass-webhook.svc:443/mutate?timeout=5s"
    ),
    r"(webhook\.svc\S* dial tcp )127\.0\.0\.1:\d+": r"\g<1>10.96.0.10:443",
    r"127\.0\.0\.1:\d+": "127.0.0.1:8888",
    r"\b\d+s ago": "5s ago",
    r" \(_ssl\.c:\d+\)": "",
    r" retryInSeconds=[\d.]+": "",
    r"\s+": " ",
}


def _plain(text: str) -> str:
    for here, there in _HERE.items():
        text = re.sub(here, there, text)
    return text.strip()


def in_the_page(seen: str) -> bool:
    print(_plain(seen))
    return _plain(seen) in _plain(PAGE.read_text())


@contextmanager
def serving(where: Cluster, *flags: str) -> Iterator[Server]:
    own = ("--kubeconfig", str(where.kubeconfig("extender")))
    with running("serve", "--bind", "127.0.0.1:0", *own, *flags) as server:
        yield server


def is_ready(server: Server) -> bool:
    return server.request("GET", "/readyz")[0] == 200


def verbose(server: Server) -> list[str]:
    return server.request("GET", "/readyz?verbose")[1].decode().splitlines()


def lines_with(text: str, lines: list[str]) -> list[str]:
    return [line for line in lines if text in line]


def logged(server: Server, text: str) -> str:
    """The first line of the log that has the text, without its time."""
    server.wait_for_line(re.escape(text))
    (line, *_) = lines_with(text, server.log.splitlines())
    return line.partition(" ")[2]


def event(where: Cluster, name: str) -> str:
    until(lambda: bool(where.event_of(name)), 30.0)
    return where.event_of(name)


def refusal(where: Cluster, name: str) -> str:
    """Why no pod of the class is created; empty where one would be."""
    spec = {"runtimeClassName": name, "containers": [{"name": "c", "image": "i"}]}
    document = {"metadata": {"name": "web"}, "spec": spec}
    status, answer = where.request("POST", f"{PODS}?dryRun=All", document)
    return "" if status == 201 else str(answer["message"])


@pytest.fixture(autouse=True)
def of_the_version_that_the_page_shows() -> None:
    if scheduler_minor() != 37:
        pytest.skip("the page shows what Kubernetes 1.37 says")


@pytest.fixture
def small(beside: Cluster) -> Cluster:
    """One node without gVisor, its class, and one that the node can run."""
    beside.add_node("n1", {"sandbox": "gvisor"}, handlers=["", "runc"])
    beside.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
    beside.add_class("kata", "kata", {"sandbox": "kata"})
    beside.add_class("plain", "runc")
    return beside


@contextmanager
def rights_without(where: Cluster, without: Callable[[dict[str, Any]], bool]) -> Iterator[None]:
    rules = where.get(ROLE)["rules"]
    try:
        where.patch(ROLE, {"rules": [each for each in rules if not without(each)]})
        yield
    finally:
        where.patch(ROLE, {"rules": rules})


def test_nobody_asks_where_no_scheduler_has_the_configuration(small: Cluster) -> None:
    def counter() -> str:
        metrics = server.request("GET", "/metrics")[1].decode()
        (line,) = re.findall(r'^runtimeclass_extender_requests_total\{.*"filter".*$', metrics, re.M)
        return str(line)

    with serving(small) as server:
        until(lambda: is_ready(server))
        with small.kube_scheduler({}):
            small.add_pod("unasked", "plain")
            until(lambda: small.node_of("unasked") == "n1")
            assert in_the_page(counter())
        with small.scheduler(server.url):
            small.add_pod("asked", "plain")
            until(lambda: small.node_of("asked") == "n1")
            assert not counter().endswith(" 0.0")


def test_a_service_that_is_away_stops_pods_or_is_skipped(small: Cluster) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with small.scheduler(url, ignorable=False):
        small.add_pod("web", "plain")
        assert in_the_page(event(small, "web"))
    small.delete(f"{PODS}/web")
    with small.scheduler(url, ignorable=True) as scheduler:
        small.add_pod("web", "plain")
        until(lambda: small.node_of("web") == "n1")
        (line, *_) = re.findall(r"Skipping extender as .*", scheduler.log.read_text())
        assert in_the_page(line)


def test_a_service_that_does_not_answer_in_time(small: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with small.scheduler(url, httpTimeout="1s"):
            small.add_pod("web", "plain")
            assert in_the_page(event(small, "web"))


def test_a_prefix_that_ends_with_a_verb(small: Cluster) -> None:
    with serving(small) as server, small.scheduler(f"{server.url}/filter"):
        small.add_pod("web", "plain")
        assert in_the_page(event(small, "web"))


def test_a_right_to_list_that_is_missing(small: Cluster) -> None:
    with (
        rights_without(small, lambda rule: rule["resources"] == ["nodes"]),
        serving(small) as server,
        small.scheduler(server.url),
    ):
        _wait_for(server, "cannot list")
        for line in lines_with("[-]", verbose(server)):
            assert in_the_page(line)
        said = logged(server, "missing permission: list nodes").partition(" cause=")[0]
        assert in_the_page(said)
        small.add_pod("web", "plain")
        assert in_the_page(event(small, "web"))


def test_rights_for_requeueing_that_are_missing(small: Cluster) -> None:
    with (
        rights_without(small, lambda rule: rule["resources"] == ["pods"]),
        serving(small, "--requeue-pods") as server,
    ):
        until(lambda: is_ready(server))
        # Those who wait for a class, and the pods that --distrust follows: either comes first.
        for right in ("list pods;", "list pods at cluster scope;"):
            said = logged(server, f"missing permission: {right}").partition(" cause=")[0]
            assert in_the_page(said)
        # Not by a scheduler: if it ends while it asks a second time, the filter still waits for a
        # node event, lets the pod pass, and forgets it.
        small.add_pod("web", "gvisor")
        asked = {"Pod": small.get(f"{PODS}/web"), "NodeNames": ["n1"]}
        answer = json.loads(server.request("POST", "/filter", json.dumps(asked).encode())[1])
        assert answer["NodeNames"] == []
        small.set_handlers("n1", "", "runsc")
        said = logged(server, "missing permission: patch pods").partition(" cause=")[0]
        assert in_the_page(said)


def test_credentials_addresses_and_authorities_that_are_wrong(
    small: Cluster, tmp_path: Path
) -> None:
    ours, stranger = small.authority.cert, Authority(tmp_path).cert
    nobody = f"https://127.0.0.1:{free_ports(1)[0]}"
    for url, ca, token, said in (
        (small.url, ours, "wrong", "does not accept our credentials for nodes"),
        (small.url, stranger, "extender-token", ""),
        (nobody, ours, "extender-token", "watch-list of nodes ended"),
    ):
        file = tmp_path / "kubeconfig"
        file.write_text(kubeconfig(url, ca_file=str(ca), token=token))
        with running("serve", "--bind", "127.0.0.1:0", "--kubeconfig", str(file)) as server:
            _wait_for(server, "[-]node-watch failed")
            (line,) = lines_with("node-watch", verbose(server))
            assert in_the_page(line)
            if said:
                line = logged(server, said)
                assert in_the_page(line if "WARNING" in line else line.partition(" cause=")[0])


def _wait_for(server: Server, text: str) -> None:
    until(lambda: bool(lines_with(text, verbose(server))), 30.0)


def test_classes_labels_and_handlers_beside_the_plugin(small: Cluster) -> None:
    small.delete("/apis/node.k8s.io/v1/runtimeclasses/plain")
    small.add_class("another", "runc")
    with serving(small) as server, small.scheduler(server.url):
        until(lambda: is_ready(server))
        small.add_pod("label", "kata")
        small.add_pod("handler", "gvisor")
        assert in_the_page(event(small, "label"))
        assert in_the_page(event(small, "handler"))
    small.delete("/apis/node.k8s.io/v1/runtimeclasses/kata")
    until(lambda: "not found" in refusal(small, "kata"))
    assert in_the_page(refusal(small, "kata"))


def test_a_class_that_is_not_there_instead_of_the_plugin(instead: Cluster) -> None:
    instead.add_node("n1")
    with serving(instead) as server, instead.scheduler(server.url):
        until(lambda: is_ready(server))
        instead.add_pod("web", "kata")
        assert in_the_page(event(instead, "web"))


def test_a_mark_that_nobody_ignores(small: Cluster) -> None:
    resources = {kind: {MARK: "1"} for kind in ("requests", "limits")}
    with serving(small) as server, small.scheduler(server.url):
        container = {"name": "c", "image": "i", "resources": resources}
        small.add_pod("web", "plain", containers=[container])
        assert in_the_page(event(small, "web"))


def test_preemption_that_keeps_the_pods_of_other_nodes(instead: Cluster) -> None:
    with serving(instead) as server, instead.scheduler(server.url):
        until(lambda: is_ready(server))
        instead.add_a_victim_elsewhere()
        until(lambda: "preemption: " in instead.message_of("new"))
        message = instead.message_of("new")
        assert in_the_page(message[message.index("preemption: ") :])


def test_what_each_fault_of_tls_looks_like(small: Cluster, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "ours"), Authority(tmp_path / "stranger")
    own, client, strange = (
        authority.issue("server"),
        authority.issue("client"),
        stranger.issue("client"),
    )
    flags = ("--tls-cert-file", str(own.cert), "--tls-private-key-file", str(own.key))
    sound = {
        "caFile": str(authority.cert),
        "certFile": str(client.cert),
        "keyFile": str(client.key),
    }
    of_a_stranger = {"certFile": str(strange.cert), "keyFile": str(strange.key)}

    def said(name: str, url: str, tls: dict[str, str]) -> str:
        more: dict[str, Any] = {"enableHTTPS": True, "tlsConfig": tls} if tls else {}
        with small.scheduler(url, **more):
            small.add_pod(name, "plain")
            text = event(small, name)
        print(text)
        # What comes after the authority is guesswork about which one was meant.
        return text.partition('/filter": ')[2].partition(" (possibly")[0]

    with serving(small, *flags, "--client-ca-file", str(authority.cert)) as server:
        server.wait_for_line("synced")
        url = server.url
        for name, address, tls in (
            ("without", url, {"caFile": str(authority.cert)}),
            ("stranger", url, {**sound, **of_a_stranger}),
            ("plain", url.replace("https", "http"), {}),
        ):
            # Which of them depends on how much Go's client has sent when the server closes.
            assert said(name, address, tls).endswith(CLOSED)
        for text in CLOSED:
            assert in_the_page(f"`{text}`")
        assert in_the_page(said("ca", url, {**sound, "caFile": str(stranger.cert)}))
        other = {"serverName": "runtimeclass-extender.example"}
        assert in_the_page(said("name", url, {**sound, **other}))
        assert in_the_page(logged(server, "a TLS handshake failed"))
        own.key.write_bytes(client.key.read_bytes())
        until(lambda: "keeping the previous TLS" in _log_after_a_connection(server))
        line = logged(server, "keeping the previous TLS")
        line = line.replace(str(own.cert), "/tls/tls.crt").replace(str(own.key), "/tls/tls.key")
        assert in_the_page(line)
    with serving(small) as server:
        server.wait_for_line("synced")
        url = server.url.replace("http:", "https:")
        assert in_the_page(said("http", url, sound))


def _log_after_a_connection(server: Server) -> str:
    """The certificate's files are looked at when somebody begins a handshake."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(server.address, 5) as client, contextlib.suppress(OSError):
        tls.wrap_socket(client).close()
    return server.log


def test_a_webhook_that_is_away_silent_or_not_trusted(instead: Cluster, tmp_path: Path) -> None:
    instead.add_class("gvisor", "runsc")
    strange = base64.b64encode(Authority(tmp_path / "other").cert.read_bytes()).decode()
    with installed(instead, tmp_path) as webhook:
        # The configuration of the other webhook may be taken up before.
        until(lambda: '"mutate.' in refusal(instead, "nope"), 30.0)
        assert in_the_page(refusal(instead, "nope"))

        def changed(**fields: Any) -> None:
            documents = webhook.configurations()
            for each in documents:
                client = each["webhooks"][0]["clientConfig"]
                client["url"] = re.sub(r":\d+/", f":{fields.get('port')}/", client["url"])
                client["caBundle"] = fields.get("ca", client["caBundle"])
                each["webhooks"][0]["timeoutSeconds"] = 1
            instead.apply(yaml.safe_dump_all(documents))

        def ending(text: str) -> bool:
            until(lambda: text in refusal(instead, "gvisor"), 30.0)
            return in_the_page(f"`{text}`")

        changed(port=webhook.process.address[1], ca=strange)
        assert ending("x509: certificate signed by unknown authority")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            changed(port=silent.getsockname()[1])
            assert ending("context deadline exceeded")
        assert ending("connect: connection refused")
        assert in_the_page(refusal(instead, "gvisor"))
        service = ("service", "runtimeclass-webhook")
        instead.kubectl("-n", "runtimeclass-webhook", "delete", *service)
        instead.apply(yaml.safe_dump_all(webhook.shipped))
        assert ending('service "runtimeclass-webhook" not found')
