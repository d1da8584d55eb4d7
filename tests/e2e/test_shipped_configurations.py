"""kube-scheduler and `serve`, started as the shipped files say, with the rights they give.

What a cluster gets is what Helm makes of the chart, applied with kubectl. Only paths, ports and
kubeconfigs are put in place of those that a real cluster has.
"""

import base64
import http.client
import itertools
import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
import yaml

from tests.config.shipped import name_of, scheduler_configurations
from tests.e2e.cluster import Cluster, free_ports
from tests.e2e.policies import MARK, needs_mutating_policies
from tests.e2e.ways import Way
from tests.fakes.apiserver import NODES
from tests.json_objects import Json
from tests.processes import until

#: kube-scheduler 1.36 says so of a flag that nobody gave it (component-base/metrics/options.go).
_NOT_OURS: Final = "The manifest file is empty, ignoring."

_FILES: Final = scheduler_configurations()

_BESIDE: Final = [file for file in _FILES if "beside" in name_of(file)]


_ALL: Final = pytest.mark.parametrize("file", _FILES, ids=name_of)


@pytest.fixture
def way(file: Path, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    """On a cluster with the admission plugin or without, as the configuration is made for."""
    plugin = "beside" if "beside" in name_of(file) else "instead"
    where: Cluster = request.getfixturevalue(plugin)
    if re.match("second-scheduler/.*marked", name_of(file)):
        needs_mutating_policies(where)  # it brings the policy that marks pods
    for name in ("kata", "gvisor"):
        where.add_class(name, name, {"sandbox": name})
    where.add_class("wasm", "spin")
    where.add_node("n1", {"sandbox": "kata"}, handlers=["", "kata"])
    where.add_node("n2", handlers=[""])
    put_up = Way.put_up(where, file, tmp_path)
    yield put_up
    # Other tests create pods on this cluster, which are to be no others than they ask for.
    policies = [each for each in put_up.objects if each["kind"].startswith("MutatingAdmission")]
    if policies:
        where.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(policies))


def _is_for_marked_pods(file: Path) -> bool:
    return "-marked" in name_of(file)


def _scheduler_name(file: Path) -> str:
    profiles = yaml.safe_load(file.read_text()).get("profiles", [{}])
    return str(profiles[0].get("schedulerName", "default-scheduler"))


def _add_pod(where: Cluster, file: Path, name: str, runtime_class: str | None = None) -> None:
    """One with a class is marked where kube-scheduler is to ask about marked pods only."""
    more: Json = {}
    if runtime_class and _is_for_marked_pods(file):
        resources = {kind: {MARK: "1"} for kind in ("requests", "limits")}
        more["containers"] = [
            {"name": "c", "image": "registry.example/none", "resources": resources}
        ]
    where.add_pod(name, runtime_class, schedulerName=_scheduler_name(file), **more)


@_ALL
def test_it_starts_without_a_warning_binds_pods_and_explains_refusals(way: Way, file: Path) -> None:
    where = way.cluster
    (port,) = free_ports(1)
    with way.service(port) as server, way.scheduler(file, port) as scheduler:
        _add_pod(where, file, "plain")
        _add_pod(where, file, "sandboxed", "kata")
        _add_pod(where, file, "refused", "gvisor")
        _add_pod(where, file, "without-handler", "wasm")
        until(lambda: bool(where.node_of("plain")))
        until(lambda: where.node_of("sandboxed") == "n1")
        until(lambda: bool(where.event_of("refused") and where.event_of("without-handler")))
        message, handler = where.event_of("refused"), where.event_of("without-handler")
        log = scheduler.log.read_text()
        service_log = server.log
    if "instead" in name_of(file):
        assert '2 nodes don\'t match RuntimeClass "gvisor" (nodeSelector sandbox=gvisor)' in message
    else:
        assert "2 node(s) didn't match Pod's node affinity/selector" in message
    assert 'nodes don\'t match RuntimeClass "wasm" (no runtime handler "spin")' in handler
    complaints = re.findall(r"(?m)^[WEF]\d{4} .*", log)
    assert not [each for each in complaints if not each.endswith(_NOT_OURS)]
    assert not re.findall(r'.*"level": ?"(?:warning|error)".*', service_log)


@_ALL
def test_while_the_service_is_away_pods_are_placed_beside_the_plugin_only(
    way: Way, file: Path
) -> None:
    where = way.cluster
    (port,) = free_ports(1)
    with way.scheduler(file, port) as scheduler:
        _add_pod(where, file, "plain")
        _add_pod(where, file, "sandboxed", "kata")
        if "beside" in name_of(file):
            until(lambda: bool(where.node_of("plain")))
            until(lambda: where.node_of("sandboxed") == "n1")
            assert "Skipping extender as it returned error" in scheduler.log.read_text()
            return
        until(lambda: "connection refused" in where.message_of("sandboxed"))
        if _is_for_marked_pods(file):
            # Nobody is asked about the others.
            until(lambda: bool(where.node_of("plain")))
        else:
            until(lambda: "connection refused" in where.message_of("plain"))
            assert not where.node_of("plain")
        with way.service(port):
            until(lambda: bool(where.node_of("plain")), 30.0)
            until(lambda: where.node_of("sandboxed") == "n1", 30.0)


@pytest.mark.parametrize("file", _BESIDE, ids=name_of)
def test_the_service_may_change_one_annotation_of_a_pod_and_nothing_else(
    way: Way, file: Path
) -> None:
    where = way.cluster
    where.add_pod("web")
    user = yaml.safe_load(way.service_kubeconfig().read_text())["users"][0]["user"]
    context = ssl.create_default_context(cafile=str(where.authority.cert))
    headers = {"Content-Type": "application/merge-patch+json"}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    else:
        files = []
        for key in ("client-certificate-data", "client-key-data"):
            files.append(way.folder / key)
            files[-1].write_bytes(base64.b64decode(user[key]))
        context.load_cert_chain(files[0], files[1])

    def patch(document: Json) -> tuple[int, str]:
        connection = http.client.HTTPSConnection(
            urlsplit(where.url).netloc, context=context, timeout=10
        )
        try:
            path = "/api/v1/namespaces/default/pods/web"
            connection.request("PATCH", path, json.dumps(document), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    # The policy is enforced a moment after it was created; what comes before changes the pod, and
    # asking for the same again would change nothing.
    values = map(str, itertools.count())
    image: Json = {"spec": {"containers": [{"name": "c", "image": "registry.example/other"}]}}
    until(lambda: patch({"metadata": {"labels": {"a": next(values)}}})[0] == 422)
    for refused, reason in (
        (image, "may not change a pod's spec"),
        ({"metadata": {"labels": {"c": "d"}}}, "may not change a pod's labels"),
        (
            {"metadata": {"finalizers": ["a.example/b"]}},
            "may not change a pod's labels, finalizers",
        ),
        ({"metadata": {"annotations": {"x": "y"}}}, "one annotation of its own only"),
    ):
        status, answer = patch(refused)
        assert (status, reason in answer) == (422, True), answer
    status, answer = patch({"metadata": {"annotations": {"runtimeclass-extender/retry": "1"}}})
    assert status == 200, answer
    where.patch(f"{NODES}/n1", {"metadata": {"annotations": {"not": "bothered"}}})
