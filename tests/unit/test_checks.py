"""check: it finds each mistake, and nothing in sound configurations and clusters."""

import copy
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cli.output import Screen
from extender.cluster.manifest_objects import load_manifests
from extender.lint.facts import Circumstances
from extender.lint.lints.nodes import INSTALL, is_set_by_kubelet, untainted_special_nodes
from extender.lint.registry import (
    check_classes,
    check_namespaces,
    check_pods,
    check_scheduler_config,
)
from extender.lint.reports import findings_text
from extender.model.finding import Finding, Severity
from extender.model.objects import Handler, Namespace, Node, Pod, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.rules.class_nodes import Support
from extender.rules.node_checks import HandlerCheck, Policy
from tests.cases_file import cases, tables
from tests.processes import ROOT
from tests.property import strategies as some
from tests.stores import snapshot_of

GOOD: Final[dict[str, Any]] = tables("checks")["good"]

ALONE: Final = Circumstances(admission_plugin=False, kubernetes_version=(1, 36))


def with_extender(**changed: Any) -> dict[str, Any]:
    """GOOD with changed fields of its extender; None removes a field."""
    document = copy.deepcopy(GOOD)
    extender = document["extenders"][0]
    extender.update(changed)
    for key in [key for key, value in changed.items() if value is None]:
        del extender[key]
    return document


def changed(**fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(GOOD), **fields}


def configuration(fields: dict[str, Any], extender: dict[str, Any]) -> dict[str, Any]:
    return {**with_extender(**extender), **fields}


def found(document: dict[str, Any], circumstances: Circumstances = ALONE) -> list[str]:
    return [each.check for each in check_scheduler_config(document, circumstances)]


@cases
@pytest.mark.parametrize("circumstances", [ALONE, Circumstances()], ids=["alone", "anywhere"])
def test_a_sound_configuration_has_no_findings(
    fields: dict[str, Any], extender: dict[str, Any], circumstances: Circumstances
) -> None:
    """Nor has a configuration with a fault that kube-scheduler itself reports."""
    assert found(configuration(fields, extender), circumstances) == []


@cases
def test_each_mistake_is_found_alone(
    check: str, fields: dict[str, Any], extender: dict[str, Any]
) -> None:
    (finding,) = check_scheduler_config(configuration(fields, extender), ALONE)
    assert finding.check == check
    assert all((finding.what, finding.why, finding.fix))


def test_without_prioritize_plain_pods_take_nodes_that_have_no_taint() -> None:
    where = replace(ALONE, untainted=("n1", "n2"))
    (finding,) = check_scheduler_config(with_extender(prioritizeVerb=None, weight=None), where)
    assert (finding.check, finding.severity) == ("prioritize-verb", Severity.WARNING)
    assert "2 untainted nodes serve RuntimeClasses: n1, n2" in finding.what
    assert found(GOOD, where) == []


def test_special_nodes_are_those_that_cost_a_plain_pod_more_than_others_without_a_taint() -> None:
    kata = RuntimeClass("kata", "kata", (("kata", "true"),))
    tainted = (Taint("dedicated", "kata", "NoSchedule"),)
    drained = (Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),)
    plain = Node("plain")
    labelled = [
        Node("b", {"kata": "true"}),
        Node("a", {"kata": "true"}, drained),
        Node("tainted", {"kata": "true"}, tainted),
    ]
    for nodes, expected in ((labelled, []), ([plain], []), ([plain, *labelled], ["a", "b"])):
        assert untainted_special_nodes(snapshot_of(nodes, [kata]), HandlerCheck.AUTO) == expected


def test_the_node_cache_matters_to_some_versions() -> None:
    """1.38 stands for a version that is not known yet."""
    without = with_extender(nodeCacheCapable=False)
    for minor in (32, 33, 37, 38):
        checks = ["node-cache"] if minor > 32 else []
        assert found(without, Circumstances(kubernetes_version=(1, minor))) == checks


PREEMPTION: Final = {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}}


@cases
def test_the_candidates_of_preemption_are_looked_for_in_each_profile(
    configs: list[Any], wrong: list[str]
) -> None:
    sound = {"schedulerName": "a", "pluginConfig": [PREEMPTION]}
    profiles = [sound, {"schedulerName": "b", "pluginConfig": configs}]
    findings = check_scheduler_config(changed(profiles=profiles), ALONE)
    assert [each.what.partition(":")[0] for each in findings] == wrong


_JSON: Final = some.json_values(st.integers() | st.floats() | st.text(), st.text())


@given(
    st.dictionaries(st.sampled_from([*GOOD]), _JSON, max_size=2),
    st.dictionaries(st.sampled_from([*GOOD["extenders"][0]]), _JSON, max_size=3),
    st.dictionaries(st.sampled_from(["schedulerName", "percentageOfNodesToScore"]), _JSON),
)
def test_any_configuration_is_judged_in_lines_of_text(
    fields: dict[str, Any], extender: dict[str, Any], profile: dict[str, Any]
) -> None:
    document = {**with_extender(**extender), "profiles": [profile], **fields}
    findings = check_scheduler_config(document, ALONE)
    texts = [text for each in findings for text in (each.what, each.why, each.fix)]
    assert not [each for each in texts if "\n" in each]


@cases
def test_a_url_that_no_call_gets_through_is_found(url: str, fix: str) -> None:
    document = with_extender(urlPrefix=url, enableHTTPS=None)
    (finding,) = check_scheduler_config(document, ALONE)
    assert (finding.check, finding.severity) == ("url-prefix", Severity.ERROR)
    assert finding.fix == f"urlPrefix: {fix}"


@cases
def test_kube_scheduler_must_find_its_api_server(
    connection: object, in_pod: bool | None, expected: list[list[str]]
) -> None:
    document = {**GOOD, "clientConnection": connection}
    findings = check_scheduler_config(document, replace(ALONE, in_pod=in_pod))
    assert [[each.check, each.severity] for each in findings] == expected


@cases
def test_labels_that_a_kubelet_may_set_on_its_own_node(key: str, settable: bool) -> None:
    assert is_set_by_kubelet(key) is settable


RESTRICTED: Final = "node-restriction.kubernetes.io/kata"
KATA: Final = RuntimeClass(
    "kata", "kata", ((RESTRICTED, "true"),), (Toleration("kata", "Exists", "", "NoSchedule"),)
)
NODE: Final = Node(
    "n",
    {RESTRICTED: "true"},
    (Taint("kata", "", "NoSchedule"),),
    frozenset({Handler(""), Handler("kata"), Handler("runsc")}),
)


def lint(
    classes: list[RuntimeClass], nodes: list[Node], pods: list[Pod] | None = None
) -> list[Finding]:
    return [
        *check_classes(snapshot_of(nodes, classes), Support(HandlerCheck.AUTO), Policy(), nodes),
        *check_pods(pods or [], {each.name for each in classes}),
    ]


def test_a_sound_cluster_has_no_findings() -> None:
    pods = [Pod(name="a", runtime_class_name="kata"), Pod(name="b")]
    assert lint([KATA], [NODE, Node("other")], pods) == []


def tolerating(*more: Toleration) -> RuntimeClass:
    return replace(KATA, tolerations=(*KATA.tolerations, *more))


OS: Final = ("kubernetes.io/os", "linux")
NOT_READY: Final = Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute")
SOFT: Final = replace(NODE, taints=(*NODE.taints, Taint("soft", "", "PreferNoSchedule")))

#: What is unusual → a class and a node that fit together.
SOUND: Final[dict[str, tuple[RuntimeClass, Node]]] = {
    "one restricted label is enough": (
        replace(KATA, node_selector=(OS, (RESTRICTED, "true"))),
        replace(NODE, labels={**NODE.labels, **dict([OS])}),
    ),
    "a toleration of everything": (tolerating(Toleration("", "Exists")), NODE),
    "a toleration of a condition": (tolerating(NOT_READY), NODE),
    "a taint that only scores": (tolerating(Toleration("soft", "Exists")), SOFT),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_fits_together_has_no_findings(name: str) -> None:
    runtime_class, node = SOUND[name]
    assert lint([runtime_class], [node]) == []


def findings_of(name: str, *args: Any) -> list[Finding]:
    return [each for each in lint(*args) if each.check == name]


@pytest.mark.parametrize("selector", [(), KATA.node_selector], ids=["any node", "labelled ones"])
def test_all_findings_about_a_missing_handler_say_the_same(selector: Any) -> None:
    """kube-apiserver refuses to change a handler, so no fix says to edit the class."""
    wasm = replace(KATA, handler="wasm", node_selector=selector)
    (of_class,) = findings_of("no-matching-node", [wasm], [NODE])
    (of_handler,) = findings_of("unreported-handler", [wasm], [NODE])
    assert of_class.fix == of_handler.fix
    assert "edit" not in of_class.fix


def test_handlers_are_no_error_where_a_silent_node_matches_or_nobody_checks() -> None:
    """containerd 1.7 reports none, and half-way through an upgrade only the new nodes do."""
    silent, lacking = (replace(NODE, handlers=frozenset(each)) for each in ((), [Handler("runc")]))
    assert lint([KATA], [silent, replace(lacking, name="n2", labels={})]) == []
    off = Policy(HandlerCheck.OFF)
    assert check_classes(snapshot_of([lacking], [KATA]), Support(off.handler_check), off) == []


def test_a_handler_of_a_class_without_any_feature_beside_others_is_worth_an_advice() -> None:
    """containerd 2.1 reports a handler without features if its binary is missing."""
    classes = [replace(KATA, name=name, handler=name) for name in ("runsc", "crun", "absent")]
    handlers = {Handler("", True, True), Handler("crun", True, True), Handler("runsc")}
    real = replace(NODE, handlers=frozenset(handlers | {Handler("of no class")}))
    (found,) = findings_of("featureless-handler", classes, [real, replace(real, name="m")])
    assert found.severity is Severity.ADVICE
    assert found.what.startswith("2 nodes report handler runsc without any feature")
    assert found.what.endswith(": m, n")
    assert found.runtime_classes == ("runsc",)
    assert findings_of("featureless-handler", classes, [NODE]) == []


def test_on_a_real_node_with_broken_handlers_these_are_found() -> None:
    """kubelet 1.36.2 and containerd 2.1.9: `broken` lacks its binary, `noshim` its shim."""
    folder = ROOT / "tests" / "recorded" / "real-node"
    loaded = load_manifests([str(folder / f"{each}.json") for each in ("node", "runtimeclasses")])
    nodes, classes = list(loaded.nodes.values()), list(loaded.runtime_classes.values())
    found = findings_of("featureless-handler", classes, nodes)
    assert [each.runtime_classes for each in found] == [("broken",), ("noshim",)]


def test_the_advice_for_a_class_without_nodes_is_about_the_nearest_reason() -> None:
    def fix(runtime_class: RuntimeClass, *nodes: Node) -> str:
        (found,) = findings_of("no-matching-node", [runtime_class], list(nodes))
        return found.fix

    intolerant = replace(KATA, tolerations=())
    assert fix(intolerant, NODE) == "kubectl edit runtimeclass kata"
    unlabelled = replace(NODE, labels={})
    assert fix(KATA, unlabelled) == f"kubectl label node NODE {RESTRICTED}=true"
    windows = replace(KATA, node_selector=(("kubernetes.io/os", "windows"), ("a", "b")))
    assert fix(windows, NODE) == "add a node with a=b, kubernetes.io/os=windows"
    two = replace(KATA, node_selector=(*KATA.node_selector, ("a", "b")))
    assert fix(two, unlabelled) == f"kubectl label node NODE {RESTRICTED}=true a=b"
    # The handler is there, but not on the nodes of the class.
    lacking = replace(NODE, name="n2", handlers=frozenset({Handler("runsc")}))
    elsewhere = replace(unlabelled, name="n3")
    assert fix(KATA, lacking, elsewhere, replace(elsewhere, name="n4")) == INSTALL


def test_pods_of_a_class_that_does_not_exist_are_counted_by_class() -> None:
    pods = [Pod("ns", f"p{index}", runtime_class_name="gone") for index in range(7)]
    (finding,) = lint([KATA], [NODE], pods)
    assert finding.check == "missing-class"
    assert "7 pods" in finding.what
    assert "ns/p0, ns/p1, ns/p2, ns/p3, ns/p4 and 2 more" in finding.what


def test_namespaces_whose_default_class_does_not_exist_are_counted_by_class() -> None:
    key = "runtimeclass-extender/default-class"
    annotations = {f"team-{index}": {key: "kaat"} for index in range(7)} | {
        "sound": {key: "kata"},
        "none": {key: "false"},
        "empty": {key: ""},
        "other": {"runtimeclass-extender/other": "kaat"},
    }
    (finding,) = check_annotated(annotations, ["gvisor", "kata"])
    assert finding.check == "missing-default-class"
    assert finding.severity is Severity.ERROR
    assert f'"kaat" does not exist, and annotation {key} of namespaces team-0,' in finding.what
    assert "team-4 and 2 more" in finding.what
    assert finding.fix == f"kubectl annotate --overwrite namespace team-0 {key}=kata"


@cases
def test_rules_of_a_namespace_that_can_not_be_meant_are_found(
    annotations: dict[str, str], checks: list[str]
) -> None:
    ours = {f"runtimeclass-extender/{key}": text for key, text in annotations.items()}
    findings = check_annotated({"team-a": ours, "other": {}}, ["gvisor", "kata"])
    assert [each.check for each in findings] == checks
    assert all("team-a" in each.what and "team-a" in each.fix for each in findings)


def check_annotated(annotations: dict[str, dict[str, str]], classes: list[str]) -> list[Finding]:
    """The findings about namespaces with the label that the webhook selects."""
    labels = {"runtimeclass-extender/default-class": "enabled"}
    namespaces = {name: Namespace(each, labels) for name, each in annotations.items()}
    return check_namespaces(namespaces, classes)


@cases
def test_a_default_class_that_no_webhook_is_asked_about_is_found(
    default: str, label: str | None, named: bool
) -> None:
    key = "runtimeclass-extender/default-class"
    labels = {key: label} if label else {}
    namespaces = {name: Namespace({key: default}, labels) for name in ("team-a", "team-b")}
    findings = check_namespaces(namespaces, ["kata"])
    assert [each.check for each in findings] == (["default-class-label"] if named else [])
    for each in findings:
        assert "of namespaces team-a, team-b names a default class" in each.what
        assert each.fix == f"kubectl label namespace team-a {key}=enabled"


def test_without_nodes_nothing_is_said_that_depends_on_them() -> None:
    assert lint([KATA], []) == []


@given(st.integers(30, 120))
def test_a_fix_is_wrapped_unless_it_is_to_be_copied(width: int) -> None:
    fixes = [
        "create the RuntimeClass, then re-create the pods or wait up to 5 minutes",
        "give each its own nodeSelector, or see that every such node has all the handlers",
        "kubectl label node NODE node-restriction.kubernetes.io/a-long-label=with-a-value",
        "nodeSelector: {node-restriction.kubernetes.io/a-long-label: 'with a value in it'}",
    ]
    findings = [Finding(Severity.ADVICE, "x", "what", "why", each) for each in fixes]
    lines = findings_text(findings, "here", Screen(width)).splitlines()
    assert f"  fix: {fixes[2]}" in lines
    assert f"  fix: {fixes[3]}" in lines
    assert all(len(line) <= width for line in lines if line[7:] not in fixes[2:])
