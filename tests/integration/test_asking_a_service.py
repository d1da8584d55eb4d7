"""explain --server: what a running service says, instead of the API server."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest
import yaml

from tests.cases_file import cases
from tests.processes import SAMPLES, Server, run, running

_CLUSTER: Final = (f"--manifests={SAMPLES}/cluster", f"--manifests={SAMPLES}/pods")


@pytest.fixture(scope="module")
def service() -> Iterator[Server]:
    with running("serve", "--bind=127.0.0.1:0", *_CLUSTER) as server:
        server.wait_for_line("serving")
        yield server


@pytest.mark.parametrize("pod", ["default/kata", "default/plain", "default/conflict"])
@pytest.mark.parametrize("output", ["table", "json", "yaml", "name"])
def test_a_service_says_of_a_pod_what_the_command_says_itself(
    service: Server, pod: str, output: str
) -> None:
    words = ("explain", pod, "--nodes=all", "-o", output)
    asked, own = run(*words, f"--server={service.url}"), run(*words, *_CLUSTER)
    assert (asked.returncode, asked.stdout) == (own.returncode, own.stdout), asked.stderr
    assert asked.returncode in (0, 1)


@pytest.mark.parametrize("output", ["table", "json", "yaml", "name"])
@pytest.mark.parametrize("words", [["kata"], ["kata", "--limit", "1"], ["gvisor"]], ids=" ".join)
def test_a_service_says_of_a_class_what_nodes_says_itself(
    service: Server, words: list[str], output: str
) -> None:
    words = ["nodes", *words, "-o", output]
    asked, own = run(*words, f"--server={service.url}"), run(*words, *_CLUSTER)
    assert (asked.returncode, asked.stdout) == (own.returncode, own.stdout), asked.stderr
    assert (asked.returncode, asked.stderr) == (0, "")


def test_classes_prints_the_list_of_the_service(service: Server) -> None:
    words = ("classes", f"--server={service.url}")
    listed = json.loads(service.request("GET", "/runtimeclasses")[1])
    assert json.loads(run(*words, "-o", "json").stdout) == listed
    text, names = run(*words).stdout, []
    for each in listed["items"]:
        assert re.search(rf"Name: +{each['name']}\nHandler: +{each['handler']}\n", text)
        names.append(f"runtimeclass.node.k8s.io/{each['name']}")
    assert run(*words, "-o", "name").stdout.splitlines() == names


@pytest.mark.parametrize("form", ["pod.yaml", "pod.json", "deployment.yaml", "deployment.json"])
def test_a_file_with_a_pod_or_a_workload_is_handed_over(
    service: Server, tmp_path: Path, form: str
) -> None:
    spec = {"runtimeClassName": "kata", "containers": [{"name": "c", "image": "i"}]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    if form.startswith("deployment"):
        template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
        own = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
        document |= {"apiVersion": "apps/v1", "kind": "Deployment", "spec": own}
    file = tmp_path / form
    file.write_text(json.dumps(document) if form.endswith("json") else yaml.safe_dump(document))
    words = ("explain", "-f", str(file), "-o", "json")
    asked = run(*words, f"--server={service.url}")
    assert asked.returncode == 1, asked.stderr
    wanted = json.loads(run(*words, *_CLUSTER).stdout)
    for key in ("reasons", "total", "feasible", "requirements"):
        assert json.loads(asked.stdout)[key] == wanted[key]


@cases
def test_what_cannot_be_asked_ends_with_a_line(
    words: list[str], said: str, service: Server
) -> None:
    result = run(*words, f"--server={service.url}")
    assert result.returncode == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@cases
def test_a_server_that_is_none_ends_with_a_line(server: str, said: str, service: Server) -> None:
    server = server.format(url=service.url, rest=service.url.removeprefix("http"))
    result = run("explain", "default/kata", f"--server={server}")
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert f"--server {server}" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_answer_of_another_program_is_refused(tmp_path: Path) -> None:
    with service_file(tmp_path / "explain", b'{"pod": "default/web", "feasible": 1}') as url:
        result = run("explain", "default/web", f"--server={url}")
    assert result.returncode == 2
    assert "its answer is not this version's: it lacks event, fitting" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@contextmanager
def service_file(file: Path, content: bytes) -> Iterator[str]:
    """A web server of one file."""
    file.write_bytes(content)
    handler = partial(SimpleHTTPRequestHandler, directory=str(file.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
