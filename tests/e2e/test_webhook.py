"""The webhook behind a real kube-apiserver, against one with the in-tree plugin.

What a cluster gets is what Helm makes of the chart; only where kube-apiserver finds the webhook is
put in its place.
"""

import base64
import copy
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.kubernetes.namespaces import DEFAULT_ANNOTATION
from release.manifests import rendered
from tests.certificates import Authority
from tests.config.chart import needs_helm
from tests.config.kustomize import objects_of, the
from tests.e2e.cluster import PODS, Cluster, answers
from tests.e2e.policies import add_namespace, ask
from tests.e2e.ways import with_values
from tests.fakes.apiserver import RUNTIME_CLASSES
from tests.processes import Server, running, until

pytestmark = needs_helm

GENERATED = 400

Values = tuple[str, ...]
DEFAULT_CLASS: Values = ("webhook.defaultClass=true",)
DRY_RUN = f"{PODS}?dryRun=All"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")

#: What comes before the text of the plugin, and of the webhook.
PREFIX = re.compile(r'^(pods "[^"]*" is forbidden|admission webhook "[^"]*" denied the request): ')

MERGED = ["nodeSelector", "tolerations", "overhead"]
KEYS = ["sandbox", "zone/~a", "example.com/pool"]
VALUES = ["", "a", "b"]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
QUANTITIES = ["1", "1000m", "500m", "0.25", "250000u", "1e3", "1Gi", "1024Mi", "0"]
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


@dataclass(frozen=True)
class Clusters:
    """One with the in-tree plugin, one with the webhook; the RuntimeClasses are in both."""

    plugin: Cluster
    webhook: Cluster
    classes: dict[str, Any]


@dataclass(frozen=True)
class Webhook:
    """A process started as the chart's Deployment says, with the rights the chart gives."""

    process: Server
    ca: Path
    shipped: list[dict[str, Any]]

    def configurations(self) -> list[dict[str, Any]]:
        """Those that the chart brings, with the address of this process."""
        documents = copy.deepcopy(self.shipped)
        for document in documents:
            for webhook in document["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {
                    "url": f"https://127.0.0.1:{self.process.address[1]}{path}",
                    "caBundle": base64.b64encode(self.ca.read_bytes()).decode(),
                }
        return documents


def is_configuration(document: dict[str, Any]) -> bool:
    return str(document["kind"]).endswith("WebhookConfiguration")


@contextmanager
def installed(api: Cluster, scratch: Path, *flags: str, values: Values = ()) -> Iterator[Webhook]:
    """The chart's webhook, first without its configurations; they are put on once it is ready."""
    name = "runtimeclass-webhook"
    text = rendered(name, "webhook.enabled=true", "createNamespace=true", *values)
    objects = objects_of(text)
    api.apply(yaml.safe_dump_all(each for each in objects if not is_configuration(each)))
    deployment = the("Deployment", objects)
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
    arguments = with_values(spec["containers"][0]["args"], replaced)
    with running(*arguments, f"--kubeconfig={own}", *flags) as process:
        ops = process.wait_for_line(r"probes and metrics on http://[\d.]+:(\d+)")
        until(lambda: answers(int(ops[1]), "/readyz"), 30.0)
        webhook = Webhook(process, authority.cert, list(filter(is_configuration, objects)))
        try:
            api.apply(yaml.safe_dump_all(webhook.configurations()))
            yield webhook
        finally:
            unregister(api)


def is_called(api: Cluster) -> bool:
    """Whether kube-apiserver has taken up both configurations."""
    named, own_overhead = ask(api, runtimeClassName="nope"), ask(api, overhead={"cpu": "1"})
    # The mutating webhook is asked first: else either of the two could have refused it.
    return own_overhead.status == 403 and '"mutate.' in str(named.document.get("message"))


@pytest.fixture(scope="module")
def clusters(
    cluster_beside: Cluster, cluster_instead: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    classes = {}
    for each in (cluster_beside, cluster_instead):
        each.clear()
        for document in runtime_classes(random.Random(6)):
            classes[document["metadata"]["name"]] = each.create(RUNTIME_CLASSES, document)
    scratch = tmp_path_factory.mktemp("webhook")
    with installed(cluster_instead, scratch) as webhook:
        until(lambda: is_called(cluster_instead), 30.0)
        yield Clusters(cluster_beside, cluster_instead, classes)
        assert "Traceback" not in webhook.process.log


def unregister(api: Cluster) -> None:
    """Leave none behind: the other tests of the session use the cluster too."""
    for kind in KINDS:
        for item in api.get(f"{CONFIGURATIONS}/{kind}")["items"]:
            api.delete(f"{CONFIGURATIONS}/{kind}/{item['metadata']['name']}")


def outcome(api: Cluster, document: Any) -> tuple[int, Any]:
    status, answer = api.request("POST", DRY_RUN, document)
    if status != 201:
        # Of two keys in conflict the plugin names either: it goes through a Go map.
        return status, PREFIX.sub("", answer["message"]).partition("[")[0]
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
        assert ask(clusters.webhook, runtimeClassName=name).runtime_class == name


#: The label of namespaces whose pods the webhook is asked to give a class.
ASKS = {DEFAULT_ANNOTATION: "enabled"}

#: What a pod needs in a namespace that enforces the restricted standard; as the webhook's own.
RESTRICTED: dict[str, Any] = yaml.safe_load("""
securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
containers:
- name: c
  image: i
  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
""")


def test_default_classes_of_namespaces_and_cluster(instead: Cluster, tmp_path: Path) -> None:
    for document in runtime_classes(random.Random(6)):
        instead.create(RUNTIME_CLASSES, document)
    names = {"in-kata": "kata", "in-plain": "plain", "in-none": None}
    for namespace, name in names.items():
        add_namespace(instead, namespace, {DEFAULT_ANNOTATION: name} if name else {}, **ASKS)
    add_namespace(instead, "asks-not", {DEFAULT_ANNOTATION: "kata"})

    def given(namespace: str) -> str | None:
        return ask(instead, namespace).runtime_class

    with installed(instead, tmp_path, values=DEFAULT_CLASS):
        until(lambda: given("in-kata") is not None, 30.0)
        assert {namespace: given(namespace) for namespace in names} == names
        assert given("asks-not") is None
        merged, named = ask(instead, "in-kata"), ask(instead, "in-none", runtimeClassName="kata")
        for key in MERGED:
            assert merged.spec.get(key) == named.spec.get(key), key
        annotations = {"runtimeclass-extender/is-default-class": "true"}
        metadata = {"name": "of-the-cluster", "annotations": annotations}
        instead.create(RUNTIME_CLASSES, {"metadata": metadata, "handler": "h"})
        until(lambda: given("in-none") == "of-the-cluster", 10.0)
        assert (given("in-plain"), given("asks-not")) == ("plain", None)


def test_with_the_webhook_down_everything_starts_that_does_not_ask_for_it(
    instead: Cluster, tmp_path: Path
) -> None:
    """A cold start: networking and cert-manager in namespaces of their own come up without it."""
    instead.add_class("kata", "h")
    add_namespace(instead, "sandboxed", {DEFAULT_ANNOTATION: "kata"}, **ASKS)
    add_namespace(instead, "cold-cni", {})
    with installed(instead, tmp_path, values=DEFAULT_CLASS) as webhook:
        until(lambda: ask(instead, "sandboxed").runtime_class == "kata", 30.0)
        until(lambda: is_called(instead), 30.0)
        webhook.process.stop()
        for namespace in ("cold-cni", "kube-system", "runtimeclass-webhook"):
            assert ask(instead, namespace, **RESTRICTED).runtime_class is None
        asking: dict[str, Any] = {"sandboxed": {}, "cold-cni": {"runtimeClassName": "kata"}}
        for namespace, spec in asking.items():
            answer = ask(instead, namespace, **spec)
            assert answer.status == 500
            assert "failed calling webhook" in answer.document["message"]


def test_who_updates_a_class_is_warned_of_what_that_breaks(
    instead: Cluster, tmp_path: Path
) -> None:
    label = {"sandbox": "kata"}
    instead.add_class("kata", "kata", label)
    for name in "ab":
        instead.add_node(name, {**label, "pool": name}, handlers=["", "kata"])
        instead.add_pod(name, "kata")
        target = {"apiVersion": "v1", "kind": "Node", "name": name}
        instead.create(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
    with installed(instead, tmp_path, values=("webhook.warnImpact=true",)):

        def warned(change: dict[str, Any]) -> tuple[str, ...]:
            instead.patch(f"{RUNTIME_CLASSES}/kata?dryRun=All", change)
            return instead.warnings

        moved = {"scheduling": {"nodeSelector": {**label, "pool": "b"}}}
        until(lambda: len(warned(moved)) == 2, 60.0)
        stranded, fewer = warned(moved)
        assert ": 1 pod could not start again on the node: nodes don't match" in stranded
        assert ": new pods keep 1 of 2 nodes" in fewer
        assert warned({"metadata": {"labels": {"a": "b"}}}) == ()


def open_kinds(api: Cluster) -> None:
    """cert-manager's kinds, and the Prometheus operator's, for any content."""
    kinds = {
        "cert-manager.io": ["Issuer", "Certificate"],
        "monitoring.coreos.com": ["PodMonitor", "PrometheusRule", "ServiceMonitor"],
    }
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"schema": {"openAPIV3Schema": anything}}
    documents = [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{kind.lower()}s.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": f"{kind.lower()}s"},
                "versions": [{"name": "v1", "served": True, "storage": True, **schema}],
            },
        }
        for group, names in kinds.items()
        for kind in names
    ]
    api.apply(yaml.safe_dump_all(documents))
    names = [f"crd/{each['metadata']['name']}" for each in documents]  # type: ignore[index]
    api.kubectl("wait", "--for=condition=established", "--timeout=30s", *names)


def finish_namespace(api: Cluster, name: str) -> None:
    """What the namespace controller does once everything in it is gone; there is none here."""
    path = f"/api/v1/namespaces/{name}"
    status, namespace = api.request("GET", path)
    if status == 200:
        namespace["spec"] = {"finalizers": []}
        api.request("PUT", f"{path}/finalize", namespace)
    until(lambda: api.request("GET", path)[0] == 404)
