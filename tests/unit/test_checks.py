"""check: each mistake is found, and nothing in what is sound."""

import copy
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.checks.annotations_of_namespaces import check_namespaces
from extender.checks.classes_and_nodes import check_classes, check_pods, check_tolerations
from extender.checks.config_fields import Circumstances, SchedulerConfigError
from extender.checks.durations import parse_duration
from extender.checks.finding import Finding, Severity
from extender.checks.node_labels import is_set_by_kubelet
from extender.checks.scheduler_config import (
    check_scheduler_config,
)
from extender.checks.special_nodes import untainted_special_nodes
from extender.cluster.snapshot_store import SnapshotStore
from extender.objects import Handler, Namespace, Node, Pod, RuntimeClass, Taint, Toleration
from extender.predicates.node_checks import HandlerCheck, Policy
from extender.printing.finding_texts import findings_text
from extender.printing.tables import Screen
from extender.verbs.class_nodes import Support

GOOD: Final[dict[str, Any]] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
    "percentageOfNodesToScore": 100,
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}}
            ],
        }
    ],
    "extenders": [
        {
            "urlPrefix": "https://127.0.0.1:8888",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "weight": 3,
            "enableHTTPS": True,
            "tlsConfig": {"caFile": "/ca.crt"},
            "httpTimeout": "5s",
            "nodeCacheCapable": True,
            "managedResources": [],
            "ignorable": False,
        }
    ],
}

#: With it pods have signatures, by which equal ones are told.
UNSPREAD: Final[dict[str, Any]] = {
    "pluginConfig": [
        *GOOD["profiles"][0]["pluginConfig"],
        {"name": "PodTopologySpread", "args": {"defaultingType": "List"}},
    ]
}

ALONE: Final = Circumstances(admission_plugin=False, kubernetes_version=(1, 36))


def with_extender(**changed: Any) -> dict[str, Any]:
    """GOOD with fields of the extender changed; None takes one away."""
    document = copy.deepcopy(GOOD)
    extender = document["extenders"][0]
    extender.update(changed)
    for key in [key for key, value in changed.items() if value is None]:
        del extender[key]
    return document


def changed(**fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(GOOD), **fields}


def found(document: dict[str, Any], circumstances: Circumstances = ALONE) -> list[str]:
    return [each.check for each in check_scheduler_config(document, circumstances)]


@pytest.mark.parametrize("circumstances", [ALONE, Circumstances()])
def test_a_sound_configuration_has_no_findings(circumstances: Circumstances) -> None:
    assert found(GOOD, circumstances) == []


@pytest.mark.parametrize(
    ("document", "check"),
    [
        pytest.param(changed(extenders=None), "no-extender", id="no extender"),
        pytest.param(with_extender(filterVerb=None), "filter-verb", id="filterVerb missing"),
        pytest.param(with_extender(filterVerb="/filter"), "filter-verb", id="a slash too many"),
        pytest.param(with_extender(filterVerb="filters"), "filter-verb", id="misspelt"),
        pytest.param(with_extender(prioritizeVerb="prioritise"), "prioritize-verb", id="British"),
        pytest.param(with_extender(preemptVerb=None), "preempt-verb", id="preemptVerb missing"),
        pytest.param(with_extender(preemptVerb="preemption"), "preempt-verb", id="preemption"),
        pytest.param(with_extender(filterverb="filter"), "unknown-field", id="a field misspelt"),
        pytest.param(with_extender(weight=None), "weight", id="no weight"),
        pytest.param(with_extender(bindVerb="bind"), "bind-verb", id="bindVerb"),
        pytest.param(with_extender(nodeCacheCapable=False), "node-cache", id="no node cache"),
        pytest.param(
            with_extender(nodeCacheCapable=None), "node-cache", id="node cache by default"
        ),
        pytest.param(
            with_extender(managedResources=[{"name": "x/y"}]), "managed-resources", id="managed"
        ),
        pytest.param(
            with_extender(managedResources=[{"name": "runtimeclass-extender/pod"}]),
            "managed-resources",
            id="a mark that keeps its pods Pending",
        ),
        pytest.param(changed(profiles=[UNSPREAD]), "batching", id="batching switched off"),
        pytest.param(with_extender(httpTimeout="5.1s"), "timeout", id="timeout above 5 s"),
        pytest.param(with_extender(httpTimeout="1m"), "timeout", id="timeout of a minute"),
        pytest.param(with_extender(httpTimeout="99ms"), "timeout", id="timeout below 100 ms"),
        pytest.param(with_extender(httpTimeout="5"), "wrong-type", id="timeout without unit"),
        pytest.param(with_extender(httpTimeout=5), "wrong-type", id="timeout as number"),
        pytest.param(with_extender(httpTimeout="-1s"), "timeout", id="timeout below nothing"),
        pytest.param(with_extender(ignorable=True), "ignorable", id="ignorable"),
        pytest.param(with_extender(tlsConfig=None), "no-ca", id="TLS without a CA"),
        pytest.param(with_extender(tlsConfig={"caFile": ""}), "no-ca", id="TLS with an empty CA"),
        pytest.param(
            with_extender(tlsConfig={"caFile": "/x", "insecure": True}), "insecure", id="insecure"
        ),
        pytest.param(
            with_extender(urlPrefix="http://127.0.0.1:8888"), "plain-http", id="HTTPS over http:"
        ),
        pytest.param(changed(percentageOfNodesToScore=50), "node-sampling", id="sampling"),
        pytest.param(changed(percentageOfNodesToScore=None), "node-sampling", id="by default"),
        pytest.param(
            changed(profiles=[{**GOOD["profiles"][0], "percentageOfNodesToScore": 0}]),
            "node-sampling",
            id="sampling in a profile",
        ),
        pytest.param(changed(profiles=[{}]), "min-candidate-nodes", id="candidates by default"),
        pytest.param(changed(profiles=None), "min-candidate-nodes", id="no profile at all"),
    ],
)
def test_each_mistake_is_found_alone(document: dict[str, Any], check: str) -> None:
    (finding,) = check_scheduler_config(document, ALONE)
    assert finding.check == check
    assert finding.what
    assert finding.why
    assert finding.fix


@pytest.mark.parametrize(
    ("document", "version"),
    [
        pytest.param(changed(profiles=[UNSPREAD]), (1, 34), id="no batching yet"),
        pytest.param(
            with_extender(
                managedResources=[{"name": "runtimeclass-extender/pod", "ignoredByScheduler": True}]
            ),
            (1, 36),
            id="only marked pods",
        ),
        pytest.param(with_extender(prioritizeVerb=None, weight=None), (1, 36), id="two verbs"),
    ],
)
def test_what_costs_less_is_sound(document: dict[str, Any], version: tuple[int, int]) -> None:
    assert found(document, replace(ALONE, kubernetes_version=version)) == []


def test_without_prioritize_plain_pods_take_nodes_that_have_no_taint() -> None:
    where = replace(ALONE, untainted=("n1", "n2"))
    (finding,) = check_scheduler_config(with_extender(prioritizeVerb=None, weight=None), where)
    assert (finding.check, finding.severity) == ("prioritize-verb", Severity.WARNING)
    assert "2 nodes serve RuntimeClasses without a taint: n1, n2" in finding.what
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
        store = SnapshotStore()
        store.replace_all(nodes, [kata])
        assert untainted_special_nodes(store.snapshot, HandlerCheck.AUTO) == expected


@pytest.mark.parametrize("timeout", ["100ms", "0.1s", "5s", "4s999ms", "0", "5000ms"])
def test_timeouts_within_bounds_are_sound(timeout: str) -> None:
    assert found(with_extender(httpTimeout=timeout)) == []


@pytest.mark.parametrize(
    ("version", "checks"),
    [((1, 32), []), ((1, 33), ["node-cache"]), ((1, 36), ["node-cache"]), ((1, 37), [])],
)
def test_the_node_cache_matters_to_some_versions(
    version: tuple[int, int], checks: list[str]
) -> None:
    without = with_extender(nodeCacheCapable=False)
    assert found(without, Circumstances(kubernetes_version=version)) == checks


PREEMPTION: Final = {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}}
OTHER: Final = {"name": "NodeResourcesFit", "args": {"minCandidateNodesPercentage": 10}}


@pytest.mark.parametrize(
    ("configs", "wrong"),
    [
        pytest.param([OTHER, PREEMPTION], [], id="the second of two"),
        pytest.param([PREEMPTION, OTHER], [], id="the first of two"),
        pytest.param([OTHER], ["min-candidate-nodes"], id="another plugin's"),
        pytest.param([{"name": "DefaultPreemption"}], ["min-candidate-nodes"], id="without args"),
    ],
)
def test_the_candidates_of_preemption_are_looked_for_in_every_plugin_config(
    configs: list[Any], wrong: list[str]
) -> None:
    profile = {"schedulerName": "default-scheduler", "pluginConfig": configs}
    assert found(changed(profiles=[profile])) == wrong


def test_each_profile_is_looked_at_by_itself() -> None:
    sound = {"schedulerName": "a", "pluginConfig": [PREEMPTION]}
    findings = check_scheduler_config(changed(profiles=[sound, {"schedulerName": "b"}]), ALONE)
    assert [each.what.partition(":")[0] for each in findings] == ["profiles[1]"]


def test_beside_the_plugin_sampling_is_advised_against_only_where_promises_are_broken() -> None:
    document = changed(percentageOfNodesToScore=None, profiles=None)
    assert found(document, Circumstances(broken_promises=False)) == []
    (finding,) = check_scheduler_config(document, Circumstances(broken_promises=True))
    assert finding.severity is Severity.ADVICE


def test_other_peoples_extenders_are_left_alone() -> None:
    document = copy.deepcopy(GOOD)
    document["extenders"].append(
        {"urlPrefix": "http://gpu:1", "managedResources": [{"name": "gpu"}], "bindVerb": "bind"}
    )
    assert found(document) == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param({}, "expected KubeSchedulerConfiguration", id="empty"),
        pytest.param({**GOOD, "kind": "Pod"}, "got kind Pod", id="another kind"),
        pytest.param(
            {**GOOD, "apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, "v1beta3", id="version"
        ),
        pytest.param({**GOOD, "extenders": {}}, "extenders: expected a list", id="no list"),
        pytest.param({**GOOD, "extenders": [1]}, "extenders[0]: expected an object", id="number"),
        pytest.param(with_extender(tlsConfig="x"), "extenders[0].tlsConfig", id="tlsConfig"),
    ],
)
def test_what_is_no_configuration_is_refused(document: dict[str, Any], said: str) -> None:
    with pytest.raises(SchedulerConfigError) as raised:
        check_scheduler_config(document, ALONE)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("connection", "in_pod", "expected"),
    [
        pytest.param({"kubeconfig": "/k"}, None, [], id="a file"),
        pytest.param({"kubeconfig": "/k"}, False, [], id="a file, in no pod"),
        pytest.param({"kubeconfig": "/k"}, True, [], id="a file, in a pod"),
        pytest.param(None, None, [("kubeconfig", Severity.WARNING)], id="none, who knows where"),
        pytest.param(None, False, [("kubeconfig", Severity.ERROR)], id="none, in no pod"),
        pytest.param(None, True, [], id="none, in a pod"),
        pytest.param({"qps": 9}, False, [("kubeconfig", Severity.ERROR)], id="something else"),
        pytest.param({"kubeconfig": ""}, False, [("kubeconfig", Severity.ERROR)], id="empty"),
        pytest.param({"kubeconfig": ""}, True, [], id="empty, in a pod"),
        pytest.param(
            {"kubeConfig": "/k"},
            True,
            [("unknown-field", Severity.ERROR)],
            id="misspelt, which is read strictly",
        ),
    ],
)
def test_kube_scheduler_must_find_its_api_server(
    connection: object, in_pod: bool | None, expected: list[tuple[str, Severity]]
) -> None:
    document = {**GOOD, "clientConnection": connection}
    findings = check_scheduler_config(document, replace(ALONE, in_pod=in_pod))
    assert [(each.check, each.severity) for each in findings] == expected


@pytest.mark.parametrize("connection", [1, [], {"kubeconfig": 1}, {"kubeconfig": ["/k"]}], ids=str)
def test_a_client_connection_of_a_wrong_type_is_told(connection: object) -> None:
    with pytest.raises(SchedulerConfigError, match="clientConnection"):
        check_scheduler_config({**GOOD, "clientConnection": connection}, ALONE)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h1m1s", 3661.0),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("-1s", -1.0),
        ("+2ms", 0.002),
        ("0", 0.0),
        ("", None),
        ("s", None),
        ("1", None),
        ("1 s", None),
        ("1d", None),
        ("٣s", None),
        ("1" * 200 + "s", None),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: float | None) -> None:
    read = parse_duration(text)
    assert read == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("key", "settable"),
    [
        ("sandbox.example.com/kata", True),
        ("kata", True),
        ("kubernetes.io/os", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/anything", True),
        ("x.kubelet.kubernetes.io/y", True),
        ("node-restriction.kubernetes.io/kata", False),
        ("x.node-restriction.kubernetes.io/kata", False),
        ("node-role.kubernetes.io/worker", False),
        ("x.k8s.io/y", False),
        ("notkubernetes.io/y", True),
    ],
)
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
    store = SnapshotStore()
    store.replace_all(nodes, classes)
    taints = {taint for node in nodes for taint in node.taints}
    return [
        *check_classes(store.snapshot, Support(HandlerCheck.AUTO), Policy()),
        *check_tolerations(classes, taints),
        *check_pods(pods or [], {each.name for each in classes}),
    ]


def test_a_sound_cluster_has_no_findings() -> None:
    pods = [Pod(name="a", runtime_class_name="kata"), Pod(name="b")]
    assert lint([KATA], [NODE, Node("other")], pods) == []


@pytest.mark.parametrize(
    ("runtime_class", "nodes", "checks"),
    [
        pytest.param(
            replace(KATA, node_selector=((RESTRICTED, "no"),)),
            [NODE],
            ["no-matching-node"],
            id="no node has the label",
        ),
        pytest.param(
            replace(KATA, handler="wasm"),
            [NODE, Node("silent", NODE.labels)],
            ["unreported-handler", "handler-absent"],
            id="no node reports the handler",
        ),
        pytest.param(
            KATA,
            [NODE, replace(NODE, name="broken", handlers=frozenset({Handler("runc")}))],
            ["handler-absent"],
            id="one of two nodes lacks the handler",
        ),
        pytest.param(
            replace(KATA, tolerations=(*KATA.tolerations, Toleration("typo", "Exists"))),
            [NODE],
            ["unused-toleration"],
            id="a toleration of no taint",
        ),
        pytest.param(
            replace(KATA, node_selector=(("kata", "true"),)),
            [replace(NODE, labels={"kata": "true"})],
            ["self-set-label"],
            id="a label that a kubelet may set",
        ),
        pytest.param(
            replace(KATA, node_selector=(("kubernetes.io/os", "linux"), (RESTRICTED, "true"))),
            [replace(NODE, labels={**NODE.labels, "kubernetes.io/os": "linux"})],
            [],
            id="one restricted label is enough",
        ),
        pytest.param(
            replace(KATA, tolerations=(*KATA.tolerations, Toleration("", "Exists"))),
            [NODE],
            [],
            id="a toleration of everything",
        ),
        pytest.param(
            replace(
                KATA,
                tolerations=(
                    *KATA.tolerations,
                    Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),
                ),
            ),
            [NODE],
            [],
            id="a toleration of a condition",
        ),
        pytest.param(
            replace(KATA, tolerations=(*KATA.tolerations, Toleration("soft", "Exists"))),
            [replace(NODE, taints=(*NODE.taints, Taint("soft", "", "PreferNoSchedule")))],
            [],
            id="a taint that only scores",
        ),
    ],
)
def test_what_does_not_fit_together_is_found(
    runtime_class: RuntimeClass, nodes: list[Node], checks: list[str]
) -> None:
    assert [each.check for each in lint([runtime_class], nodes)] == checks


def test_nobody_is_told_to_change_the_handler_of_a_class_which_kube_apiserver_refuses() -> None:
    (fix,) = (
        each.fix
        for each in lint([replace(KATA, handler="wasm")], [NODE])
        if each.check == "unreported-handler"
    )
    assert "set handler:" not in fix
    assert fix.endswith("since a handler can't be changed, with one of kata, runsc")


def test_classes_that_only_their_handlers_tell_apart_are_told_once() -> None:
    classes = [
        replace(KATA, name=f"kata-{index}", handler=h)
        for index, h in enumerate(["kata", "runsc", "runsc"])
    ]
    found = lint(classes, [NODE])
    (finding,) = [each for each in found if each.check == "equal-constraints"]
    assert finding.check == "equal-constraints"
    assert finding.runtime_classes == ("kata-0", "kata-1", "kata-2")


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


@pytest.mark.parametrize(
    ("annotations", "checks"),
    [
        pytest.param({"allowed-classes": "kata, *", "required": "true"}, [], id="sound"),
        pytest.param(
            {"default-class": "kata", "allowed-classes": "gvisor"},
            ["default-not-allowed"],
            id="a default that is not allowed",
        ),
        pytest.param(
            {"default-class": "false", "allowed-classes": "gvisor"}, [], id="no default at all"
        ),
        pytest.param(
            {"allowed-classes": "gvisor,kaat"},
            ["missing-allowed-class"],
            id="a class that does not exist",
        ),
        pytest.param(
            {"allowed-classes": "", "required": "true"},
            ["required-but-none-allowed"],
            id="no pod can be created",
        ),
        pytest.param({"required": "True"}, ["unreadable-required"], id="neither true nor false"),
    ],
)
def test_rules_of_a_namespace_that_can_not_be_meant_are_found(
    annotations: dict[str, str], checks: list[str]
) -> None:
    ours = {f"runtimeclass-extender/{key}": text for key, text in annotations.items()}
    findings = check_annotated({"team-a": ours, "other": {}}, ["gvisor", "kata"])
    assert [each.check for each in findings] == checks
    assert all("team-a" in each.what and "team-a" in each.fix for each in findings)


def check_annotated(annotations: dict[str, dict[str, str]], classes: list[str]) -> list[Finding]:
    """Of namespaces that are labelled as the webhook asks for."""
    labels = {"runtimeclass-extender/default-class": "enabled"}
    namespaces = {name: Namespace(each, labels) for name, each in annotations.items()}
    return list(check_namespaces(namespaces, classes))


@pytest.mark.parametrize(
    ("default", "label", "named"),
    [
        pytest.param("kata", None, True, id="no label"),
        pytest.param("kata", "true", True, id="another value"),
        pytest.param("kata", "enabled", False, id="labelled"),
        pytest.param("false", None, False, id="none wanted"),
        pytest.param("", None, False, id="the cluster's default"),
    ],
)
def test_a_default_class_that_no_webhook_is_asked_about_is_found(
    default: str, label: str | None, named: bool
) -> None:
    key = "runtimeclass-extender/default-class"
    labels = {key: label} if label else {}
    namespaces = {name: Namespace({key: default}, labels) for name in ("team-a", "team-b")}
    findings = list(check_namespaces(namespaces, ["kata"]))
    assert [each.check for each in findings] == (["default-class-label"] if named else [])
    for each in findings:
        assert "of namespaces team-a, team-b names a default class" in each.what
        assert each.fix == f"kubectl label namespace team-a {key}=enabled"


def test_a_mistake_that_many_namespaces_share_is_told_once() -> None:
    ours = {"runtimeclass-extender/allowed-classes": "kaat"}
    (finding,) = check_annotated({f"team-{index}": ours for index in range(7)}, ["kata"])
    assert "of namespaces team-0, team-1, team-2, team-3, team-4 and 2 more" in finding.what
    assert '"kata"' in finding.why


def test_without_nodes_nothing_is_said_that_depends_on_them() -> None:
    assert [each.check for each in check_classes_of([KATA])] == []


def check_classes_of(classes: list[RuntimeClass]) -> list[Finding]:
    store = SnapshotStore()
    store.replace_all([], classes)
    return check_classes(store.snapshot, Support(HandlerCheck.AUTO), Policy())


@given(st.integers(30, 120))
def test_a_fix_is_wrapped_unless_it_is_to_be_copied(width: int) -> None:
    fixes = [
        "create the RuntimeClass; that wakes no pod up: re-create them or wait 5 minutes",
        "give each its own nodeSelector, or see that every such node has all the handlers",
        "kubectl label node NODE node-restriction.kubernetes.io/a-long-label=with-a-value",
        "nodeSelector: {node-restriction.kubernetes.io/a-long-label: 'with a value in it'}",
    ]
    findings = [Finding(Severity.ADVICE, "x", "what", "why", each) for each in fixes]
    lines = findings_text(findings, "here", Screen(width)).splitlines()
    assert f"  fix: {fixes[2]}" in lines
    assert f"  fix: {fixes[3]}" in lines
    assert all(len(line) <= width for line in lines if line[7:] not in fixes[2:])
