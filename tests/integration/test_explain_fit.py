"""explain holds a pod's requests against empty nodes: from manifests, a cluster, and over HTTP."""

import json
from typing import Any, Final

import yaml

from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, FakeApiServer
from tests.processes import ROOT, ready, run, serving, until

FILE: Final = ROOT / "tests" / "usage" / "fit.yaml"
LARGE: Final = (
    "Insufficient memory: 2Gi asked (160Mi of it RuntimeClass overhead), 1Gi allocatable on 8 nodes"
)


def explained(*words: str, code: int) -> Any:
    result = run("explain", *words, "-o", "json")
    assert (result.returncode, result.stderr) == (code, "")
    return json.loads(result.stdout)


def test_a_running_service_says_the_same_and_follows_what_is_allocatable(
    cluster: FakeApiServer, config: str
) -> None:
    said = explained("default/large", "--manifests", str(FILE), code=0)
    with serving(FILE) as server:
        status, answer, _ = server.request("GET", "/explain?pod=default/large")
        assert (status, json.loads(answer)) == (200, said)
    body = b""
    for each in yaml.safe_load_all(FILE.read_text()):
        if each["kind"] == "RuntimeClass":
            cluster.put(RUNTIME_CLASSES, each)
        for node in each.get("items", ()):
            cluster.put(NODES, node)
        if each["kind"] == "Pod" and each["metadata"]["name"] == "large":
            body = json.dumps(each).encode()
    with ready("serve", "--kubeconfig", config) as server:
        assert server.post("/explain", body) == said
        grown = {"allocatable": {"memory": "8Gi", "cpu": 1}}
        cluster.put(NODES, {"metadata": {"name": "s1"}, "status": grown})

        def feasible() -> Any:
            answer: Any = server.post("/explain", body)
            return answer["feasible"]

        until(lambda: feasible() == 3)
