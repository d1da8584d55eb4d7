"""What looks misspelt in manifests is told, and nothing is refused for it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.manifest_objects import Manifests
from extender.cluster.misspelt import FIELDS, MAX_LOOKED_AT, MAX_TOLD, Fields
from extender.cluster.reading_manifests import load_manifests, read_manifest
from tests.processes import SAMPLES

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "a"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
}


def warnings(*documents: Any, templates: bool = False) -> list[str]:
    loaded = Manifests(templates={} if templates else None)
    text = "---\n".join(yaml.safe_dump(each) for each in documents)
    read_manifest(text.encode(), "a.yaml", loaded)
    return loaded.warnings


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param(
            {**CLASS, "kind": "RuntimeClas"},
            'kind "RuntimeClas" is left out; did you mean "RuntimeClass"?',
            id="a kind",
        ),
        pytest.param(
            {**NODE, "kind": "node"},
            'kind "node" is left out; did you mean "Node"?',
            id="a kind in small letters",
        ),
        pytest.param(
            {**CLASS, "apiVersion": "v1"},
            'RuntimeClass "kata" is left out for its apiVersion; did you mean node.k8s.io/v1?',
            id="a group",
        ),
        pytest.param(
            {**POD, "spec": {"nodeSelektor": {"a": "b"}}},
            'Pod "web": Kubernetes knows no spec.nodeSelektor; did you mean "nodeSelector"?',
            id="a field",
        ),
        pytest.param(
            {**POD, "spec": {"runtimeClass": "kata"}},
            'Pod "web": Kubernetes knows no spec.runtimeClass; did you mean "runtimeClassName"?',
            id="half a field",
        ),
        pytest.param(
            {**POD, "spec": {"node_selector": {}}},
            'Pod "web": Kubernetes knows no spec.node_selector; did you mean "nodeSelector"?',
            id="a field as Python spells it",
        ),
        pytest.param(
            {**POD, "spec": {"tolerations": [{}, {"operater": "Exists"}]}},
            'Pod "web": Kubernetes knows no spec.tolerations[1].operater; did you mean "operator"?',
            id="a field of an item",
        ),
        pytest.param(
            {**CLASS, "scheduling": {"toleration": []}},
            'RuntimeClass "kata": Kubernetes knows no scheduling.toleration;'
            ' did you mean "tolerations"?',
            id="a field of a class",
        ),
        pytest.param(
            {**NODE, "status": {"runtimeHandler": []}},
            'Node "n": Kubernetes knows no status.runtimeHandler; did you mean "runtimeHandlers"?',
            id="a field of a node",
        ),
        pytest.param(
            {**NODE, "metadata": {"name": "n", "lables": {}}},
            'Node "n": Kubernetes knows no metadata.lables; did you mean "labels"?',
            id="a field of the metadata",
        ),
        pytest.param(
            {**POD, "spec": {"nodeselector\x1b[2J": 1}},
            'Pod "web": Kubernetes knows no spec.nodeselector?[2J; did you mean "nodeSelector"?',
            id="nothing that moves a cursor",
        ),
    ],
)
def test_what_looks_like_a_known_word_is_one_warning(document: Any, said: str) -> None:
    text = json.dumps(document)
    loaded = Manifests()
    read_manifest(text.encode(), "a.json", loaded)
    assert loaded.warnings == [said]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {"template": {"spec": {"runtimeclassname": "kata"}}},
            },
            'Deployment "d": Kubernetes knows no spec.template.spec.runtimeclassname;'
            ' did you mean "runtimeClassName"?',
            id="in a template",
        ),
        pytest.param(
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "c"},
                "spec": {
                    "jobTemplate": {"spec": {"template": {"spec": {"hostUser": False}}}},
                    "schedule": "@daily",
                },
            },
            'CronJob "c": Kubernetes knows no spec.jobTemplate.spec.template.spec.hostUser;'
            ' did you mean "hostUsers"?',
            id="in a template's template",
        ),
        pytest.param(
            {"apiVersion": "apps/v1", "kind": "Deploymnet", "metadata": {"name": "d"}},
            'kind "Deploymnet" is left out; did you mean "Deployment"?',
            id="a workload's kind",
        ),
        pytest.param(
            {"apiVersion": "extensions/v1beta1", "kind": "DaemonSet", "metadata": {"name": "d"}},
            'DaemonSet "d" is left out for its apiVersion; did you mean apps/v1?',
            id="a workload's old group",
        ),
    ],
)
def test_workloads_are_looked_at_where_they_are_read(document: Any, said: str) -> None:
    assert warnings(document, templates=True) == [said]
    assert warnings(document) == []


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({**NODE, "apiVersion": "management.example.com/v3"}, id="somebody's group"),
        pytest.param({**NODE, "kind": "NodePool", "apiVersion": "karpenter.sh/v1"}, id="a kind"),
        pytest.param({**NODE, "kind": "StorageClass"}, id="another class"),
        pytest.param({"kind": "ConfigMap", "data": {"spek": ""}}, id="what is not read"),
        pytest.param({**POD, "spec": {"quotaTier": 1, "nodes": [], "x": {}}}, id="new fields"),
        pytest.param({**POD, "status": {"fase": "Running"}}, id="a part that is not looked at"),
        pytest.param(
            {**NODE, "metadata": {"name": "n", "labels": {"name": "", "kimd": ""}}}, id="labels"
        ),
        pytest.param({**POD, "spec": {"x" * 300: 1, "nodeSelector" * 30: 1}}, id="long names"),
    ],
)
def test_what_looks_like_nothing_known_may_be_newer_or_somebody_elses(document: Any) -> None:
    assert warnings(document, templates=True) == []


def test_the_same_is_told_once_and_not_without_end() -> None:
    pods = [{**POD, "spec": {"nodeSelektor": {}}}] * 3
    assert len([each for each in warnings(*pods) if "nodeSelektor" in each]) == 1
    many = [
        {**POD, "metadata": {"name": f"web-{n}"}, "spec": {"nodeSelektor": {}}}
        for n in range(MAX_TOLD + 20)
    ]
    told = warnings(*many)
    assert len(told) == MAX_TOLD + 1
    assert told[-1] == "more looks misspelt, and is not told"


def test_no_more_objects_are_looked_at_than_a_person_writes() -> None:
    """65,000 nodes that were printed cost nothing."""
    loaded = Manifests()
    items = [{**NODE, "metadata": {"name": f"n-{n}"}} for n in range(MAX_LOOKED_AT)]
    items.append({**POD, "spec": {"nodeSelektor": {}}})
    read_manifest(json.dumps({"kind": "List", "items": items}).encode(), "a.json", loaded)
    assert loaded.warnings == []


def test_a_kind_that_leaves_nothing_to_read_is_named_where_it_matters(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**CLASS, "kind": "RuntimeClas"}))
    assert load_manifests([str(tmp_path)]).warnings[-1] == (
        f'no Node, RuntimeClass or Pod in {tmp_path}: kind "RuntimeClas" is left out;'
        ' did you mean "RuntimeClass"?'
    )


def test_nothing_in_the_sample_cluster_looks_misspelt() -> None:
    assert load_manifests([str(SAMPLES / "cluster"), str(SAMPLES / "pods")]).warnings == []


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["spec", "tolerations", "nodeselector", "x"]), inner)
    ),
    max_leaves=15,
)


@given(st.sampled_from(sorted(FIELDS)), JSON)
def test_any_json_is_looked_at(kind: str, spec: Any) -> None:
    """Law: whatever stands in an object, looking for misspelt words raises nothing."""
    looked_at = Manifests().misspelt.fields_of({"kind": kind, "spec": spec}, kind, "it")
    assert all("did you mean" in each for each in looked_at)


def every_object(kind: str, fields: Fields) -> dict[str, Any]:
    return {name: every_object(kind, inside) if inside else None for name, inside in fields.items()}


@pytest.mark.parametrize("kind", FIELDS)
def test_no_field_of_kubernetes_looks_misspelt(kind: str) -> None:
    """Law: what is known is never told, whatever it resembles."""
    document = every_object(kind, FIELDS[kind])
    assert list(Manifests().misspelt.fields_of(document, kind, "it")) == []
