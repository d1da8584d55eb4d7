"""Secrets of pods and credentials are never in a log, however verbose it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.apiserver import RUNTIME_CLASSES as CLASSES
from tests.fakes.apiserver import FakeApiServer, kubeconfig, runtime_class
from tests.processes import SAMPLES, ready
from tests.reviews import review

#: Stands in all places of a pod that may hold a secret.
SECRET = "correct-horse-battery"

MANIFESTS = f"--manifests={SAMPLES / 'cluster'}"
LOUD = ("-v", "-v", "-v", "--log-format")


def pod() -> dict[str, Any]:
    container = {
        "name": "c",
        "image": f"registry.example/{SECRET}",
        "command": [SECRET],
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "args": [f"--password={SECRET}"],
    }
    metadata = {"name": "seen", "namespace": "ns", "uid": "u", "annotations": {"note": SECRET}}
    spec = {"runtimeClassName": "kata", "imagePullSecrets": [{"name": SECRET}]}
    containers = {"containers": [container], "initContainers": [{**container, "name": "i"}]}
    return {"metadata": {**metadata, "labels": {"note": SECRET}}, "spec": {**spec, **containers}}


def bodies() -> dict[str, bytes]:
    """path → a request that holds the pod."""
    args = {"Pod": pod(), "Nodes": None, "NodeNames": ["general-1", "no-such-node"]}
    victims = {"general-1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 0}}
    preempted = {"Pod": pod(), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    return {
        "/filter": json.dumps(args, separators=(",", ":")).encode(),
        "/prioritize": json.dumps(args).encode(),
        "/preempt": json.dumps(preempted).encode(),
        "/explain": json.dumps(pod()).encode(),
    }


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_serve_logs_of_a_refused_pod_its_name_class_and_reasons(log_format: str) -> None:
    with ready("serve", MANIFESTS, *LOUD, log_format) as server:
        for path, body in bodies().items():
            for sent in (body, body[:-1], body.replace(b'"ns"', b"1")):
                server.request("POST", path, sent)
        line = server.wait_for_line("pod left without a node")
        assert "ns/seen" in line.string
        server.stop()
    assert SECRET not in server.log


def test_the_webhook_logs_nothing_of_a_pod() -> None:
    body = review(pod(), namespace="ns")
    with ready("webhook", MANIFESTS, *LOUD, "json") as server:
        for path in ("/mutate", "/validate"):
            for sent in (body, body[:-1], body.replace(b'"ns"', b"1")):
                server.request("POST", path, sent)
        server.stop()
    assert SECRET not in server.log


def test_no_credential_of_a_kubeconfig_is_logged(cluster: FakeApiServer, tmp_path: Path) -> None:
    cluster.put(CLASSES, runtime_class("kata", "kata"))
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(cluster.url, token=SECRET))
    with ready("serve", f"--kubeconfig={file}", *LOUD, "text") as server:
        server.request("POST", "/filter", bodies()["/filter"])
        server.stop()
    sent = [each.headers.get("authorization") for each in cluster.requests]
    assert f"Bearer {SECRET}" in sent, "the test would notice nothing"
    assert SECRET not in server.log
