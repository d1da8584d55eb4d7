"""What browsers get: escaped, bounded, the same facts as the debug endpoints'."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.cluster.pasted_pod import MAX_PASTED, pasted_pod
from extender.cluster.snapshot_store import SnapshotStore
from extender.http.app import bare_app, create_app, create_ops_app
from extender.http.debug_routes import install_debug
from extender.http.exchange import Application
from extender.http.forms import FORM, MAX_FORM_BYTES
from extender.http.health import Health
from extender.http.overview_page import CLASSES_A_PAGE, KEEP_SECONDS, MAX_POOLS, OverviewPage
from extender.http.page_routes import install_index, install_pages
from extender.http.pages import NODES_A_PAGE
from extender.http.routing import Threads, Turn
from extender.http.service import Service
from extender.metrics import Metrics
from extender.objects import Node, Pod, RuntimeClass
from extender.printable import printable
from extender.refused_pods import RefusedPods
from tests.asking import Client, Response

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"


class Reader(HTMLParser):
    """The visible text of a page, and its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def addresses(self) -> Iterator[str]:
        for _, attributes in self.tags:
            for name in ("href", "src", "action"):
                if attributes.get(name):
                    yield attributes[name] or ""


def service_of(
    nodes: list[Node], classes: list[RuntimeClass], *, pages: bool = True, clock: float = 0.0
) -> Service:
    store = SnapshotStore()
    store.replace_all(nodes, classes)
    pods = {("default", "web"): Pod("default", "web", runtime_class_name="kata")}
    return Service(
        store,
        Metrics(),
        Health(lambda: store.snapshot),
        RefusedPods(lambda: clock),
        find_pod=lambda namespace, name: pods.get((namespace, name)),
        read_pod=pasted_pod,
        pages=pages,
    )


def browse(service: Service, path: str) -> Response:
    return Client(create_app(service, Threads.of(1))).get(path, accept=HTML)


def page(service: Service, path: str) -> Reader:
    answer = browse(service, path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"].startswith("text/html")
    return Reader(answer.text)


KATA = RuntimeClass("kata", "kata-qemu", (("sandbox", "kata"),))
NODES = [
    Node("a-1", {"sandbox": "kata", "agentpool": "sandboxes"}),
    Node("b-1", {"agentpool": "general"}),
    Node("b-2", {"agentpool": "general"}),
]


def test_the_overview_shows_which_class_runs_in_which_pool() -> None:
    found = page(service_of(NODES, [KATA]), "/")
    assert re.search(r"◐ 1/3\s+✗ 0/2\s+✓ 1/1", found.text)
    (why,) = {
        attributes["title"]
        for tag, attributes in found.tags
        if tag == "a" and attributes.get("title")
    }
    assert why == "nodeSelector sandbox=kata"


def test_a_cell_leads_to_its_reasons() -> None:
    found = page(service_of(NODES, [KATA]), "/runtimeclasses/kata?pool=general")
    assert '✗ 2 nodes: nodes don\'t match RuntimeClass "kata" (nodeSelector sandbox=kata)' in (
        found.text
    )
    assert "a-1" not in found.text
    assert "a-1" in page(service_of(NODES, [KATA]), "/runtimeclasses/kata").text


def test_a_refused_pod_is_listed_with_what_was_said() -> None:
    service = service_of(NODES, [KATA])
    pod = b'{"metadata":{"namespace":"default","name":"web"},"spec":{"runtimeClassName":"kata"}}'
    body = b'{"Pod":%b,"Nodes":null,"NodeNames":["b-1","b-2"]}' % pod
    with Client(create_app(service, Threads.of(1))) as client:
        client.post("/filter", body)
    text = page(service, "/").text
    assert "default/web" in text
    assert 'just now2 nodes don\'t match RuntimeClass "kata" (nodeSelector sandbox=kata)' in text


def test_a_pasted_pod_is_explained() -> None:
    service = service_of(NODES, [KATA])
    yaml = "kind: Pod\nmetadata: {name: new}\nspec: {runtimeClassName: kata}\n"
    with Client(create_app(service, Threads.of(1))) as client:
        answer = client.post(
            "/explain",
            f"pod={quote(yaml)}",
            accept=HTML,
            content_type="application/x-www-form-urlencoded",
        )
    assert answer.status_code == 200
    assert "1/3 nodes are available" in Reader(answer.text).text


@pytest.mark.parametrize(
    ("pasted", "told"),
    [
        pytest.param("kind: Node\nmetadata: {name: n}\n", "holds no Pod or workload", id="no pod"),
        pytest.param("a: [", "line", id="no YAML"),
        pytest.param("x" * (MAX_PASTED + 1), "over the limit of 1,500,000 bytes", id="too long"),
    ],
)
def test_what_is_no_pod_is_said_on_the_page_and_not_lost(pasted: str, told: str) -> None:
    with Client(create_app(service_of(NODES, [KATA]), Threads.of(1))) as client:
        answer = client.post(
            "/explain",
            f"pod={quote(pasted)}",
            accept=HTML,
            content_type="application/x-www-form-urlencoded",
        )
    assert answer.status_code == 400
    assert told in Reader(answer.text).text
    assert pasted[:1000] in Reader(answer.text).text


PART = b'--b\r\nContent-Disposition: form-data; name="pod"; filename="f"\r\n\r\nx\r\n'


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        pytest.param(b"a=1&" * 1_000_000, FORM, 400, id="many fields"),
        pytest.param(b"pod=" + b"x" * MAX_FORM_BYTES, FORM, 413, id="long field"),
        pytest.param(PART * 2000, "multipart/form-data; boundary=b", 400, id="many files"),
        pytest.param(b"pod=\xff%ff", FORM + "; charset=utf-7", 400, id="no text"),
    ],
)
def test_whatever_a_form_holds_costs_little_and_is_no_failure_of_ours(
    body: bytes, kind: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(create_app(service_of(NODES, [KATA]), Threads.of(1))) as client:
        began = time.process_time()
        answer = client.post("/explain", body, accept=HTML, content_type=kind)
        took = time.process_time() - began
    assert answer.status_code == status
    assert len(answer.data) < 10_000
    assert took < 1.0
    assert not caplog.records


def test_the_page_about_a_pod_is_no_longer_than_one_reads_whatever_it_requires() -> None:
    selector = ", ".join(f"key-{number}: v" for number in range(5_000))
    yaml = f"kind: Pod\nmetadata: {{name: new}}\nspec: {{nodeSelector: {{{selector}}}}}\n"
    with Client(create_app(service_of(NODES, [KATA]), Threads.of(1))) as client:
        answer = client.post("/explain", f"pod={quote(yaml)}", accept=HTML, content_type=FORM)
    assert answer.status_code == 200
    assert "requirements more" in answer.text
    assert len(answer.data) - len(yaml) < 200_000


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/explain?pod=default/gone", 404),
        ("/explain?pod=x", 400),
        ("/runtimeclasses/gone", 404),
        ("/nodes/gone", 404),
        ("/nodes?page=x", 400),
        ("/nodes?limit=x", 400),
        ("/runtimeclasses/kata?q=x", 400),
    ],
)
def test_errors_are_pages_for_browsers_and_json_for_others(path: str, status: int) -> None:
    service = service_of(NODES, [KATA])
    answer = browse(service, path)
    assert (answer.status_code, answer.headers["Content-Type"][:9]) == (status, "text/html")
    other = Client(create_app(service, Threads.of(1))).get(path)
    assert other.headers["Content-Type"] == "application/json"


def test_who_is_no_browser_gets_an_index_of_the_endpoints() -> None:
    answer = Client(create_app(service_of(NODES, [KATA]), Threads.of(1))).get("/")
    assert answer.headers["Content-Type"].startswith("text/plain")
    for path in ("/filter", "/explain?pod=NAMESPACE/NAME", "/readyz?verbose"):
        assert path in answer.text


@pytest.mark.parametrize("serve_metrics", [True, False], ids=["alone", "beside --ops-bind"])
@pytest.mark.parametrize("create", [create_app, create_ops_app], ids=["main", "ops"])
def test_each_listener_lists_what_it_answers_and_nothing_else(
    create: Callable[[Service, Threads], Application], serve_metrics: bool
) -> None:
    service = replace(service_of(NODES, [KATA]), serve_metrics=serve_metrics)
    client = Client(create(service, Threads.of(1)))
    listed = set(re.findall(r"^(?:GET|POST) +(/[a-z]*)", client.get("/").text, re.MULTILINE))
    known = ("/filter", "/prioritize", "/preempt", "/explain", "/runtimeclasses", "/nodes")
    for path in (*known, "/readyz", "/metrics", "/version", "/none"):
        assert (client.get(path).status_code != 404) is (path in listed), path


@pytest.mark.parametrize("path", ["/", "/nodes", "/nodes/gone", "/runtimeclasses/kata"])
def test_a_cache_on_the_way_keeps_the_page_and_the_json_of_an_address_apart(path: str) -> None:
    with Client(create_app(service_of(NODES, [KATA]), Threads.of(1))) as client:
        answers = [client.get(path, accept=kind) for kind in (HTML, "application/json")]
    assert [each.headers["Vary"] for each in answers] == ["Accept", "Accept"]
    assert answers[0].headers["Content-Type"] != answers[1].headers["Content-Type"]


def test_output_json_is_json_in_a_browser_too() -> None:
    answer = browse(service_of(NODES, [KATA]), "/runtimeclasses?output=json")
    assert answer.json["items"][0]["name"] == "kata"


def test_an_unknown_parameter_of_a_page_is_named_with_those_that_there_are() -> None:
    answer = browse(service_of(NODES, [KATA]), "/nodes?limit=5")
    assert answer.status_code == 400
    assert "unknown parameter &#39;limit&#39;; there are: q, page" in answer.text


def test_without_pages_a_browser_gets_json_and_the_index() -> None:
    service = service_of(NODES, [KATA], pages=False)
    assert browse(service, "/").headers["Content-Type"].startswith("text/plain")
    assert "gets a page" not in browse(service, "/").text
    assert browse(service, "/static/page.js").status_code == 404
    assert browse(service, "/runtimeclasses").json["items"]


def test_the_ops_listener_has_the_pages_unless_they_are_off() -> None:
    for pages in (True, False):
        service = service_of(NODES, [KATA], pages=pages)
        answer = Client(create_ops_app(service, Threads.of(1))).get("/", accept=HTML)
        assert (answer.status_code == 200) is pages


def test_a_page_asks_no_other_host_and_runs_no_script_of_its_own() -> None:
    for path in ("/", "/nodes", "/nodes/a-1", "/runtimeclasses/kata", "/explain?pod=default/web"):
        answer = browse(service_of(NODES, [KATA]), path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        found = Reader(answer.text)
        assert all(re.match(r"[/?#]|data:,$", each) for each in found.addresses())
        assert [a for tag, a in found.tags if tag == "script"] == [
            {"src": "/static/page.js", "defer": None}
        ]
        assert not [a for _, a in found.tags if any(name.startswith("on") for name in a)]


HOSTILE = st.one_of(
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "\"'><img src=x onerror=alert(1)>",
            "</textarea></title><svg/onload=1>",
            "{{ 7 * 7 }}",
            "javascript:alert(1)",
            "\u202egnp.exe",
            "x" * 253,
        ]
    ),
    st.text(min_size=1, max_size=30),
)


@settings(deadline=None, max_examples=25)
@given(HOSTILE, HOSTILE, HOSTILE)
def test_whatever_stands_in_the_cluster_is_text(name: str, value: str, search: str) -> None:
    nodes = [Node(name, {"sandbox": value, "agentpool": value}), Node("b", {})]
    service = service_of(nodes, [RuntimeClass(name, value, (("sandbox", value), (value, name)))])
    service.refused.refuse(Pod(name, name, runtime_class_name=value), ((1, value),))
    paths = ["/", "/nodes", f"/?q={quote(search, errors='replace')}"]
    for path in paths:
        found = page(service, path)
        scripts = [tag for tag, _ in found.tags if tag in ("script", "img", "svg", "style")]
        assert scripts == ["script"]
        assert all(re.match(r"[/?#]|data:,$", each) for each in found.addresses())
    assert printable(name) in page(service, "/nodes").text


def test_a_page_stays_small_however_large_the_cluster_is() -> None:
    nodes = [
        Node(f"node-{number:05}", {"agentpool": f"pool-{number % 100}", "sandbox": "kata"})
        for number in range(5_000)
    ]
    classes = [
        RuntimeClass(f"class-{number:04}", "h", (("sandbox", f"{number}"),))
        for number in range(1_000)
    ]
    service = service_of(nodes, classes)
    overview = browse(service, "/")
    assert len(overview.data) < 300_000
    assert overview.text.count('<th scope="row">') == CLASSES_A_PAGE
    assert overview.text.count("of equal shape") <= MAX_POOLS + 1
    listed = browse(service, "/nodes?page=2")
    assert listed.text.count('<a href="/nodes/') == NODES_A_PAGE
    assert len(listed.data) < 300_000
    assert "class-0999" in browse(service, "/?q=0999").text


def test_a_page_that_has_not_changed_is_not_sent_again() -> None:
    with Client(create_app(service_of(NODES, [KATA]), Threads.of(1))) as client:
        first = client.get("/", accept=HTML)
        again = client.get("/", accept=HTML, if_none_match=first.headers["ETag"])
    assert (again.status_code, again.data) == (304, b"")


def test_a_page_shows_a_refusal_though_the_cluster_has_not_changed() -> None:
    """What nobody has changed is made once for all who ask, but only that."""
    service, now = service_of(NODES, [KATA]), [0.0]
    app = bare_app()
    routes = install_debug(app, service, Turn())
    install_index(app, service, of_ops=False)
    install_pages(app, service, routes)
    overview = OverviewPage(service, routes, lambda: now[0])

    def shown() -> str:
        with app.test_request_context("/"):
            return overview.answer().get_data(as_text=True)

    first = shown()
    now[0] += KEEP_SECONDS + 1
    assert shown() == first
    service.refused.refuse(Pod("default", "late"), ((1, "why"),))
    assert "default/late" not in first
    assert "default/late" in shown()
