"""The default class of pods without a RuntimeClass, the mark of pods with one, policies' subjects.

The mark tells kube-scheduler which pods to ask the extender about: a pod with a RuntimeClass
requests 1 of an extended resource that no node has. kube-scheduler does not ask about pods without
a resource in managedResources (pkg/scheduler/extender.go, IsInterested). ignoredByScheduler hides
the mark from NodeResourcesFit (pkg/scheduler/scheduler.go, buildExtenders). The kubelet drops the
request (pkg/kubelet/lifecycle/predicate.go, removeMissingExtendedResources). All in v1.36.2.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Raw

from extender.admission.json_patch import Operation
from extender.admission.reviewed_pod import MIRROR_ANNOTATION, ReviewedPod
from extender.kubernetes.decoder import NULL, decode, nullable
from extender.kubernetes.namespaces import DEFAULT_ANNOTATION, NO_DEFAULT
from extender.kubernetes.pods import NO_METADATA, RawPodStatus
from extender.kubernetes.workloads import RawWorkload, template_of
from extender.model.objects import MARK, RuntimeClass

#: The mark's amount in a pod's requests and limits. Extended resources are whole numbers.
AMOUNT: Final = "1"


def mark(pod: ReviewedPod) -> list[Operation]:
    """The operations that mark the pod; empty if it is marked or bound. Raises DecodeError."""
    container = None if pod.has_node else pod.first_container()
    if container is None:
        return []
    path = ("spec", "containers", "0", "resources")
    resources = container.resources
    if resources is None:
        return [(path, {"requests": {MARK: AMOUNT}, "limits": {MARK: AMOUNT}})]
    operations: list[Operation] = []
    for each, amounts in ("requests", resources.requests), ("limits", resources.limits):
        if amounts is None:
            operations.append(((*path, each), {MARK: AMOUNT}))
        elif str(amounts.get(MARK)) != AMOUNT:
            operations.append(((*path, each, MARK), AMOUNT))
    return operations


#: On a RuntimeClass: "true" for the default class of the cluster.
IS_DEFAULT_ANNOTATION: Final = "runtimeclass-extender/is-default-class"


def is_default(runtime_class: RuntimeClass) -> bool:
    return runtime_class.annotations.get(IS_DEFAULT_ANNOTATION) == "true"


def cluster_default(runtime_classes: Iterable[RuntimeClass]) -> tuple[str, Sequence[str]] | None:
    """The default class, and a warning if several are annotated; None if there is none.

    The newest class wins; of equally old classes the first by name. Kubernetes does the same for
    StorageClasses (pkg/volume/util/storageclass.go, v1.36.2).
    """
    marked = sorted(filter(is_default, runtime_classes), key=lambda each: each.name)
    # RFC 3339 times in UTC without fractions can be compared as text.
    marked.sort(key=lambda each: each.creation_timestamp, reverse=True)
    if not marked:
        return None
    name, *others = [f'"{each.name}"' for each in marked]
    several = f"default RuntimeClass {name}: the newest of several, not {', '.join(others)}"
    return marked[0].name, [several] if others else []


def takes_default(pod: ReviewedPod) -> bool:
    """Whether a default class applies to a pod. Raises DecodeError."""
    return (
        pod.has_spec
        and pod.runtime_class_name is None
        and pod.annotations().get(DEFAULT_ANNOTATION) != NO_DEFAULT
        and not pod.shares_its_node()
    )


#: Namespaces that every policy skips, whatever their annotations.
EXEMPT_NAMESPACES: Final = frozenset({"kube-system"})


class Subject(NamedTuple):
    """What a namespace's policies check of a pod, or of a workload's template.

    runtime_class: "" if none is named. takes_default: whether a default class is then assigned.
    """

    kind: str
    namespace: str
    name: str
    runtime_class: str
    takes_default: bool


def subject_of(raw: Raw, kind: str) -> Subject | None:
    """None if policies skip the object, such as a Deployment's ReplicaSet. Raises DecodeError."""
    found = decode(raw, RawWorkload, kind)
    metadata = found.metadata or NO_METADATA
    namespace = metadata.namespace or "default"
    if kind == "Pod":
        pod = ReviewedPod(raw)
        status = nullable(found.status, RawPodStatus, "Pod.status")
        if MIRROR_ANNOTATION in pod.annotations() or (status and status.is_finished):
            return None
    else:
        if any(each.controller for each in metadata.owners(f"{kind}.metadata")):
            return None
        template = template_of(raw, kind)
        if template == NULL:
            return None
        pod = ReviewedPod(template)
    if namespace in EXEMPT_NAMESPACES:
        return None
    name = pod.runtime_class_name or ""
    return Subject(kind, namespace, metadata.name or "", name, takes_default(pod))
