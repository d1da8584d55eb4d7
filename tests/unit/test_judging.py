"""Findings about templates that the folder of tests/workloads has not."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest
import yaml

from extender.admission.namespace_rules import DEFAULT_ANNOTATION, REQUIRED_ANNOTATION, rules_of
from extender.checks.finding import Severity
from extender.checks.judging import Admission, Judge
from extender.checks.kueue_and_karpenter import check_offer, offer_of
from extender.checks.template_fields import Place, Template
from extender.checks.template_nodes import Placing
from extender.cluster.manifest_objects import Manifests
from extender.cluster.reading_manifests import load_manifests
from extender.commands.cluster_state import state_of
from extender.decoding.decoder import DecodeError
from extender.decoding.runtime_classes import RawRuntimeClass, runtime_class_of
from extender.predicates.kubelet import KubeletCheck
from extender.predicates.node_checks import HandlerCheck, Policy
from tests.processes import ROOT

CLUSTER: Final = ROOT / "tests" / "workloads" / "cluster"

Spec = dict[str, Any]


@pytest.fixture(scope="module")
def loaded() -> Manifests:
    return load_manifests([str(CLUSTER)])


def judged(
    loaded: Manifests,
    spec: Spec,
    *,
    kind: str = "Deployment",
    metadata: Spec | None = None,
    namespaces: dict[str, dict[str, str]] | None = None,
    policy: Policy | None = None,
) -> list[tuple[Severity, str, Place]]:
    state = state_of(loaded)
    in_file = {name: each.annotations for name, each in loaded.namespaces.items()}
    known: Mapping[str, Mapping[str, str]] = in_file if namespaces is None else namespaces
    admission = Admission(
        state.snapshot.runtime_classes,
        lambda name: rules_of(name, known.get(name, {})),
        default_class=True,
    )
    placing = Placing(state.snapshot, policy or Policy())
    pod = {"metadata": metadata or {}, "spec": spec}
    template = Template(kind, "default", "web", ("spec", "template"), pod)
    found = Judge(admission, placing).findings(template)
    return [(each.severity, each.check, place[3:]) for each, place in found]


CONTAINERS: Final = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]


@pytest.mark.parametrize(
    ("spec", "code", "place"),
    [
        pytest.param(
            {"overhead": {"cpu": "1"}}, "overhead", ("overhead",), id="overhead without a class"
        ),
        pytest.param(
            {"runtimeClassName": ""}, "not_found", ("runtimeClassName",), id="a class named nothing"
        ),
        pytest.param(
            {"runtimeClassName": "gvisor", "os": {"name": "windows"}},
            "os",
            ("os", "name"),
            id="an operating system that the class's nodes have not",
        ),
        pytest.param(
            {
                "runtimeClassName": "gvisor",
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "no", "operator": "Exists"}]}
                            ]
                        }
                    }
                },
            },
            "fits_nowhere",
            ("affinity",),
            id="an affinity beside a class",
        ),
        pytest.param(
            {"nodeSelector": {"a": "b", "c": "d"}},
            "fits_nowhere",
            ("nodeSelector",),
            id="a nodeSelector of two entries that no node has",
        ),
        pytest.param(
            {"containers": [{"resources": {"limits": {"example.com/fpga": "1"}}}]},
            "resources",
            ("containers", 0, "resources", "limits", "example.com/fpga"),
            id="a resource that no node has",
        ),
        pytest.param(
            {"initContainers": [{"resources": {"requests": {"cpu": "9"}}}]},
            "resources",
            ("initContainers", 0, "resources", "requests", "cpu"),
            id="an init container that is too large",
        ),
    ],
)
def test_an_error_is_found_where_it_is(
    loaded: Manifests, spec: Spec, code: str, place: Place
) -> None:
    assert judged(loaded, {"containers": CONTAINERS, **spec}) == [(Severity.ERROR, code, place)]


def test_what_a_class_does_not_support_is_found_where_it_is_used(loaded: Manifests) -> None:
    gvisor = loaded.runtime_classes["gvisor"]
    plain = {"name": "plain", "annotations": {"runtimeclass-extender/unsupported": "hostNetwork"}}
    document = {"metadata": plain, "handler": gvisor.handler}
    runtime_class = runtime_class_of(msgspec.convert(document, RawRuntimeClass))
    more = Manifests(loaded.nodes, {**loaded.runtime_classes, "plain": runtime_class})
    spec: Spec = {"runtimeClassName": "plain", "containers": CONTAINERS}
    assert judged(more, spec) == []
    assert judged(more, {**spec, "hostNetwork": True}) == [
        (Severity.ERROR, "unsupported", ("hostNetwork",))
    ]


def test_a_node_that_is_only_cordoned_is_a_warning(loaded: Manifests) -> None:
    assert judged(loaded, {"nodeSelector": {"pool": "edge"}, "containers": CONTAINERS}) == [
        (Severity.WARNING, "fits_nowhere", ("runtimeClassName",))
    ]


def test_the_flags_of_matching_count(loaded: Manifests) -> None:
    spec: Spec = {"runtimeClassName": "kata-cc", "containers": CONTAINERS}
    assert [code for _, code, _ in judged(loaded, spec)] == ["fits_nowhere"]
    off = Policy(HandlerCheck.OFF, kubelet_check=KubeletCheck.OFF)
    assert judged(loaded, spec, policy=off) == []


def test_a_default_class_is_judged_as_if_it_were_named(loaded: Manifests) -> None:
    """That of a namespace satisfies the one that must be named, too."""
    required = {REQUIRED_ANNOTATION: "true"}
    spec = {"containers": CONTAINERS}

    def codes(annotations: dict[str, str], **more: Any) -> list[str]:
        namespaces = {"default": annotations}
        return [code for _, code, _ in judged(loaded, spec, namespaces=namespaces, **more)]

    assert codes({}) == []
    assert codes(required) == ["class_required"]
    assert codes({**required, DEFAULT_ANNOTATION: "kata"}) == []
    assert codes({DEFAULT_ANNOTATION: "katta"}) == ["not_found"]
    assert codes({DEFAULT_ANNOTATION: "kata-cc"}) == ["fits_nowhere"]
    opted_out = {"annotations": {DEFAULT_ANNOTATION: "false"}}
    assert codes({DEFAULT_ANNOTATION: "katta"}, metadata=opted_out) == []


def test_a_daemonset_that_repeats_its_class_hangs_nowhere(loaded: Manifests) -> None:
    selector = {"katacontainers.io/kata-runtime": "true"}
    spec: Spec = {"runtimeClassName": "kata", "nodeSelector": selector, "containers": CONTAINERS}
    # Without the class's toleration the controller makes no pod at all: nothing hangs.
    assert judged(loaded, spec, kind="DaemonSet") == []
    del spec["nodeSelector"]
    assert [code for _, code, _ in judged(loaded, spec, kind="DaemonSet")] == ["daemonset_hangs"]


def test_a_pod_of_another_type_is_an_error_and_no_crash(loaded: Manifests) -> None:
    wrong: list[Spec] = [
        {"containers": 3},
        {"nodeSelector": []},
        {"overhead": "x"},
        {"affinity": {"nodeAffinity": 3}},
        {"containers": [{"resources": {"requests": {"cpu": []}}}]},
    ]
    for spec in wrong:
        with pytest.raises(DecodeError):
            judged(loaded, {"runtimeClassName": "kata", **spec})


OFFERS: Final = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: kata}
spec: {template: {spec: {requirements: [{key: kubernetes.io/os, operator: In, values: [windows]}]}}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec: {template: {spec: {taints: [{key: x, effect: NoSchedule}]}}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: batch}
spec:
  nodeLabels: {katacontainers.io/kata-runtime: "true"}
  nodeTaints: [{key: batch, value: "1", effect: NoSchedule}]
  tolerations: [{key: batch, operator: Exists}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: typo}
spec: {nodeLabels: {sandbox.example.com/gvisor: "ture"}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: plain}
spec: {nodeLabels: {kubernetes.io/os: linux, pool: general}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: null}
spec: null
"""


def test_offers_are_held_to_the_classes_they_look_meant_for(loaded: Manifests) -> None:
    classes = [loaded.runtime_classes[name] for name in ("gvisor", "kata", "windows")]
    found = []
    for each in yaml.safe_load_all(OFFERS):
        offer = offer_of(msgspec.Raw(msgspec.json.encode(each)), each["kind"])
        for finding, place in check_offer(offer, classes):
            found.append((offer.name, finding.runtime_classes, place))
    labels = ("spec", "template", "metadata", "labels")
    # The pool of that name has not the label; what is for Windows is none of Kata's business.
    typo = ("spec", "nodeLabels", "sandbox.example.com/gvisor")
    assert found == [("kata", ("kata",), labels), ("typo", ("gvisor",), typo)]
