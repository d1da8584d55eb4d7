"""The webhook behind a real kube-apiserver, against one with the in-tree plugin."""

import base64
import http.client
import json
import random
import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.certificates import Authority
from tests.e2e.cluster import PODS, Cluster
from tests.fakes.apiserver import RUNTIME_CLASSES
from tests.processes import ROOT, Server, running, until

GENERATED = 400
DRY_RUN = f"{PODS}?dryRun=All"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")

#: What comes before the text of the plugin, and of the webhook.
PREFIX = re.compile(r'^(pods "[^"]*" is forbidden|admission webhook "[^"]*" denied the request): ')

MERGED = ["nodeSelector", "tolerations", "overhead"]
KEYS = ["sandbox", "zone/~a", "example.com/pool"]
VALUES = ["", "a", "b"]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
QUANTITIES = ["1", "1000m", "500m", "0.5", "1Gi", "1024Mi", "0"]
NAMES = ["kata", "gvisor", "plain", "empty", "wide"]


def toleration(choose: random.Random) -> dict[str, Any]:
    item: dict[str, Any] = {}
    operator = choose.choice(["Exists", "Equal", None])
    if operator:
        item["operator"] = operator
    if operator != "Exists" or choose.random() < 0.7:
        item["key"] = choose.choice(KEYS[::2])
    if operator != "Exists":
        item["value"] = choose.choice(VALUES)
    effect = choose.choice(["", *EFFECTS])
    if effect:
        item["effect"] = effect
    if effect == "NoExecute" and choose.random() < 0.5:
        item["tolerationSeconds"] = choose.choice([0, 5, 300])
    return item


def distinct(tolerations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those that a RuntimeClass may not have twice; the seconds are no part of it."""
    keys = ("key", "operator", "value", "effect")
    found = {tuple(each.get(key, "") for key in keys): each for each in tolerations}
    return list(found.values())


def overhead(choose: random.Random) -> dict[str, str]:
    names = choose.sample(["cpu", "memory"], choose.randint(1, 2))
    return {name: choose.choice(QUANTITIES) for name in names}


def selector(choose: random.Random) -> dict[str, str]:
    return {key: choose.choice(VALUES) for key in choose.sample(KEYS[::2], choose.randint(0, 2))}


def runtime_classes(choose: random.Random) -> list[dict[str, Any]]:
    documents = []
    for name in NAMES:
        document: dict[str, Any] = {"metadata": {"name": name}, "handler": "h"}
        if name not in ("plain", "empty"):
            tolerations = distinct([toleration(choose) for _ in range(choose.randint(0, 3))])
            document["scheduling"] = {"nodeSelector": selector(choose), "tolerations": tolerations}
            document["overhead"] = {"podFixed": overhead(choose)}
        if name == "empty":
            document |= {"scheduling": {}, "overhead": {}}
        documents.append(document)
    return documents


def pod(choose: random.Random, number: int, classes: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
    name = choose.choice([*NAMES, *NAMES, None, "nope", ""])
    if name is not None:
        spec["runtimeClassName"] = name
    if choose.random() < 0.6:
        spec["tolerations"] = [toleration(choose) for _ in range(choose.randint(0, 4))]
    if choose.random() < 0.5:
        spec["nodeSelector"] = selector(choose)
    if choose.random() < 0.3:
        # Half of them with what the class has, so that some are let in.
        fixed = classes.get(name or "", {}).get("overhead", {}).get("podFixed")
        spec["overhead"] = fixed if fixed and choose.random() < 0.5 else overhead(choose)
    metadata = {"generateName": "g-"} if number % 5 == 0 else {"name": f"p{number}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def registered(kind: str, path: str, url: str, ca: Path) -> dict[str, Any]:
    """The configuration that is shipped, with the address of this process."""
    file = ROOT / "scheduler-config" / "webhook" / "base" / f"{path}.yaml"
    document: dict[str, Any] = yaml.safe_load(file.read_text())
    assert document["kind"] == kind
    verb = {"mutating": "mutate", "validating": "validate"}[path]
    document["webhooks"][0]["clientConfig"] = {
        "url": f"{url}/{verb}",
        "caBundle": base64.b64encode(ca.read_bytes()).decode(),
    }
    return document


@dataclass(frozen=True)
class Clusters:
    """One with the in-tree plugin, one with the webhook; the RuntimeClasses are in both."""

    plugin: Cluster
    webhook: Cluster
    classes: dict[str, Any]


def start_webhook(stack: ExitStack, api: Cluster, folder: Path, *flags: str) -> tuple[Server, Path]:
    """A webhook that follows the cluster, ready; and the CA of its certificate."""
    authority = Authority(folder)
    files = authority.issue("webhook")
    tls = ["--tls-cert-file", str(files.cert), "--tls-private-key-file", str(files.key)]
    bind = ["--bind", "127.0.0.1:0", "--ops-bind", "127.0.0.1:0"]
    source = ["--kubeconfig", str(api.kubeconfig("extender"))]
    process = stack.enter_context(running("webhook", *bind, *source, *tls, *flags))
    host, port = process.wait_for_line(r"probes and metrics on http://([\d.]+):(\d+)").groups()

    def ready() -> bool:
        connection = http.client.HTTPConnection(host, int(port), timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    until(ready, 30.0)
    return process, authority.cert


def register(api: Cluster, process: Server, ca: Path) -> None:
    url = f"https://127.0.0.1:{process.address[1]}"
    mutating = registered("MutatingWebhookConfiguration", "mutating", url, ca)
    validating = registered("ValidatingWebhookConfiguration", "validating", url, ca)
    for kind, document in zip(KINDS, (mutating, validating), strict=True):
        api.create(f"{CONFIGURATIONS}/{kind}", document)


def is_called(api: Cluster) -> bool:
    """Whether kube-apiserver has taken up both configurations."""
    containers = [{"name": "c", "image": "i"}]
    named = {"runtimeClassName": "nope", "containers": containers}
    own_overhead = {"overhead": {"cpu": "1"}, "containers": containers}
    answers = [
        api.request("POST", DRY_RUN, {"metadata": {"name": "p"}, "spec": spec})
        for spec in (named, own_overhead)
    ]
    return all(status == 403 for status, _ in answers)


@pytest.fixture(scope="module")
def clusters(
    cluster_beside: Cluster, cluster_instead: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    classes = {}
    for each in (cluster_beside, cluster_instead):
        each.clear()
        for document in runtime_classes(random.Random(6)):
            classes[document["metadata"]["name"]] = each.create(RUNTIME_CLASSES, document)
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("webhook")
        process, ca = start_webhook(stack, cluster_instead, folder)
        stack.callback(unregister, cluster_instead)
        register(cluster_instead, process, ca)
        until(lambda: is_called(cluster_instead), 30.0)
        yield Clusters(cluster_beside, cluster_instead, classes)
        assert "Traceback" not in process.log


def unregister(api: Cluster) -> None:
    """Leave the cluster as it was found: the other tests of the session use it too."""
    for kind in KINDS:
        for item in api.get(f"{CONFIGURATIONS}/{kind}")["items"]:
            api.delete(f"{CONFIGURATIONS}/{kind}/{item['metadata']['name']}")
    api.clear()


def outcome(api: Cluster, document: Any) -> tuple[int, Any]:
    status, answer = api.request("POST", DRY_RUN, document)
    if status != 201:
        return status, PREFIX.sub("", answer["message"])
    return status, {
        key: answer["spec"].get(key) for key in ("nodeSelector", "tolerations", "overhead")
    }


def test_plugin_off_and_webhook_equals_plugin_on(clusters: Clusters) -> None:
    choose = random.Random(7)
    seen: Counter[int] = Counter()
    for number in range(GENERATED):
        document = pod(choose, number, clusters.classes)
        wanted, got = (outcome(api, document) for api in (clusters.plugin, clusters.webhook))
        if document["spec"].get("runtimeClassName") == "":
            # The plugin answers a 500 there, though it is the pod that is wrong.
            assert (wanted[0], got[0]) == (500, 403)
            wanted = (403, wanted[1])
        assert got == wanted, document
        seen[got[0]] += 1
    assert seen[201] > GENERATED // 4
    assert seen[403] > GENERATED // 8


def test_a_class_created_a_moment_ago_is_found(clusters: Clusters) -> None:
    for number in range(20):
        name = f"fresh-{number}"
        clusters.webhook.create(RUNTIME_CLASSES, {"metadata": {"name": name}, "handler": "h"})
        spec = {"runtimeClassName": name, "containers": [{"name": "c", "image": "i"}]}
        status, answer = clusters.webhook.request(
            "POST", DRY_RUN, {"metadata": {"name": "p"}, "spec": spec}
        )
        assert status == 201, answer


def connect(api: Cluster) -> http.client.HTTPSConnection:
    """To be closed by a thread that ends; the cluster's own connections are not."""
    context = ssl.create_default_context(cafile=str(api.authority.cert))
    return http.client.HTTPSConnection("127.0.0.1", api.port, context=context, timeout=20)


HEADERS = {"Authorization": "Bearer admin-token", "Content-Type": "application/json"}


def metrics(api: Cluster) -> str:
    with closing(connect(api)) as connection:
        connection.request("GET", "/metrics", headers=HEADERS)
        return connection.getresponse().read().decode()


def buckets(api: Cluster) -> Counter[tuple[str, float]]:
    """kube-apiserver's own histogram of what each webhook took: counts by webhook and bound."""
    name = "apiserver_admission_webhook_admission_duration_seconds_bucket"
    found: Counter[tuple[str, float]] = Counter()
    for line in metrics(api).splitlines():
        if line.startswith(name):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            found[labels["name"], float(labels["le"])] += int(line.rsplit(" ", 1)[1])
    return found


def test_50_pods_a_second_are_not_held_up(clusters: Clusters) -> None:
    """By kube-apiserver's own count. The aim is 99 in 100 within 20 ms, and `make bench-webhook`
    measures it; here two API servers, etcd and the load share the processors with the webhook.
    """
    before = buckets(clusters.webhook)
    pace, began = threading.Event(), time.monotonic()
    statuses: list[int] = []

    def create(lane: int) -> None:
        choose = random.Random(lane)
        with closing(connect(clusters.webhook)) as connection:
            for turn in range(50):
                pace.wait(max(0.0, began + (turn * 10 + lane) / 50 - time.monotonic()))
                document = pod(choose, 1, clusters.classes)
                document["spec"] |= {"runtimeClassName": "kata", **dict.fromkeys(MERGED)}
                connection.request("POST", DRY_RUN, json.dumps(document), HEADERS)
                response = connection.getresponse()
                response.read()
                statuses.append(response.status)

    lanes = [threading.Thread(target=create, args=[lane]) for lane in range(10)]
    for each in lanes:
        each.start()
    for each in lanes:
        each.join()
    assert time.monotonic() - began < 15
    assert statuses.count(201) == len(statuses)
    after = buckets(clusters.webhook)
    for webhook in {name for name, _ in after}:
        counted = {
            bound: count - before[name, bound]
            for (name, bound), count in sorted(after.items())
            if name == webhook
        }
        total = counted[float("inf")]
        assert total == 500
        print(webhook, {bound: round(count / total, 4) for bound, count in counted.items()})
        assert counted[0.025] >= 0.99 * total


def test_default_classes_of_namespaces_and_cluster(clusters: Clusters, tmp_path: Path) -> None:
    """A second webhook, asked directly: what it follows is what is new here."""
    api, annotations = clusters.webhook, "runtimeclass-extender/default-class"
    with ExitStack() as stack:
        process, ca = start_webhook(stack, api, tmp_path, "--default-class")
        url = f"https://127.0.0.1:{process.address[1]}"
        document = registered("MutatingWebhookConfiguration", "mutating", url, ca)
        document["metadata"]["name"] = "zzzz-default"
        (webhook,) = document["webhooks"]
        del webhook["matchConditions"]
        webhook["name"] = "default.webhook.runtimeclass-extender"
        webhook["namespaceSelector"] = {"matchLabels": {"default-class": "yes"}}
        api.create(f"{CONFIGURATIONS}/mutatingwebhookconfigurations", document)
        names = {"in-kata": "kata", "in-plain": "plain", "in-none": None}
        given: dict[str, Any] = {}

        def create_in(namespace: str) -> Any:
            path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
            spec = {"containers": [{"name": "c", "image": "i"}]}
            answer = api.create(path, {"metadata": {"name": "p"}, "spec": spec})
            return answer["spec"].get("runtimeClassName")

        for namespace, name in names.items():
            metadata = {
                "name": namespace,
                "labels": {"default-class": "yes"},
                "annotations": {annotations: name} if name else {},
            }
            api.create("/api/v1/namespaces", {"metadata": metadata})
            if not given:
                until(lambda namespace=namespace: create_in(namespace) is not None, 30.0)  # type: ignore[misc]
            given[namespace] = create_in(namespace)
        assert given == names
        api.create(
            RUNTIME_CLASSES,
            {
                "metadata": {
                    "name": "of-the-cluster",
                    "annotations": {"runtimeclass-extender/is-default-class": "true"},
                },
                "handler": "h",
            },
        )
        until(lambda: create_in("in-none") == "of-the-cluster", 10.0)
        assert create_in("in-plain") == "plain"
