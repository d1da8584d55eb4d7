"""What pods hold and what opens doors is never in a log, however much is logged."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.apiserver import RUNTIME_CLASSES as CLASSES
from tests.fakes.apiserver import FakeApiServer, kubeconfig, runtime_class
from tests.processes import SAMPLES, running

#: Stands in all places of a pod that may hold a secret.
SECRET = "correct-horse-battery"

LOUD = ("-v", "-v", "-v", "--log-format")


def pod() -> dict[str, Any]:
    env = [{"name": "PASSWORD", "value": SECRET}]
    container = {
        "name": "c",
        "image": f"registry.example/{SECRET}",
        "env": env,
        "args": [f"--password={SECRET}"],
        "command": [SECRET],
    }
    return {
        "metadata": {
            "name": "seen",
            "namespace": "ns",
            "uid": "u",
            "annotations": {"note": SECRET},
            "labels": {"note": SECRET},
        },
        "spec": {
            "runtimeClassName": "kata",
            "containers": [container],
            "initContainers": [{**container, "name": "i"}],
            "imagePullSecrets": [{"name": SECRET}],
        },
    }


def bodies() -> dict[str, bytes]:
    """By path, what holds the pod, whole and cut off."""
    args = {"Pod": pod(), "Nodes": None, "NodeNames": ["general-1", "no-such-node"]}
    victims = {"general-1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 0}}
    preempted = {"Pod": pod(), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    return {
        "/filter": json.dumps(args, separators=(",", ":")).encode(),
        "/prioritize": json.dumps(args).encode(),
        "/preempt": json.dumps(preempted).encode(),
        "/explain": json.dumps(pod()).encode(),
    }


def review() -> bytes:
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {
        "uid": "u",
        "kind": kind,
        "operation": "CREATE",
        "namespace": "ns",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": pod(),
    }
    api = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**api, "request": request}).encode()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_serve_logs_of_a_refused_pod_its_name_class_and_reasons(log_format: str) -> None:
    manifests = f"--manifests={SAMPLES / 'cluster'}"
    with running("serve", "--bind=127.0.0.1:0", manifests, *LOUD, log_format) as server:
        for path, body in bodies().items():
            for sent in (body, body[:-1], body.replace(b'"ns"', b"1")):
                server.request("POST", path, sent)
        line = server.wait_for_line("pod left without a node")
        assert "ns/seen" in line.string
        server.stop()
    assert SECRET not in server.log


def test_the_webhook_logs_nothing_of_a_pod() -> None:
    with running(
        "webhook", "--bind=127.0.0.1:0", f"--manifests={SAMPLES / 'cluster'}", *LOUD, "json"
    ) as server:
        server.wait_for_line("serving")
        for path in ("/mutate", "/validate"):
            for sent in (review(), review()[:-1], review().replace(b'"ns"', b"1")):
                server.request("POST", path, sent)
        server.stop()
    assert SECRET not in server.log


def test_no_credential_of_a_kubeconfig_is_logged(tmp_path: Path) -> None:
    with FakeApiServer() as cluster:
        cluster.put(CLASSES, runtime_class("kata", "kata"))
        (tmp_path / "kubeconfig").write_text(kubeconfig(cluster.url, token=SECRET))
        config = f"--kubeconfig={tmp_path / 'kubeconfig'}"
        with running("serve", "--bind=127.0.0.1:0", config, *LOUD, "text") as server:
            server.wait_for_line("serving")
            server.request("POST", "/filter", bodies()["/filter"])
            server.stop()
        sent = [each.headers.get("authorization") for each in cluster.requests]
    assert f"Bearer {SECRET}" in sent, "the test would notice nothing"
    assert SECRET not in server.log
