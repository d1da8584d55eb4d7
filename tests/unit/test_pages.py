"""What browsers get: escaped, bounded, the same facts as the debug endpoints'."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.manifest_objects import MAX_PASTED, pasted_pods
from extender.model.objects import Handler, Kubelet, Node, Pod, PodState, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.model.reasons import printable
from extender.model.using_objects import MAX_WAITING, WaitingPod, WaitingPods
from extender.pages.overview import CLASSES_A_PAGE, MAX_POOLS
from extender.pages.pages import MAX_CHOICES, NODES_A_PAGE
from extender.pages.templating import FORM, MAX_FORM_BYTES
from extender.server.app import create_ops_app
from extender.verbs.outcomes import RefusedPods
from extender.verbs.service import Service
from tests.asking import Client, Response
from tests.cases_file import cases
from tests.processes import run
from tests.services import client_of, service_over
from tests.stores import store_of

STATIC = ("pico.min.css", "page.css", "page.js")
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
    pods = {("default", "web"): Pod("default", "web", runtime_class_name="kata")}
    return service_over(
        store_of(nodes, classes),
        refused=RefusedPods(lambda: clock),
        find_pod=lambda namespace, name: pods.get((namespace, name)),
        read_pods=pasted_pods,
        pages=pages,
    )


def browse(service: Service, path: str) -> Response:
    return client_of(service).get(path, accept=HTML)


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


def classes_of(found: Reader, tag: str) -> list[str | None]:
    return [attributes.get("class") for name, attributes in found.tags if name == tag]


def test_the_overview_shows_which_class_runs_in_which_pool() -> None:
    found = page(service_of(NODES, [KATA]), "/")
    assert re.search(r"1 of 3\s+·none\s+1/1", found.text)
    assert "1 RuntimeClass, 3 nodes, 2 pools" in " ".join(found.text.split())


def test_in_the_grid_a_class_that_matches_no_node_is_marked_as_wrong_and_nothing_else_is() -> None:
    lonely = RuntimeClass("wasm", "spin", (("wasm", "true"),))
    found = page(service_of(NODES, [KATA, lonely]), "/")
    assert classes_of(found, "td") == [None, "none", "all", "wrong", "none", "none"]
    assert "matches no node" in found.text


def test_cordoned_nodes_are_marked_in_the_grid_in_lists_and_on_their_page() -> None:
    nodes = [*NODES, Node("a-2", {"sandbox": "kata", "agentpool": "sandboxes"}, unschedulable=True)]
    service = service_of(nodes, [KATA])
    text = page(service, "/").text
    assert re.search(r"2 of 4 1 cordoned\s+·none\s+2/2 1 cordoned", text)
    for path in ("/nodes", "/nodes/a-2", "/runtimeclasses/kata"):
        assert page(service, path).text.count("cordoned") == 1, path
    assert "cordoned" not in page(service, "/nodes/a-1").text


def test_findings_of_one_check_stand_together_with_a_fix_to_copy() -> None:
    lonely = [RuntimeClass(f"lonely-{n}", "h", (("wasm", str(n)),)) for n in range(9)]
    answer = browse(service_of(NODES, [KATA, *lonely]), "/")
    found = Reader(answer.text)
    assert "9 errors" in found.text
    assert found.text.count("its pods stay Pending for ever") == 1
    assert "and 8 more like it" in found.text
    assert "4 more; runtimeclass-extender check lists them all" in found.text
    fixes = re.findall(r"<code>(.*?)</code> <button", answer.text)
    assert "kubectl label node NODE wasm=0" in fixes
    assert "9 errors" not in page(service_of(NODES, [KATA]), "/").text


def test_what_is_out_of_date_is_said_on_every_page_above_all_else() -> None:
    service = service_of(NODES, [KATA])
    paths = ("/", "/nodes", "/nodes/a-1", "/runtimeclasses/kata", "/explain", "/nodes/gone")
    for path in paths:
        assert "Out of date" not in browse(service, path).text
    service.health.sources["manifests"] = lambda: "last reload failed 9s ago: <b>"
    for path in paths:
        answer = browse(service, path).text
        assert 'class="stale"' in answer
        told = "Out of date: manifests: last reload failed 9s ago: &lt;b&gt;"
        assert told in answer.partition("<header>")[0]


def test_a_cell_leads_to_its_reasons() -> None:
    found = page(service_of(NODES, [KATA]), "/runtimeclasses/kata?pool=general")
    reason = '2 nodes: nodes don\'t match RuntimeClass "kata" (nodeSelector sandbox=kata)'
    assert reason in found.text
    assert "No node of the pool matches" in found.text
    assert "a-1" not in found.text
    whole = page(service_of(NODES, [KATA]), "/runtimeclasses/kata").text
    assert "a-1" in whole
    assert "1 node matches" in whole


@pytest.mark.parametrize("last", ["", "0/3 nodes are available: 3 Insufficient <cpu>."])
def test_what_kube_scheduler_said_last_is_on_the_page_of_a_pod(last: str) -> None:
    pod = Pod("default", "web", runtime_class_name="kata", state=PodState(last_event=last))
    service = replace(service_of(NODES, [KATA]), find_pod=lambda namespace, name: pod)
    text = page(service, "/explain?pod=default/web").text
    assert "1/3 nodes are available" in text
    assert re.search(rf"kube-scheduler said last\s+{re.escape(last)}", text) or not last
    assert ("said last" in text) is bool(last)


def test_the_page_of_a_pod_begins_with_the_verdict_and_what_to_do() -> None:
    text = page(service_of(NODES, [KATA]), "/explain?pod=default/web").text
    assert re.search(r"Pod default/web RuntimeClass kata\s+1 node can: a-1\s+In kube-sch", text)
    wasm = RuntimeClass("kata", "spin", (("wasm", "true"),))
    answer = browse(service_of(NODES, [wasm]), "/explain?pod=default/web").text
    assert re.search(r"No node can run it\s+What to do\s+name another class", Reader(answer).text)
    assert "<code>" not in answer.partition("What to do")[2].partition("</ul>")[0]
    tainted = Node("t-1", {"sandbox": "kata"}, (Taint("k", "v", "NoSchedule"),))
    tolerant = replace(KATA, tolerations=(Toleration("k", "Exists"),))
    answer = browse(service_of([tainted], [tolerant]), "/explain?pod=default/web").text
    fix = "<code>{&#34;key&#34;: &#34;k&#34;, &#34;operator&#34;: &#34;Exists&#34;}</code> <bu"
    assert fix in answer


def test_a_refused_pod_is_listed_with_what_was_said() -> None:
    service = service_of(NODES, [KATA])
    pod = b'{"metadata":{"namespace":"default","name":"web"},"spec":{"runtimeClassName":"kata"}}'
    body = b'{"Pod":%b,"Nodes":null,"NodeNames":["b-1","b-2"]}' % pod
    client = client_of(service)
    client.post("/filter", body)
    told = 'just now2 nodes don\'t match RuntimeClass "kata" (nodeSelector sandbox=kata)'
    waiting = WaitingPods.of([WaitingPod("default", "web", "kata")])
    for each in (service, replace(service, waiting_pods=lambda: waiting)):
        text = page(each, "/").text
        assert text.count("default/web") == 1
        assert told in text
        assert re.search(r"Pods that wait\s*1\s", text)


def test_pods_that_wait_are_listed_with_their_class_and_lead_to_their_explanation() -> None:
    pods = [WaitingPod("team", f"p-{index:03}", "kata") for index in range(250)]
    service = replace(service_of(NODES, [KATA]), waiting_pods=lambda: WaitingPods.of(pods[::-1]))
    found = page(service, "/")
    addresses = [each for each in found.addresses() if each.startswith("/explain?pod=")]
    assert addresses == [f"/explain?pod=team%2Fp-{index:03}" for index in range(MAX_WAITING)]
    assert "150 pods more" in found.text
    assert "watch-pods" not in found.text
    none = page(replace(service, waiting_pods=WaitingPods), "/").text
    assert "150 pods" not in none
    assert "watch-pods" not in none
    assert "None that names a RuntimeClass" in none


@cases
def test_a_pod_that_waits_is_listed_with_what_its_class_says(
    name: str, told: str, is_wrong: bool
) -> None:
    waiting = WaitingPods.of([WaitingPod("team", "web", name)])
    classes = [KATA, RuntimeClass("wasm", "spin", (("wasm", "true"),))]
    found = page(replace(service_of(NODES, classes), waiting_pods=lambda: waiting), "/")
    assert told in found.text
    assert ("wrong" in classes_of(found, "td")[:4]) is is_wrong


def test_a_class_that_pods_wait_for_and_that_is_not_there_is_a_problem_as_check_has_it() -> None:
    waiting = WaitingPods.of([WaitingPod("team", "web", "none")])
    service = replace(service_of(NODES, [KATA]), waiting_pods=lambda: waiting)
    text = page(service, "/").text
    assert 'RuntimeClass "none" does not exist, and 1 pod names it: team/web' in text
    assert re.search(r"Problems\s*1 error", text)


def test_where_pods_are_not_followed_the_page_says_which_it_knows_and_how_to_see_all() -> None:
    text = page(service_of(NODES, [KATA]), "/").text
    assert "None that kube-scheduler asked this service about in the last ten minutes" in text
    assert "runtimeclass-extender pods --pending" in text


def post(form: bytes | str, kind: str = FORM) -> Response:
    client = client_of(service_of(NODES, [KATA]))
    return client.post("/explain", form, accept=HTML, content_type=kind)


def posted(pasted: str) -> Reader:
    """The page about what was pasted into the form."""
    answer = post(f"pod={quote(pasted)}")
    assert answer.status_code == 200, answer.text
    return Reader(answer.text)


def test_of_several_objects_in_a_form_one_is_explained_and_the_others_can_be_chosen() -> None:
    one = "kind: Pod\nmetadata: {name: one}\nspec: {runtimeClassName: kata}\n"
    deployment = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: team}\n"
        "spec: {template: {spec: {runtimeClassName: kata}}}\n"
    )
    pasted = "---\n".join([one, one.replace("one", "two"), deployment])
    names = ["Pod default/one", "Pod default/two", "Deployment team/web"]
    for which in ("", *names, "Pod no/such"):
        shown = which if which in names else names[0]
        found = Reader(post(f"pod={quote(pasted)}&which={quote(which)}").text)
        choices = [a for tag, a in found.tags if tag == "button" and a.get("name") == "which"]
        assert [each["value"] for each in choices] == names
        assert [each["value"] for each in choices if "aria-current" in each] == [shown]
        assert f"{shown} RuntimeClass kata" in found.text
    assert "The text holds" not in posted(one).text


def test_a_text_of_very_many_objects_offers_the_first_ones() -> None:
    one = "kind: Pod\nmetadata: {name: p-%d}\nspec: {runtimeClassName: kata}\n"
    found = posted("---\n".join(one % number for number in range(300)))
    choices = [a for tag, a in found.tags if tag == "button" and a.get("name") == "which"]
    assert len(choices) == MAX_CHOICES
    assert "The text holds 300 objects" in found.text
    assert "and 280 more" in found.text


def test_the_form_warns_of_what_the_command_warns_of(tmp_path: Path) -> None:
    pod = "kind: Pod\nmetadata: {name: web}\nspec: {runtimeClass: kata}\n"
    pasted = f"{pod}---\n{pod}"
    (tmp_path / "pod.yaml").write_text(pasted)
    cluster = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n"
    (tmp_path / "cluster.yaml").write_text(cluster)
    files = ("--manifests", str(tmp_path / "cluster.yaml"), "-f", str(tmp_path / "pod.yaml"))
    said = [line.partition(": ")[2] for line in run("explain", *files).stderr.splitlines()]
    assert any("spec.runtimeClass" in each for each in said)
    assert any("more than once" in each for each in said)
    text = posted(pasted).text
    assert [each for each in said if each.removeprefix("warning: ") not in text] == []


@pytest.mark.parametrize(
    ("pasted", "told"),
    [
        pytest.param("kind: Node\nmetadata: {name: n1}\n", "holds no Pod or workload", id="no pod"),
        pytest.param("a: [", "line", id="no YAML"),
        pytest.param("x" * (MAX_PASTED + 1), "over the limit of 1,500,000 bytes", id="too long"),
    ],
)
def test_what_is_no_pod_is_said_on_the_page_and_not_lost(pasted: str, told: str) -> None:
    answer = post(f"pod={quote(pasted)}")
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
    began = time.process_time()
    answer = post(body, kind)
    took = time.process_time() - began
    assert answer.status_code == status
    assert len(answer.data) < 10_000
    assert took < 1.0
    assert not caplog.records


def test_the_page_about_a_pod_is_no_longer_than_one_reads_whatever_it_requires() -> None:
    selector = ", ".join(f"key-{number}: v" for number in range(5_000))
    yaml = f"kind: Pod\nmetadata: {{name: new}}\nspec: {{nodeSelector: {{{selector}}}}}\n"
    answer = post(f"pod={quote(yaml)}")
    assert answer.status_code == 200
    assert "requirements more" in answer.text
    assert len(answer.data) - len(yaml) < 200_000


@cases
def test_errors_are_pages_for_browsers_and_json_for_others(path: str, status: int) -> None:
    service = service_of(NODES, [KATA])
    answer = browse(service, path)
    assert (answer.status_code, answer.headers["Content-Type"][:9]) == (status, "text/html")
    other = client_of(service).get(path)
    assert other.headers["Content-Type"] == "application/json"


@cases
def test_the_page_of_an_unknown_name_leads_to_similar_ones(path: str, link: str) -> None:
    service = replace(service_of(NODES, [KATA]), known_pods=lambda: ["default/web", "other/wep"])
    assert link in Reader(browse(service, path).text).addresses()


def test_the_page_of_an_unknown_pod_has_the_form() -> None:
    found = Reader(browse(service_of(NODES, [KATA]), "/explain?pod=default/gone").text)
    fields = {attributes.get("name"): attributes for _, attributes in found.tags}
    assert (fields["pod"].get("id"), "which" in fields) == ("pod-text", False)
    assert "default/gone" in {attributes.get("value") for _, attributes in found.tags}


def test_a_path_or_method_that_there_is_not_is_a_page_for_browsers_and_json_for_others() -> None:
    client = client_of(service_of(NODES, [KATA]))
    for method, path, status in (("GET", "/gone", 404), ("POST", "/nodes", 405)):
        of_browser = client.ask(method, path, accept=HTML)
        of_other = client.ask(method, path)
        assert of_browser.status_code == of_other.status_code == status
        assert of_browser.headers["Content-Type"].startswith("text/html")
        assert of_other.json["error"] in Reader(of_browser.text).text
        assert of_browser.headers.get("Allow") == of_other.headers.get("Allow")


@cases
def test_a_filter_ignores_case_and_says_when_nothing_is_left(path: str, told: str) -> None:
    assert told in page(service_of(NODES, [KATA]), path).text


def test_the_page_of_a_node_has_its_labels_taints_and_versions() -> None:
    handlers = frozenset({Handler("runc", user_namespaces=True)})
    taints = (Taint("dedicated", "kata", "NoSchedule"),)
    kubelet = Kubelet(system="linux")
    known = Node("a-1", {"sandbox": "kata"}, taints, handlers, kubelet=kubelet)
    soft = Taint("soft", "", "PreferNoSchedule")
    asked = replace(known, taints=(*taints, soft), versions=("v1.36.2", "containerd://2.1.4"))
    service = service_of([known], [KATA])
    text = page(service, "/nodes/a-1").text
    for told in ("sandbox=kata", "dedicated=kata:NoSchedule", "runc, user namespaces", "linux"):
        assert told in text
    assert text.count("not reported") == 2
    text = page(replace(service, find_node=lambda name: asked), "/nodes/a-1").text
    for told in ("v1.36.2", "containerd://2.1.4", "soft:PreferNoSchedule"):
        assert told in text
    assert "not reported" not in text
    assert "not reported" in page(service_of([Node("bare")], [KATA]), "/nodes").text


@pytest.mark.parametrize("serve_metrics", [True, False], ids=["alone", "beside --ops-bind"])
@pytest.mark.parametrize("ops", [False, True], ids=["main", "ops"])
def test_each_listener_lists_what_it_answers_and_nothing_else(
    ops: bool, serve_metrics: bool
) -> None:
    service = replace(service_of(NODES, [KATA]), serve_metrics=serve_metrics)
    client = Client(create_ops_app(service)) if ops else client_of(service)
    listed = set(re.findall(r"^(?:GET|POST) +(/[a-z]*)", client.get("/").text, re.MULTILINE))
    known = ("/filter", "/prioritize", "/preempt", "/explain", "/runtimeclasses", "/nodes")
    for path in (*known, "/readyz", "/metrics", "/version", "/none"):
        assert (client.get(path).status_code != 404) is (path in listed), path
    assert client.get("/").headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("path", ["/", "/nodes", "/nodes/gone", "/runtimeclasses/kata"])
def test_a_cache_on_the_way_keeps_the_page_and_the_json_of_an_address_apart(path: str) -> None:
    client = client_of(service_of(NODES, [KATA]))
    answers = [client.get(path, accept=kind) for kind in (HTML, "application/json")]
    assert [each.headers["Vary"] for each in answers] == ["Accept", "Accept"]
    assert answers[0].headers["Content-Type"] != answers[1].headers["Content-Type"]
    if path == "/nodes":
        assert client.get(f"{path}?output=json", accept=HTML).data == answers[1].data


@pytest.mark.parametrize("path", ["/", *(f"/static/{name}" for name in STATIC)])
def test_what_has_not_changed_is_not_sent_again(path: str) -> None:
    client = client_of(service_of(NODES, [KATA]))
    first = client.get(path, accept=HTML)
    again = client.get(path, accept=HTML, if_none_match=first.headers["ETag"])
    assert (again.status_code, again.data) == (304, b"")
    assert path == "/" or "no-cache" in first.headers["Cache-Control"]


def test_without_pages_a_browser_gets_json_and_the_index() -> None:
    for pages in (True, False):
        client = Client(create_ops_app(service_of(NODES, [KATA], pages=pages)))
        answer = client.get("/", accept=HTML)
        assert answer.headers["Content-Type"].startswith("text/html") is pages
        assert "/metrics" in answer.text or pages
    service = service_of(NODES, [KATA], pages=False)
    assert browse(service, "/").headers["Content-Type"].startswith("text/plain")
    assert "gets a page" not in browse(service, "/").text
    assert browse(service, "/static/page.js").status_code == 404
    assert browse(service, "/runtimeclasses").json["items"]


def test_a_page_asks_no_other_host_and_runs_no_script_of_its_own() -> None:
    for path in ("/", "/nodes", "/nodes/a-1", "/runtimeclasses/kata", "/explain?pod=default/web"):
        answer = browse(service_of(NODES, [KATA]), path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        found = Reader(answer.text)
        assert all(re.match(r"[/?#]|data:,$", each) for each in found.addresses())
        scripts = [a for tag, a in found.tags if tag == "script"]
        assert scripts == [{"src": "/static/page.js", "defer": None}]
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


# Names are kept as the content of JSON strings, where a backslash begins an escape.
@given(HOSTILE.filter(lambda name: "\\" not in name), HOSTILE, HOSTILE)
def test_whatever_stands_in_the_cluster_is_text(name: str, value: str, search: str) -> None:
    nodes = [Node(name, {"sandbox": value, "agentpool": value}), Node("b", {})]
    service = service_of(nodes, [RuntimeClass(name, value, (("sandbox", value), (value, name)))])
    service.refused.refuse(Pod(name, name, runtime_class_name=value), ((1, value),))
    client = client_of(service)
    for path in ("/", f"/?q={quote(search, errors='replace')}", "/nodes"):
        found = Reader(client.get(path, accept=HTML).text)
        scripts = [tag for tag, _ in found.tags if tag in ("script", "img", "svg", "style")]
        assert scripts == ["script"]
        assert all(re.match(r"[/?#]|data:,$", each) for each in found.addresses())
    assert printable(name) in found.text


def test_a_page_stays_small_however_large_the_cluster_is() -> None:
    nodes = [
        Node(f"node-{number:05}", {"agentpool": f"pool-{number % 100}", "sandbox": "kata"})
        for number in range(5_000)
    ]
    classes = [RuntimeClass(f"class-{n:04}", "h", (("sandbox", str(n)),)) for n in range(1_000)]
    service = service_of(nodes, classes)
    overview = browse(service, "/")
    assert len(overview.data) < 300_000
    assert overview.text.count('<th scope="row">') == CLASSES_A_PAGE
    assert overview.text.count("of equal shape") <= MAX_POOLS + 1
    listed = browse(service, "/nodes?page=2")
    assert listed.text.count('<a href="/nodes/') == NODES_A_PAGE
    assert len(listed.data) < 300_000
    assert "class-0999" in browse(service, "/?q=0999").text


def overview_of(count: int) -> tuple[float, str]:
    """Processor seconds and text of an overview of so many classes with two shapes each.

    Every class has nodes without its handler, and nothing is cached yet.
    """
    handlers = [frozenset({Handler(f"h-{number}")}) for number in range(2)]
    nodes = [
        Node(f"n-{n}", {"sandbox": f"{n % count}", "agentpool": f"{n % 100}"}, (), handlers[h])
        for n in range(20 * count)
        for h in [n // count % 2]
    ]
    classes = [RuntimeClass(f"c-{n:04}", "h-0", (("sandbox", f"{n}"),)) for n in range(count)]
    service = service_of(nodes, classes)
    began = time.process_time()
    text = browse(service, "/").text
    return time.process_time() - began, text


def test_the_time_for_an_overview_grows_with_the_classes_and_not_with_their_square() -> None:
    """Processor time itself varies by half on a busy machine."""
    overview_of(10)  # compiles the templates
    few, _ = overview_of(250)
    many, text = overview_of(1000)
    assert many < 8 * few
    assert "1,000 errors" in text
