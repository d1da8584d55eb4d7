"""render makes of pods what the in-tree RuntimeClass plugin of Kubernetes v1.36.2 makes."""

import json
import re
from typing import Any, Final

import pytest
import yaml

from extender.kubernetes.quantity import billionths
from tests.conformance.test_admission import ADMITTED, REFUSED
from tests.processes import run
from tests.vectors_file import RECORDED

Json = dict[str, Any]

FIELDS: Final = ("nodeSelector", "tolerations", "overhead")

#: What the plugin DefaultTolerationSeconds gives to every pod.
_DEFAULTS: Final = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]


def of_class(spec: Json) -> Json:
    """The fields that RuntimeClass admission has a hand in; amounts as numbers, "" as absent."""
    tolerations = [
        {name: value for name, value in each.items() if value != ""}
        for each in spec.get("tolerations") or ()
        if each not in _DEFAULTS
    ]
    overhead = spec.get("overhead") or {}
    return {
        "nodeSelector": spec.get("nodeSelector") or {},
        "tolerations": tolerations,
        "overhead": {name: billionths(amount) for name, amount in overhead.items()},
    }


def by_name(documents: list[Json]) -> dict[str, Json]:
    return {
        each["metadata"].get("name") or each["metadata"]["generateName"]: each["spec"]
        for each in documents
    }


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_recorded_pods_are_rendered_as_kube_apiserver_admitted_them(output: str) -> None:
    pods = RECORDED / "admission/pods.yaml"
    classes = ("--manifests", str(RECORDED / "runtimeclasses.yaml"))
    result = run("render", "-f", str(pods), *classes, "-o", output)
    assert result.returncode == 1
    documents = (
        list(yaml.safe_load_all(result.stdout)) if output == "yaml" else listed(result.stdout)
    )
    rendered, given = by_name(documents), by_name(list(yaml.safe_load_all(pods.read_text())))
    assert rendered.keys() == given.keys() == ADMITTED.keys() | REFUSED.keys()
    for name, spec in rendered.items():
        if name in REFUSED:
            assert spec == given[name]
        else:
            assert of_class(spec) == of_class(ADMITTED[name])
            others = {key: value for key, value in spec.items() if key not in FIELDS}
            assert others == {k: v for k, v in given[name].items() if k not in FIELDS}
    told = dict(re.findall(r"Pod default/(\S+): (.*)", result.stderr))
    assert told == REFUSED


def listed(text: str) -> list[Json]:
    """The objects that are printed as JSON."""
    document: Json = json.loads(text)
    items: list[Json] = document["items"] if document["kind"] == "List" else [document]
    return items
