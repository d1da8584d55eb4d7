"""scheduler-config/policies/{allowed-classes,required-class,guard} on a real kube-apiserver.

The rules are those of extender/kubernetes/namespaces.py: both are asked the same.
"""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final

import pytest

from extender.kubernetes.namespaces import rules_of
from tests.cases_file import cases
from tests.config.kustomize import printed
from tests.e2e.cluster import Cluster
from tests.e2e.policies import (
    NAMESPACES,
    POLICIES,
    add_namespace,
    applied,
    ask,
    has_mutating_policies,
)
from tests.fakes.apiserver import Json
from tests.namespace_rules import ALLOWED, CASES, REQUIRED
from tests.namespace_rules import PREFIX as RULES
from tests.processes import until

CLASSES: Final = ("kata", "gvisor", "wasm")
DEFAULT: Final = "runtimeclass-extender/default-class"
TENANT: Final = "tenant"

#: What kube-apiserver says before the text of a policy.
PREFIX: Final = re.compile(
    r"pods \"p\" is forbidden: ValidatingAdmissionPolicy 'runtimeclass-extender-[a-z-]+'"
    r" with binding 'runtimeclass-extender-[a-z-]+' denied request: "
)


@pytest.fixture
def where(beside: Cluster) -> Cluster:
    for name in CLASSES:
        beside.add_class(name, name)
    return beside


def enforced(where: Cluster, folder: str) -> AbstractContextManager[None]:
    """A folder whose rule of one namespace is looked at until it is in force."""
    rule = {"allowed-classes": {ALLOWED: ""}, "required-class": {REQUIRED: "true"}}[folder]
    probe = f"probe-{folder}"
    add_namespace(where, probe, rule)
    named: Json = {"runtimeClassName": "kata"} if folder == "allowed-classes" else {}
    return applied(where, folder, lambda: ask(where, probe, **named).status == 403)


@pytest.fixture
def both(where: Cluster) -> Iterator[Cluster]:
    with enforced(where, "allowed-classes"), enforced(where, "required-class"):
        yield where


def refusal(where: Cluster, namespace: str, **spec: Any) -> str:
    """Why a pod is refused, in the words of the policy; "" for one that is let in."""
    answer = ask(where, namespace, **spec)
    if answer.status == 201:
        return ""
    text, count = PREFIX.subn("", answer.refusal)
    assert count == 1, answer.refusal
    return text


def test_the_api_server_refuses_what_our_own_rules_refuse_and_says_the_same(both: Cluster) -> None:
    answers = {}
    for number, case in enumerate(CASES):
        annotations, name, _ = case.values
        namespace = add_namespace(both, f"case-{number}", annotations)
        named = {"runtimeClassName": name} if name else {}
        ours = rules_of(namespace, annotations).refusal(str(name or ""))
        answers[case.id] = refusal(both, namespace, **named), ours
    assert len(answers) == len(CASES)
    assert {key: pair for key, pair in answers.items() if pair[0] != pair[1]} == {}


def test_the_cluster_itself_and_mirror_pods_are_never_refused(both: Cluster) -> None:
    rules = {ALLOWED: "", REQUIRED: "true"}
    path = f"{NAMESPACES}/kube-system"
    both.patch(path, {"metadata": {"annotations": rules}})
    try:
        assert refusal(both, "kube-system") == ""
        assert refusal(both, "kube-system", runtimeClassName="kata") == ""
    finally:
        both.patch(path, {"metadata": {"annotations": dict.fromkeys(rules)}})
    namespace = add_namespace(both, "static-pods", rules)
    mirror = {"kubernetes.io/config.mirror": "x"}
    assert ask(both, namespace, annotations=mirror, nodeName="n1").status == 201
    assert ask(both, namespace, nodeName="n1").status == 403


def workloads(pod: Json, **metadata: Any) -> Iterator[tuple[str, Json]]:
    """(path below the namespace's, object) of each kind that has a template."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels, **metadata}, "spec": pod}
    never: Json = {**template, "spec": {**pod, "restartPolicy": "Never"}}
    selector = {"matchLabels": labels}
    named = {"metadata": {"name": "web"}}
    spec: Json = {"selector": selector, "template": template}
    job: Json = {"template": never}
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    yield "apps/v1 deployments", {**named, "spec": spec}
    yield "apps/v1 replicasets", {**named, "spec": spec}
    yield "apps/v1 daemonsets", {**named, "spec": spec}
    yield "apps/v1 statefulsets", {**named, "spec": {**spec, "serviceName": "web"}}
    yield "batch/v1 jobs", {**named, "spec": job}
    yield "batch/v1 cronjobs", {**named, "spec": cron}
    yield "v1 replicationcontrollers", {**named, "spec": {**spec, "selector": labels}}
    yield "v1 podtemplates", {**named, "template": template}


def post(where: Cluster, namespace: str, kind: str, document: Json) -> tuple[str, ...]:
    """The warnings of a server dry run that takes the workload."""
    version, resource = kind.split()
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    path = f"{root}/namespaces/{namespace}/{resource}?dryRun=All"
    status, answer = where.request("POST", path, document)
    assert status == 201, answer
    return where.warnings


def pod_spec(**spec: Any) -> Json:
    return {"containers": [{"name": "c", "image": "i"}], **spec}


def test_what_a_controller_makes_of_a_workload_is_not_warned_about_again(both: Cluster) -> None:
    namespace = add_namespace(both, "owned", {REQUIRED: "true"})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1"}
    replica_set = dict(workloads(pod_spec()))["apps/v1 replicasets"]
    for reference, warned in ({**owner, "controller": True}, 0), (owner, 1):
        replica_set["metadata"]["ownerReferences"] = [reference]
        assert len(post(both, namespace, "apps/v1 replicasets", replica_set)) == warned


@cases
def test_a_workload_is_let_in_with_a_warning_about_its_pods(
    short: Json, spec: Json, warning: str, both: Cluster
) -> None:
    """short: the annotations of a namespace without their prefix."""
    rules = {f"{RULES}{key}": value for key, value in short.items()}
    namespace = add_namespace(both, f"templates-{len(rules)}-{rules.get(DEFAULT, 'no')}", rules)
    for kind, workload in workloads(pod_spec(**spec)):
        told = post(both, namespace, kind, workload)
        assert [warning in each for each in told] == ([True] if warning else []), (kind, told)


def test_a_template_that_opts_out_of_the_default_is_warned_about(both: Cluster) -> None:
    namespace = add_namespace(both, "opted-out", {REQUIRED: "true", DEFAULT: "kata"})
    for kind, workload in workloads(pod_spec(), annotations={DEFAULT: "false"}):
        assert len(post(both, namespace, kind, workload)) == 1, kind


@pytest.mark.parametrize(
    ("size", "said"),
    [
        pytest.param(100, '"class-0", "class-1"', id="100"),
        # The text would be too long for kube-apiserver, which takes the policy's short one.
        pytest.param(3000, "allowed-classes does not allow this RuntimeClass", id="3000"),
    ],
)
def test_no_policy_comes_near_the_limit_of_what_an_expression_may_cost(
    both: Cluster, size: int, said: str
) -> None:
    """100 containers are a large pod; that 3,000 pass too says how far the limit is."""
    names = ", ".join(f"class-{index}" for index in range(size))
    namespace = add_namespace(both, f"costs-{size}", {ALLOWED: f"{names}, kata"})
    many = [{"name": f"c{index}", "image": "i"} for index in range(size)]
    answer = ask(both, namespace, containers=many, runtimeClassName="kata")
    assert answer.status == 201, answer.document
    assert said in refusal(both, namespace, runtimeClassName="wasm")


# Who may change the annotations


@pytest.fixture
def guarded(beside: Cluster) -> Iterator[Cluster]:
    """With a tenant who may change Namespaces."""
    resources = "namespaces,namespaces/status,namespaces/finalize"
    beside.make(
        "clusterrole", "namespaces", "--verb=create,update,patch", f"--resource={resources}"
    )
    beside.make("clusterrolebinding", "namespaces", "--clusterrole=namespaces", f"--user={TENANT}")
    dry_run = f"{NAMESPACES}?dryRun=All"
    probe = {"metadata": {"name": "guard-probe", "annotations": {REQUIRED: "true"}}}

    def is_in_force() -> bool:
        return beside.request("POST", dry_run, probe, user=TENANT)[0] == 403

    until(lambda: beside.request("POST", dry_run, probe, user=TENANT)[0] == 201)
    with applied(beside, "guard", is_in_force):
        yield beside


def change(where: Cluster, name: str, patch: Json, part: str = "", user: str = TENANT) -> int:
    path = f"{NAMESPACES}/{name}{part}?dryRun=All"
    status, answer = where.request("PATCH", path, patch, "application/merge-patch+json", user)
    assert status == 200 or 'verb "assign" on runtimeclasses.node.k8s.io' in answer["message"]
    return status


def test_a_tenant_who_may_change_namespaces_may_not_change_their_rules(guarded: Cluster) -> None:
    rules = {ALLOWED: "kata", REQUIRED: "true", DEFAULT: "kata"}
    namespace = add_namespace(guarded, "guarded", rules)
    for key in rules:
        for value in ("gvisor", None):
            patch = {"metadata": {"annotations": {key: value}}}
            for part in ("", "/status"):
                assert change(guarded, namespace, patch, part) == 403, (key, value, part)
            assert change(guarded, namespace, patch, user="") == 200
    bare = add_namespace(guarded, "guarded-bare", {})
    assert change(guarded, bare, {"metadata": {"annotations": {ALLOWED: ""}}}) == 403
    assert change(guarded, bare, {"metadata": {"labels": {DEFAULT: "enabled"}}}) == 403
    assert change(guarded, namespace, {"metadata": {"annotations": {"other": "x"}}}) == 200
    assert change(guarded, namespace, {"metadata": {"labels": {"other": "x"}}}) == 200


def test_annotations_can_not_be_changed_by_way_of_finalizers_either(guarded: Cluster) -> None:
    namespace = add_namespace(guarded, "guarded-finalize", {ALLOWED: "kata"})
    document = guarded.get(f"{NAMESPACES}/{namespace}")
    path = f"{NAMESPACES}/{namespace}/finalize?dryRun=All"
    assert guarded.request("PUT", path, document, user=TENANT)[0] == 200
    document["metadata"]["annotations"] = {}
    status, answer = guarded.request("PUT", path, document, user=TENANT)
    assert (status, "assign" in answer["message"]) == (403, True)


def test_a_tenant_may_make_a_namespace_without_rules_only(guarded: Cluster) -> None:
    def create(annotations: Json, user: str) -> int:
        document = {"metadata": {"name": "new", "annotations": annotations}}
        return guarded.request("POST", f"{NAMESPACES}?dryRun=All", document, user=user)[0]

    assert create({"other": "x"}, TENANT) == 201
    assert create({ALLOWED: "*"}, TENANT) == 403
    assert create({ALLOWED: "*"}, "") == 201


def test_whoever_is_bound_to_the_role_may_change_the_rules(guarded: Cluster) -> None:
    namespace = add_namespace(guarded, "assigned", {ALLOWED: "kata"})
    patch = {"metadata": {"annotations": {ALLOWED: "gvisor"}}}
    assert change(guarded, namespace, patch) == 403
    guarded.make(
        "clusterrolebinding", "assigner", "--clusterrole=runtimeclass-assigner", f"--user={TENANT}"
    )
    try:
        until(lambda: change(guarded, namespace, patch) == 200)
    finally:
        guarded.kubectl("delete", "clusterrolebinding", "assigner")


# A cold start


def test_the_cluster_s_own_pods_wait_for_no_policy_when_the_api_server_starts(
    beside: Cluster,
) -> None:
    folders = ["allowed-classes", "required-class", "guard"]
    if has_mutating_policies(beside):
        folders += ["default-class", "mark"]
    namespace = add_namespace(beside, "cold", {})
    with ExitStack() as stack:
        for folder in folders:
            text = printed(POLICIES / folder)
            beside.apply(text)
            stack.callback(beside.kubectl, "delete", "-f", "-", stdin=text)
        beside.restart_apiserver()
        refused: dict[str, set[str]] = {"kube-system": set(), namespace: set()}

        def all_are_let_in() -> bool:
            done = True
            for each, texts in refused.items():
                try:
                    answer = ask(beside, each)
                except OSError:
                    return False
                if answer.status != 201:
                    texts.add(str(answer.document.get("message")))
                    done = False
            return done

        until(all_are_let_in, 60.0)
        print(refused)
        ours = ("runtimeclass-extender", "Resource kind")
        assert not [each for each in refused["kube-system"] if any(word in each for word in ours)]
