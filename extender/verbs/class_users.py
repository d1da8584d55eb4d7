"""What uses a RuntimeClass: pods, the templates that make them, and the defaults that name it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from extender.admission.default_class import is_default
from extender.admission.namespace_rules import DEFAULT_ANNOTATION
from extender.objects import Namespace, RuntimeClass
from extender.using_objects import PlacedPod, Workload


class User(NamedTuple):
    """An object that uses a class; namespace is empty for cluster-scoped ones."""

    kind: str
    namespace: str
    name: str


def users_of(
    name: str,
    runtime_class: RuntimeClass | None,
    pods: Iterable[PlacedPod],
    workloads: Iterable[Workload],
    namespaces: Mapping[str, Namespace],
) -> Iterator[User]:
    """Workloads, then namespaces and the class itself as defaults, then pods.

    Objects that will make no pod again are left out: pods and Jobs that have ended, and the
    revisions that a Deployment keeps for a rollback. namespaces: by name.
    """
    yield from workloads_naming(name, workloads)
    yield from defaults_naming(name, runtime_class, namespaces)
    for pod in pods:
        if pod.runtime_class_name == name and not pod.finished:
            yield User("Pod", pod.namespace, pod.name)


def workloads_naming(name: str, workloads: Iterable[Workload]) -> Iterator[User]:
    for each in sorted(workloads):
        if each.runtime_class_name == name and not each.is_past:
            yield User(each.kind, each.namespace, each.name)


def defaults_naming(
    name: str, runtime_class: RuntimeClass | None, namespaces: Mapping[str, Namespace]
) -> Iterator[User]:
    """The namespaces that give the class to their pods, and the class as the cluster's default."""
    for namespace, (annotations, _) in sorted(namespaces.items()):
        if annotations.get(DEFAULT_ANNOTATION) == name:
            yield User("Namespace", "", namespace)
    if runtime_class is not None and is_default(runtime_class):
        yield User("RuntimeClass", "", name)
