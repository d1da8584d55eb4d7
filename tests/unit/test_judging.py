"""Findings about templates, beyond those of tests/workloads."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest

from extender.admission.review import Reviewer
from extender.cli.cluster_state import state_of
from extender.cluster.manifest_objects import Manifests, load_manifests
from extender.explain.explanation import Explainer
from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.namespaces import (
    ALLOWED_ANNOTATION,
    DEFAULT_ANNOTATION,
    REQUIRED_ANNOTATION,
    NamespaceRules,
    rules_of,
)
from extender.kubernetes.runtime_classes import RawRuntimeClass, runtime_class_of
from extender.kubernetes.workloads import Place, Template
from extender.lint.files import Judge
from extender.lint.new_nodes import contradictions, new_node_of
from extender.model.finding import Severity
from extender.rules.kubelet_checks import KubeletCheck
from extender.rules.node_checks import HandlerCheck, Policy
from tests.cases_file import cases, tables
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

    def rules(name: str) -> NamespaceRules:
        return rules_of(name, known.get(name, {}))

    reviewer = Reviewer(state, namespace_rules=rules)
    explainer = Explainer(state.snapshot, policy or Policy())
    pod = {"metadata": metadata or {}, "spec": spec}
    template = Template(kind, "default", "web", ("spec", "template"), pod)
    found = Judge(reviewer, rules, explainer).findings(template)
    return [(each.severity, each.check, place[3:]) for each, place in found]


CONTAINERS: Final = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]


@cases
def test_an_error_is_found_where_it_is(
    spec: Spec, code: str, place: list[str | int], loaded: Manifests
) -> None:
    expected = [(Severity.ERROR, code, tuple(place))]
    assert judged(loaded, {"containers": CONTAINERS, **spec}) == expected


def test_what_a_class_does_not_support_is_found_where_it_is_used(loaded: Manifests) -> None:
    gvisor = loaded.runtime_classes["gvisor"]
    plain = {"name": "plain", "annotations": {"runtimeclass-extender/unsupported": "hostNetwork"}}
    document = {"metadata": plain, "handler": gvisor.handler}
    runtime_class = runtime_class_of(decode(msgspec.json.encode(document), RawRuntimeClass))
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
    """A namespace's default class also satisfies a namespace that requires a class."""
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
    assert codes({DEFAULT_ANNOTATION: "kata", ALLOWED_ANNOTATION: "gvisor"}) == ["not_allowed"]


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


def test_offers_are_held_to_the_classes_they_look_meant_for(loaded: Manifests) -> None:
    classes = [loaded.runtime_classes[name] for name in ("gvisor", "kata", "windows")]
    selector = (("karpenter.sh/capacity-type", "spot"), ("karpenter.sh/nodepool", "pool"))
    classes.append(replace(classes[1], name="pool", node_selector=selector))
    found = []
    for each in tables("judging")["offers"]:
        offer = new_node_of(msgspec.Raw(msgspec.json.encode(each)), each["kind"])
        assert offer is not None
        for finding, place in contradictions(offer, each["kind"], classes):
            found.append((offer.pool, finding.runtime_classes, place))
    labels = ("spec", "template", "metadata", "labels")
    # The pool of that name lacks the label. Offers for Windows are not compared with Kata.
    typo = ("spec", "nodeLabels", "sandbox.example.com/gvisor")
    assert found == [("kata", ("kata",), labels), ("typo", ("gvisor",), typo)]
