"""Puts the folders of scheduler-config/policies on a cluster, and asks what becomes of a pod."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from extender.kubernetes.namespaces import DEFAULT_ANNOTATION
from extender.kubernetes.versions import is_on
from tests.config.kustomize import printed
from tests.config.shipped import FOLDER
from tests.e2e.cluster import Cluster
from tests.fakes.apiserver import Json
from tests.processes import until

POLICIES: Final = FOLDER / "policies"
MARK: Final = "runtimeclass-extender/pod"

NAMESPACES: Final = "/api/v1/namespaces"
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"


OVERHEAD: Final = {"cpu": "250m", "memory": "160Mi"}
SELECTOR: Final = {"sandbox": "kata"}
TOLERATION: Final = {
    "key": "dedicated",
    "operator": "Equal",
    "value": "kata",
    "effect": "NoSchedule",
}
KATA: Final = {
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": OVERHEAD},
    "scheduling": {"nodeSelector": SELECTOR, "tolerations": [TOLERATION]},
}


@dataclass(frozen=True)
class Answer:
    """What the API server made of a pod, or why it did not take it."""

    status: int
    document: Json
    warnings: tuple[str, ...] = ()

    @property
    def spec(self) -> Json:
        assert self.status == 201, self.document
        spec: Json = self.document["spec"]
        return spec

    @property
    def runtime_class(self) -> str | None:
        return self.spec.get("runtimeClassName")

    @property
    def marks(self) -> list[tuple[str | None, str | None]]:
        """The mark among the requests and the limits of each container."""
        resources = [each.get("resources", {}) for each in self.spec["containers"]]
        return [
            (each.get("requests", {}).get(MARK), each.get("limits", {}).get(MARK))
            for each in resources
        ]

    @property
    def refusal(self) -> str:
        assert self.status in (403, 422), self.document
        return str(self.document["message"])


def add_namespace(where: Cluster, name: str, annotations: Mapping[str, str], **labels: str) -> str:
    """A new namespace, which stays until the cluster ends."""
    metadata = {"name": name, "labels": labels, "annotations": dict(annotations)}
    if where.request("GET", f"{NAMESPACES}/{name}")[0] == 404:
        where.create(NAMESPACES, {"metadata": metadata})
    return name


def ask(
    where: Cluster,
    namespace: str = "default",
    *,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Answer:
    """A server dry run of a pod."""
    pod = {
        "metadata": {"name": "p", "annotations": dict(annotations or {})},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    path = f"{NAMESPACES}/{namespace}/pods?dryRun=All"
    return Answer(*where.request("POST", path, pod))


def has_mutating_policies(where: Cluster) -> bool:
    """Whether the API server has MutatingAdmissionPolicy v1."""
    return where.request("GET", f"{ADMISSION}/mutatingadmissionpolicies")[0] == 200


def marking(where: Cluster) -> AbstractContextManager[None]:
    """The policy that marks pods."""
    return applied(where, "mark", lambda: ask(where, runtimeClassName="kata").marks[0][0] == "1")


def defaulting(where: Cluster) -> AbstractContextManager[None]:
    """The policy that gives pods the class of their namespace."""
    probe = add_namespace(where, "probe-default-class", {DEFAULT_ANNOTATION: "kata"})
    return applied(where, "default-class", lambda: ask(where, probe).runtime_class == "kata")


def needs_mutating_policies(where: Cluster) -> None:
    """Skips the test on versions that are known to have no MutatingAdmissionPolicy v1."""
    if not is_on("MutatingAdmissionPolicy", (1, where.minor)):
        pytest.skip("MutatingAdmissionPolicy is v1 since Kubernetes 1.36")
    assert has_mutating_policies(where)


@contextlib.contextmanager
def applied(where: Cluster, folder: str, is_in_force: Callable[[], bool]) -> Iterator[None]:
    """A folder as `kubectl kustomize` prints it, in force within; gone again afterwards.

    kube-apiserver takes up new policies once a second.
    """
    text = printed(POLICIES / folder)
    where.apply(text)
    try:
        until(is_in_force, 20.0)
        yield
    finally:
        where.kubectl("delete", "-f", "-", stdin=text)
        until(lambda: not is_in_force(), 20.0)
