"""render against a real kube-apiserver with the in-tree plugin: 400 generated pods."""

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.test_rendering import listed, of_class
from tests.e2e.cluster import Cluster
from tests.e2e.test_webhook import DRY_RUN, GENERATED, PREFIX, pod, runtime_classes
from tests.fakes.apiserver import RUNTIME_CLASSES
from tests.processes import run


def test_rendered_pods_are_what_kube_apiserver_makes_of_the_same_objects(
    beside: Cluster, tmp_path: Path
) -> None:
    classes = {}
    for document in runtime_classes(random.Random(6)):
        classes[document["metadata"]["name"]] = beside.create(RUNTIME_CLASSES, document)
    choose = random.Random(7)
    pods = [pod(choose, number, classes) for number in range(GENERATED)]
    for number, each in enumerate(pods):
        each["metadata"] = {"name": f"p{number}"}
    file = tmp_path / "pods.yaml"
    # Not as PyYAML writes it: for Go's YAML 1e3 is a number where it has no quotes.
    file.write_text("\n---\n".join(map(json.dumps, pods)))
    flags = ("--kubeconfig", str(beside.kubeconfig("admin")))
    result = run("render", "-f", str(file), *flags, "-o", "json")
    assert result.returncode == 1
    refused = dict(re.findall(r"Pod default/(\S+): (.*)", result.stderr))
    rendered: dict[str, Any] = {each["metadata"]["name"]: each for each in listed(result.stdout)}
    as_yaml = run("render", "-f", str(file), *flags).stdout
    assert list(yaml.safe_load_all(as_yaml)) == list(rendered.values())
    seen: Counter[int] = Counter()
    for each in pods:
        name = each["metadata"]["name"]
        status, answer = beside.request("POST", DRY_RUN, each)
        seen[status] += 1
        if status != 201:
            if each["spec"].get("runtimeClassName") == "":
                # The plugin answers a 500 there, though it is the pod that is wrong.
                assert name in refused
            else:
                # Of two keys in conflict the plugin names either: it goes through a Go map.
                said = PREFIX.sub("", answer["message"])
                assert refused[name].split("[")[0] == said.split("[")[0], json.dumps(each)
            assert rendered[name] == each
            continue
        assert name not in refused
        assert of_class(rendered[name]["spec"]) == of_class(answer["spec"]), json.dumps(each)
        # Admission finds nothing left to do.
        again, same = beside.request("POST", DRY_RUN, rendered[name])
        assert again == 201
        assert of_class(same["spec"]) == of_class(answer["spec"])
    assert min(seen[201], seen[403]) > 50
