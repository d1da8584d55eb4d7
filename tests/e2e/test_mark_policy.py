"""scheduler-config/policies/mark on a real kube-apiserver."""

from collections.abc import Iterator

import pytest

from extender.kubernetes.namespaces import DEFAULT_ANNOTATION
from tests.cases_file import cases
from tests.e2e import policies
from tests.e2e.cluster import Cluster
from tests.e2e.policies import KATA, MARK, add_namespace, ask, needs_mutating_policies
from tests.fakes.apiserver import RUNTIME_CLASSES, Json

MARKED = [("1", "1")]


@pytest.fixture
def where(either: Cluster) -> Cluster:
    needs_mutating_policies(either)
    either.create(RUNTIME_CLASSES, KATA)
    return either


@pytest.fixture
def marking(where: Cluster) -> Iterator[Cluster]:
    with policies.marking(where):
        yield where


def container(**resources: dict[str, str]) -> Json:
    return {"name": "c", "image": "i", "resources": resources}


@cases
def test_a_pod_of_a_class_keeps_its_resources_and_gets_the_mark(
    resources: dict[str, dict[str, str]], expected: dict[str, dict[str, str]], marking: Cluster
) -> None:
    spec = ask(marking, runtimeClassName="kata", containers=[container(**resources)]).spec
    assert spec["containers"][0]["resources"] == {
        key: {**entries, MARK: "1"} for key, entries in expected.items()
    }


def test_only_the_first_container_carries_the_mark(marking: Cluster) -> None:
    containers = [{"name": name, "image": "i"} for name in "abc"]
    answer = ask(
        marking,
        runtimeClassName="kata",
        containers=containers,
        initContainers=[{"name": "init", "image": "i"}],
    )
    assert answer.marks == [("1", "1"), (None, None), (None, None)]
    assert not answer.spec["initContainers"][0].get("resources")


def test_pods_without_a_class_and_those_that_have_a_node_stay_as_they_are(marking: Cluster) -> None:
    assert ask(marking).marks == [(None, None)]
    assert ask(marking, runtimeClassName="kata", nodeName="n1").marks == [(None, None)]


def test_a_pod_without_containers_is_refused_in_the_usual_words(marking: Cluster) -> None:
    for containers in ((), None):
        refusal = ask(marking, runtimeClassName="kata", containers=containers).refusal
        assert refusal == 'Pod "p" is invalid: spec.containers: Required value'


def test_a_marked_pod_asked_about_again_stays_as_it_is(marking: Cluster) -> None:
    once = ask(marking, runtimeClassName="kata").spec
    twice = ask(marking, **{key: once[key] for key in ("runtimeClassName", "containers")}).spec
    assert twice["containers"] == once["containers"]


def test_pods_of_the_cluster_itself_are_marked_when_they_name_a_class(marking: Cluster) -> None:
    assert ask(marking, "kube-system", runtimeClassName="kata").marks == MARKED
    assert ask(marking, "kube-system").marks == [(None, None)]


def test_a_default_class_is_marked_in_whichever_order_the_policies_are_called(
    where: Cluster,
) -> None:
    """kube-apiserver draws it by lot; the policy of the mark is asked again after the other."""
    namespace = add_namespace(where, "marked", {DEFAULT_ANNOTATION: "kata"})
    with policies.marking(where), policies.defaulting(where):
        answer = ask(where, namespace)
    assert (answer.runtime_class, answer.marks) == ("kata", MARKED)
