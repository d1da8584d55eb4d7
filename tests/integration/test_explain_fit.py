"""explain holds a pod's requests against empty nodes: from manifests, a cluster, and over HTTP."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, FakeApiServer, kubeconfig
from tests.processes import ROOT, run, running, serving, until

FILE: Final = ROOT / "tests" / "usage" / "fit.yaml"
LARGE: Final = (
    "Insufficient memory: 2Gi asked (160Mi of it RuntimeClass overhead), 1Gi allocatable on 8 nodes"
)


def explained(*words: str, code: int) -> Any:
    result = run("explain", *words, "-o", "json")
    assert (result.returncode, result.stderr) == (code, "")
    return json.loads(result.stdout)


def test_what_a_node_lacks_is_told_with_the_part_of_the_overhead() -> None:
    document = explained("default/large", "--manifests", str(FILE), code=0)
    assert document["feasible"] == 2
    assert document["summary"] == "2/10 nodes are available: 8 Insufficient memory."
    (reason,) = document["reasons"]
    assert (reason["reason"], reason["code"], reason["origin"]) == (LARGE, "resources", "Pod")
    requests = {
        each["text"]: each["origin"]
        for each in document["requirements"]
        if each["kind"] == "request"
    }
    assert requests == {
        "cpu=250m (overhead)": "RuntimeClass",
        "memory=2Gi (160Mi of it overhead)": "Both",
    }
    text = run("explain", "default/large", "--manifests", str(FILE)).stdout
    assert all(part in text for part in ("8 Insufficient memory", "(160Mi of it", "on 8 nodes"))
    assert "whatever other pods use of it" in " ".join(text.split())


def test_a_pod_not_admitted_yet_is_given_the_overhead_of_its_class() -> None:
    document = explained("default/fresh", "--manifests", str(FILE), code=1)
    reasons = {each["reason"]: (each["origin"], each["count"]) for each in document["reasons"]}
    overhead = "2250m asked (250m of it RuntimeClass overhead), 2 allocatable on 2 nodes"
    assert reasons == {
        "Insufficient memory: 2208Mi asked (160Mi of it RuntimeClass overhead),"
        " 1Gi allocatable on 8 nodes": ("Pod", 8),
        f"Insufficient cpu: {overhead}": ("RuntimeClass", 2),
    }


def test_a_template_lacks_what_its_limits_ask_for() -> None:
    document = explained("-f", str(FILE), "deploy/template", "--manifests", str(FILE), code=1)
    assert document["summary"] == (
        "0/10 nodes are available: 10 Insufficient example.com/gpu, 10 Insufficient memory."
    )
    (reason,) = document["reasons"]
    assert reason["reason"] == (
        "Insufficient memory: 5280Mi asked (160Mi of it RuntimeClass overhead),"
        " at most 4Gi allocatable on 10 nodes;"
        " Insufficient example.com/gpu: 1 asked, 0 allocatable on 10 nodes"
    )


def test_a_running_service_says_the_same_and_follows_what_is_allocatable(tmp_path: Path) -> None:
    said = explained("default/large", "--manifests", str(FILE), code=0)
    with serving(FILE) as server:
        status, answer, _ = server.request("GET", "/explain?pod=default/large")
        assert (status, json.loads(answer)) == (200, said)
    (pod,) = (
        each
        for each in yaml.safe_load_all(FILE.read_text())
        if each["kind"] == "Pod" and each["metadata"]["name"] == "large"
    )
    body = json.dumps(pod).encode()
    with FakeApiServer() as api:
        (tmp_path / "kubeconfig").write_text(kubeconfig(api.url))
        for each in yaml.safe_load_all(FILE.read_text()):
            if each["kind"] == "RuntimeClass":
                api.put(RUNTIME_CLASSES, each)
            for node in each.get("items", ()):
                api.put(NODES, node)
        flags = ("--bind", "127.0.0.1:0", "--kubeconfig", str(tmp_path / "kubeconfig"))
        with running("serve", *flags) as server:
            server.wait_for_line("serving")
            assert server.post("/explain", body) == said
            grown = {"allocatable": {"memory": "8Gi", "cpu": 1}}
            api.put(NODES, {"metadata": {"name": "s1"}, "status": grown})

            def feasible() -> Any:
                answer: Any = server.post("/explain", body)
                return answer["feasible"]

            until(lambda: feasible() == 3)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "lots"}}},
            'Node "n": status.allocatable[cpu]: ',
        ),
        (
            {
                "kind": "Pod",
                "metadata": {"name": "p"},
                "spec": {"containers": [{"resources": {"requests": {"memory": "1Gb"}}}]},
            },
            'Pod "p": Pod.spec.containers[0].resources.requests[memory]: ',
        ),
    ],
    ids=["node", "pod"],
)
def test_an_amount_that_is_none_is_one_line(
    document: dict[str, Any], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", **document}))
    result = run("explain", "default/p", "--manifests", str(file))
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert said in result.stderr
