"""The webhook behind a real kube-apiserver, against one with the in-tree plugin.

What a cluster gets is what `kubectl kustomize` prints of the folders; only where kube-apiserver
finds the webhook is put in its place.
"""

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
from tests.config.kustomize import WEBHOOK_FOLDERS, build, objects_of, prepare, printed, the
from tests.config.shipped import FOLDER, name_of
from tests.e2e.cluster import PODS, Cluster
from tests.fakes.apiserver import RUNTIME_CLASSES
from tests.processes import Server, running, until

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


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """scheduler-config/ with the certificate that a script makes."""
    return prepare(tmp_path_factory.mktemp("prepared"))


@dataclass(frozen=True)
class Clusters:
    """One with the in-tree plugin, one with the webhook; the RuntimeClasses are in both."""

    plugin: Cluster
    webhook: Cluster
    classes: dict[str, Any]


@dataclass(frozen=True)
class Webhook:
    """A process started as a folder's Deployment says, with the rights the folder gives."""

    process: Server
    ca: Path
    folder: Path

    def configurations(self) -> list[dict[str, Any]]:
        """Those that the folder prints, with the address of this process."""
        documents = build(self.folder / "configurations")
        for document in documents:
            (webhook,) = document["webhooks"]
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {
                "url": f"https://127.0.0.1:{self.process.address[1]}{path}",
                "caBundle": base64.b64encode(self.ca.read_bytes()).decode(),
            }
        return documents

    def register(self, api: Cluster) -> None:
        api.apply(yaml.safe_dump_all(self.configurations()))


def start_webhook(stack: ExitStack, api: Cluster, folder: Path, scratch: Path) -> Webhook:
    """The first step of a folder, and a webhook that follows the cluster, ready."""
    text = printed(folder)
    api.apply(text)
    deployment = the("Deployment", objects_of(text))
    spec = deployment["spec"]["template"]["spec"]
    authority = Authority(scratch / "pki")
    files = authority.issue("webhook")
    account = deployment["metadata"]["namespace"], spec["serviceAccountName"]
    own = api.account_kubeconfig(*account, scratch / "webhook.kubeconfig")
    replaced = {
        "--bind": "127.0.0.1:0",
        "--ops-bind": "127.0.0.1:0",
        "--tls-cert-file": str(files.cert),
        "--tls-private-key-file": str(files.key),
        "--log-format": "text",
    }
    arguments = []
    for argument in spec["containers"][0]["args"]:
        flag, _, value = argument.partition("=")
        arguments.append(f"{flag}={replaced.get(flag, value)}" if value else flag)
    process = stack.enter_context(running(*arguments, f"--kubeconfig={own}"))
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
    return Webhook(process, authority.cert, folder)


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
    cluster_beside: Cluster,
    cluster_instead: Cluster,
    prepared: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Clusters]:
    classes = {}
    for each in (cluster_beside, cluster_instead):
        each.clear()
        for document in runtime_classes(random.Random(6)):
            classes[document["metadata"]["name"]] = each.create(RUNTIME_CLASSES, document)
    with ExitStack() as stack:
        scratch = tmp_path_factory.mktemp("webhook")
        webhook = start_webhook(stack, cluster_instead, prepared / "webhook" / "openssl", scratch)
        stack.callback(unregister, cluster_instead)
        webhook.register(cluster_instead)
        until(lambda: is_called(cluster_instead), 30.0)
        yield Clusters(cluster_beside, cluster_instead, classes)
        assert "Traceback" not in webhook.process.log


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
    measures it; here two API servers, etcd and the load share the processors with the webhook, so
    this asks only that nobody waits for the webhook as for one that is stuck.
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
    # Other tests of the same API server may have had webhooks of their own.
    called = {name for (name, bound), count in after.items() if count > before[name, bound]}
    assert called
    for webhook in called:
        counted = {
            bound: count - before[name, bound]
            for (name, bound), count in sorted(after.items())
            if name == webhook
        }
        total = counted[float("inf")]
        assert total == 500
        print(webhook, {bound: round(count / total, 4) for bound, count in counted.items()})
        assert counted[0.025] >= 0.5 * total
        assert counted[2.5] == total


LABEL = ANNOTATION = "runtimeclass-extender/default-class"


def make_namespace(api: Cluster, name: str, *, asks: bool, annotation: str | None = None) -> None:
    metadata = {
        "name": name,
        "labels": {LABEL: "enabled"} if asks else {},
        "annotations": {ANNOTATION: annotation} if annotation else {},
    }
    api.create("/api/v1/namespaces", {"metadata": metadata})


#: What a pod needs in a namespace that enforces the restricted standard; as the webhook's own.
RESTRICTED: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "c",
            "image": "i",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ],
}


def create_in(api: Cluster, namespace: str, **spec: Any) -> tuple[int, Any]:
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    containers = [{"name": "c", "image": "i"}]
    return api.request(
        "POST", path, {"metadata": {"name": "p"}, "spec": {"containers": containers} | spec}
    )


def class_in(api: Cluster, namespace: str) -> Any:
    """The class that a pod without one is given."""
    status, answer = create_in(api, namespace)
    assert status == 201, answer
    return answer["spec"].get("runtimeClassName")


def test_default_classes_of_namespaces_and_cluster(
    instead: Cluster, prepared: Path, tmp_path: Path
) -> None:
    for document in runtime_classes(random.Random(6)):
        instead.create(RUNTIME_CLASSES, document)
    names = {"in-kata": "kata", "in-plain": "plain", "in-none": None}
    with ExitStack() as stack:
        folder = prepared / "webhook" / "openssl-default-class"
        webhook = start_webhook(stack, instead, folder, tmp_path)
        stack.callback(unregister, instead)
        webhook.register(instead)
        given: dict[str, Any] = {}
        for namespace, name in names.items():
            make_namespace(instead, namespace, asks=True, annotation=name)
            if not given:
                until(lambda: class_in(instead, "in-kata") is not None, 30.0)
            given[namespace] = class_in(instead, namespace)
        assert given == names
        status, merged = create_in(instead, "in-kata")
        _, named = create_in(instead, "in-none", runtimeClassName="kata")
        assert status == 201
        for key in MERGED:
            assert merged["spec"].get(key) == named["spec"].get(key), key
        make_namespace(instead, "asks-not", asks=False, annotation="kata")
        assert class_in(instead, "asks-not") is None
        instead.create(
            RUNTIME_CLASSES,
            {
                "metadata": {
                    "name": "of-the-cluster",
                    "annotations": {"runtimeclass-extender/is-default-class": "true"},
                },
                "handler": "h",
            },
        )
        until(lambda: class_in(instead, "in-none") == "of-the-cluster", 10.0)
        assert class_in(instead, "in-plain") == "plain"
        assert class_in(instead, "asks-not") is None


def test_with_the_webhook_down_everything_starts_that_does_not_ask_for_it(
    instead: Cluster, prepared: Path, tmp_path: Path
) -> None:
    """A cold start: networking and cert-manager in namespaces of their own come up without it."""
    instead.add_class("kata", "h")
    with ExitStack() as stack:
        folder = prepared / "webhook" / "openssl-default-class"
        webhook = start_webhook(stack, instead, folder, tmp_path)
        stack.callback(unregister, instead)
        webhook.register(instead)
        make_namespace(instead, "sandboxed", asks=True, annotation="kata")
        make_namespace(instead, "cold-cni", asks=False)
        until(lambda: class_in(instead, "sandboxed") == "kata", 30.0)
        until(lambda: is_called(instead), 30.0)
        webhook.process.stop()
        for namespace in ("cold-cni", "kube-system", "runtimeclass-webhook"):
            status, answer = create_in(instead, namespace, **RESTRICTED)
            assert status == 201, answer
        for namespace, spec in (("sandboxed", {}), ("cold-cni", {"runtimeClassName": "kata"})):
            status, answer = create_in(instead, namespace, **spec)
            assert status == 500
            assert "failed calling webhook" in answer["message"]


def _open_kinds(api: Cluster) -> None:
    """cert-manager's kinds, and the Prometheus operator's, for any content."""
    kinds = {
        "cert-manager.io": ["Issuer", "Certificate"],
        "monitoring.coreos.com": ["PrometheusRule", "ServiceMonitor"],
    }
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    documents = [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{kind.lower()}s.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": f"{kind.lower()}s"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": anything},
                    }
                ],
            },
        }
        for group, names in kinds.items()
        for kind in names
    ]
    api.apply(yaml.safe_dump_all(documents))
    names = [f"crd/{each['metadata']['name']}" for each in documents]  # type: ignore[index]
    api.kubectl("wait", "--for=condition=established", "--timeout=30s", *names)


def _finish_namespace(api: Cluster, name: str) -> None:
    """What the namespace controller does once everything in it is gone; there is none here."""
    path = f"/api/v1/namespaces/{name}"
    status, namespace = api.request("GET", path)
    if status == 200:
        namespace["spec"] = {"finalizers": []}
        api.request("PUT", f"{path}/finalize", namespace)
    until(lambda: api.request("GET", path)[0] == 404)


@pytest.mark.parametrize("folder", WEBHOOK_FOLDERS, ids=name_of)
def test_the_documented_steps_install_and_remove_it(
    instead: Cluster, prepared: Path, folder: Path
) -> None:
    """The pages' commands end well, and leave no configuration behind to wait for nobody."""
    _open_kinds(instead)
    service = prepared / folder.relative_to(FOLDER)
    configurations = service / "configurations"
    try:
        for step in (service, configurations):
            instead.kubectl("apply", "-k", str(step))
        left = {
            (each["kind"], each["metadata"]["name"])
            for step in (configurations, service)
            for each in build(step)
        }
        gone: set[tuple[str, str]] = set()
        for step in (configurations, service):
            # Without the controller of namespaces, waiting for one would not end.
            said = instead.kubectl("delete", "--wait=false", "-k", str(step))
            gone |= {
                (each["kind"], each["metadata"]["name"])
                for each in build(step)
                if f'"{each["metadata"]["name"]}" ' in said
            }
        assert gone == left
    finally:
        unregister(instead)
        _finish_namespace(instead, "runtimeclass-webhook")


def test_the_other_folders_can_be_applied_as_the_pages_say(
    instead: Cluster, prepared: Path
) -> None:
    _open_kinds(instead)
    instead.kubectl("apply", "-k", str(prepared / "remote" / "cert-manager"))
    instead.kubectl("apply", "-f", str(prepared / "monitoring"))
    instead.kubectl("apply", "-f", str(prepared / "samples" / "cluster"))
    nodes = {
        each["metadata"]["name"]: each["status"] for each in instead.get("/api/v1/nodes")["items"]
    }
    assert len(nodes) == 13
    assert [each["name"] for each in nodes["gvisor-1"]["runtimeHandlers"]] == ["", "runc", "runsc"]


def test_the_client_files_are_mounted_by_the_command_of_the_page(instead: Cluster) -> None:
    page = (FOLDER.parent / "docs" / "install-remote.md").read_text()
    (patch,) = re.findall(r"patch deployment DEPLOYMENT --patch '\n(.*?)'\n```", page, re.DOTALL)
    container = {"name": "kube-scheduler", "image": "registry.example/kube-scheduler"}
    labels = {"app": "example-scheduler"}
    deployment = {
        "metadata": {"name": "example-scheduler"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    instead.create(path, deployment)
    try:
        instead.kubectl("patch", "deployment", "example-scheduler", "--patch", patch)
        spec = instead.get(f"{path}/example-scheduler")["spec"]["template"]["spec"]
    finally:
        instead.delete(f"{path}/example-scheduler")
    (mounted,) = spec["containers"]
    (mount,) = mounted["volumeMounts"]
    (volume,) = spec["volumes"]
    assert mounted["image"] == container["image"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/runtimeclass-extender", True)
    assert mount["name"] == volume["name"]
    configuration = yaml.safe_load(
        (FOLDER / "remote" / "kube-scheduler" / "beside-plugin.yaml").read_text()
    )
    tls = configuration["extenders"][0]["tlsConfig"]
    files = {Path(tls[key]) for key in ("caFile", "certFile", "keyFile")}
    assert {file.parent for file in files} == {Path(mount["mountPath"])}
    secret = volume["secret"]["secretName"]
    assert f"create secret generic {secret} " in page
    for file in files:
        assert f"--from-file certificates/client/{file.name}" in page
