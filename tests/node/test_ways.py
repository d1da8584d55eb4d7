"""What each switch of the chart installs, as its page says: ready, in force, removed."""

import json
from typing import Final

import pytest

from extender import __version__
from tests.config.shipped import FOLDER
from tests.node import parts
from tests.node.conftest import SCHEDULER
from tests.node.node import Node
from tests.node.parts import step, until
from tests.node.reader import Reader, a_class, a_pod

_IN_THE_IMAGE: Final = """
id -u; grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status; touch /written || echo read-only
"""
_UNPRIVILEGED: Final = "65532 CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 read-only"


def _looks_sound(node: Node, namespace: str, container: str) -> None:
    """Each pod of ours there: unprivileged, with a root that is read-only, within its request."""
    found = node.get("pods", "-n", namespace)["items"]
    pods = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    assert pods
    for pod in pods:
        name = pod["metadata"]["name"]
        words = ("exec", "-n", namespace, name, "-c", container, "--")
        assert node.kubectl(*words, "sh", "-c", _IN_THE_IMAGE).split() == _UNPRIVILEGED.split()
        used = int(node.kubectl(*words, "sed", "-n", "s/^VmRSS:[^0-9]*//p", "/proc/1/status")[:-4])
        print(f"memory: {used >> 10} MiB")
        assert used < 160 << 10
        log = node.kubectl("logs", "-n", namespace, name, "-c", container)
        assert {*json.loads(log.splitlines()[0])} >= {"ts", "level", "msg"}, log
        assert "Traceback" not in log
        assert all(each.get("restartCount", 0) == 0 for each in pod["status"]["containerStatuses"])


def test_the_pod_of_the_page_says_why_it_is_pending(second_scheduler: Reader) -> None:
    (script, *_) = second_scheduler.read("install-second-scheduler", "## 2. See it work")
    # `explain` ends with 1 where a pod fits nowhere.
    said = second_scheduler.types(
        script.replace("explain default/try-me", "explain default/try-me || true")
    )
    assert "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector." in said
    assert "nodeSelector example.com/try-me=true" in " ".join(said.split())


@pytest.mark.parametrize("marked", ["false", "true"])
@pytest.mark.parametrize("plugin", ["beside", "instead"])
def test_each_second_scheduler_becomes_ready_and_places_pods_of_both_runtimes(
    second_scheduler: Reader, plugin: str, marked: str
) -> None:
    values = f"plugin={plugin},secondScheduler.marked={marked}"
    try:
        second_scheduler.install(f"second-scheduler/{values}")
        _looks_sound(second_scheduler.node, SCHEDULER, "extender")
        second_scheduler.both_run(schedulerName=SCHEDULER)
        # `check` finds the class whose handler no node has, which is no fault of the release.
        second_scheduler.types("kubectl delete runtimeclass late")
        said = second_scheduler.types(f"helm test {SCHEDULER} --namespace {SCHEDULER}")
        assert "Succeeded" in said
    finally:
        # Removed as the page says, lest the policy of a marked one goes on to mark pods.
        second_scheduler.remove("second-scheduler")
        second_scheduler.install("second-scheduler")


def test_while_the_second_scheduler_is_upgraded_and_rolled_back_pods_are_placed(
    second_scheduler: Reader,
) -> None:
    _upgrade(second_scheduler, SCHEDULER)
    second_scheduler.both_run(schedulerName=SCHEDULER)
    second_scheduler.types(f"helm rollback {SCHEDULER} --namespace {SCHEDULER} --wait")
    second_scheduler.node.kubectl("delete", "pods", "--all", "--now")
    second_scheduler.both_run(schedulerName=SCHEDULER)


def test_one_file_brings_the_second_scheduler_too(second_scheduler: Reader) -> None:
    second_scheduler.remove("second-scheduler")
    version = parts.scheduler_image().partition(":")[2]
    second_scheduler.types(
        "sed -i 's#registry.example.com/runtimeclass-extender:#runtimeclass-extender:#;"
        f" s#kube-scheduler:v.*#kube-scheduler:{version}#' install/second-scheduler.yaml\n"
        "kubectl apply -f install/second-scheduler.yaml\n"
        f"kubectl -n {SCHEDULER} rollout status deployment/{SCHEDULER} --timeout=3m"
    )
    second_scheduler.both_run(schedulerName=SCHEDULER)
    second_scheduler.types("kubectl delete -f install/second-scheduler.yaml")
    second_scheduler.install("second-scheduler")


def _upgrade(reader: Reader, release: str) -> None:
    """Begins it: our image once more, as another version."""
    names = (f"docker.io/library/runtimeclass-extender:{tag}" for tag in (__version__, "upgraded"))
    reader.node.inside("ctr", "-n", "k8s.io", "images", "tag", "--force", *names)
    upgrade = f"helm upgrade {release} chart --namespace {release} --reuse-values"
    reader.types(f"{upgrade} --set image.tag=upgraded")


@pytest.mark.parametrize(
    "value",
    ["plugin=beside", "webhook.defaultClass=true", "webhook.markPods=true", "plugin=instead"],
)
def test_each_webhook_becomes_ready_and_is_in_force(node: Node, reader: Reader, value: str) -> None:
    with reader.with_(f"webhook/{value}"):
        _looks_sound(node, "runtimeclass-webhook", "webhook")
        reader.apply(a_class("heavy", "runc", overhead={"podFixed": {"memory": "16Mi"}}))
        reader.apply(a_pod("heavy", "heavy"))
        # The cluster's own scheduler does not know the mark.
        is_marked = "markPods" in value
        pod = reader.wait("heavy", "condition=" + ("PodScheduled=false" if is_marked else "Ready"))
    assert pod["spec"]["overhead"] == {"memory": "16Mi"}
    asked = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    assert asked.get("runtimeclass-extender/pod", "0") == str(int(is_marked))


def test_while_the_webhook_is_upgraded_no_pod_is_refused(node: Node, reader: Reader) -> None:
    words = ("rollout", "status", "deployment/runtimeclass-webhook", "--timeout=1s")
    answers: list[str] = []

    def is_upgraded() -> bool:
        answers.extend(node.refused(a_pod("asked", "runc")) for _ in range(5))
        return node.succeeds(*words, "-n", "runtimeclass-webhook")

    with reader.with_("webhook"):
        _upgrade(reader, "runtimeclass-webhook")
        until(is_upgraded, 120)
    print(f"{len(answers)} pods asked about during the upgrade")
    assert set(answers) == {""}


_REMOTE: Final = "runtimeclass-extender"
_CLIENT: Final = "/etc/runtimeclass-extender"


@pytest.mark.parametrize("variant", ["beside-plugin", "instead-of-plugin"])
def test_a_scheduler_asks_the_remote_service_with_its_certificate(
    node: Node, reader: Reader, variant: str
) -> None:
    with reader.with_("remote"):
        _looks_sound(node, _REMOTE, "extender")
        address = node.get("service", _REMOTE, "-n", _REMOTE)["spec"]["clusterIP"]
        (pod, *_) = node.get("pods", "-n", _REMOTE)["items"]
        node.redirect(address, 443, f"{pod['status']['podIP']}:8443")
        _configure_a_scheduler(reader, variant, address)
        host = f"{_REMOTE}.{_REMOTE}.svc"
        asked = f"curl -s --connect-to {host}:443:{address}:443 --cacert {_CLIENT}/ca.crt"
        ours = f"--cert {_CLIENT}/tls.crt --key {_CLIENT}/tls.key https://{host}/version"
        assert __version__ in reader.types_on_the_node(f"{asked} {ours}")
        nothing = f"{asked} https://{host}/version || echo refused"
        assert reader.types_on_the_node(nothing) == "refused\n"
        node.run("example-scheduler")
        try:
            reader.both_run(schedulerName="example-scheduler")
            reader.apply(a_pod("waits", "late", schedulerName="example-scheduler"))
            reader.waits("waits", 'no runtime handler "late"')
        finally:
            node.end("example-scheduler")


def _configure_a_scheduler(reader: Reader, variant: str, address: str) -> None:
    """On the node, with the client's certificate where the page puts it."""
    blocks = reader.read("install-remote", "## 3. The schedulers' side")
    reader.types(next(block for block in blocks if block.startswith("mkdir")))
    for file in (reader.folder / "certificates" / "client").iterdir():
        reader.node.write(f"root/checkout/certificates/client/{file.name}", file.read_text())
    (install,) = (block for block in blocks if block.startswith("sudo install"))
    reader.types_on_the_node(install)
    shipped = (FOLDER / "remote" / "kube-scheduler" / f"{variant}.yaml").read_text()
    # The host's network knows no names of Services.
    text = shipped.replace(f"https://{_REMOTE}.{_REMOTE}.svc", f"https://{address}")
    own = "/etc/kubernetes/example-scheduler"
    reader.node.write(f"{own[1:]}.yaml", text)
    reader.types_on_the_node(f"cp /etc/kubernetes/admin.conf {own}.conf")
    flags = "--config={0}.yaml --authentication-kubeconfig={0}.conf --secure-port=10260"
    flags += " --authorization-kubeconfig={0}.conf"
    program = f"exec kube-scheduler {flags.format(own)}\n"
    reader.node.write("etc/programs/example-scheduler", program)


def test_the_policies_refuse_and_give_what_the_namespace_says(node: Node, reader: Reader) -> None:
    policies = ("allowed-classes", "required-class", "default-class", "guard")

    def says(expected: str, team: str, asked: str | None) -> bool:
        said = node.refused(a_pod("asked", asked, team))
        return expected in said if expected else not said

    with reader.with_(*(f"policies/{each}" for each in policies)):
        # A policy is in force a second after it is applied.
        script = (parts.HERE / "teams.sh").read_text()
        until(lambda: 'only by who has the verb "assign"' in reader.types(script), 60)
        until(lambda: says('"runc" is not allowed in namespace "team-a"', "team-a", "runc"), 30)
        until(lambda: says('a pod in namespace "team-b" must name a Runtime', "team-b", None), 30)
        until(lambda: says("", "team-a", None), 30)
        reader.apply(a_pod("given", None, "team-a"))
        given = reader.wait("given", namespace="team-a")
        assert given["spec"]["runtimeClassName"] == "crun"
        reader.types("kubectl delete namespace team-a team-b")


def test_a_viewer_may_ask_all_that_the_commands_answer(reader: Reader) -> None:
    reader.apply(a_pod("seen", "runc"))
    reader.wait("seen")
    asked = ("explain seen", "nodes runc", "classes", "pods", "can-delete runc", "check")

    def answers() -> list[str]:
        command = "kubectl runtimeclass {} --as=viewer 2>&1 || echo exit $?"
        return [reader.types(command.format(words)) for words in asked]

    assert all(said.endswith("exit 2\n") for said in answers())
    with reader.with_("viewer"):
        bind = "kubectl create clusterrolebinding viewer --clusterrole=runtimeclass-viewer"
        reader.types(f"{bind} --user=viewer")
        assert not any(said.endswith("exit 2\n") for said in answers())
        reader.types("kubectl delete clusterrolebinding viewer")


def test_prometheus_operators_own_schemas_take_our_objects_and_what_they_select_answers(
    node: Node, second_scheduler: Reader
) -> None:
    with step("fetching the Prometheus operator's definitions"):
        words = (
            "go",
            "mod",
            "download",
            "-json",
            "github.com/prometheus-operator/prometheus-operator",
        )
        module = json.loads(parts.said(words, parts.HERE / "monitoring").stdout)["Dir"]
    kinds = ("podmonitors", "prometheusrules", "servicemonitors")
    folder = f"{module}/example/prometheus-operator-crd/monitoring.coreos.com_"
    files = " ".join(f"-f {folder}{kind}.yaml" for kind in kinds)
    second_scheduler.types(
        f"kubectl apply --server-side {files}; kubectl create namespace monitoring"
    )
    try:
        second_scheduler.types(f"kubectl wait --for=condition=Established {files} --timeout=60s")
        second_scheduler.install("monitoring")
        (monitor,) = node.get("servicemonitors", "-n", "monitoring")["items"]
        labels = monitor["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        (service,) = node.get("services", "-A", "-l", selector)["items"]
        path = f"/api/v1/namespaces/{SCHEDULER}/services/{service['metadata']['name']}"
        port, metrics = (monitor["spec"]["endpoints"][0][key] for key in ("port", "path"))
        said = node.kubectl("get", "--raw", f"{path}:{port}/proxy{metrics}")
        assert "\nruntimeclass_extender_cache_synced" in said
        second_scheduler.remove("monitoring")
    finally:
        second_scheduler.types(f"kubectl delete {files}; kubectl delete namespace monitoring")
