"""The RuntimeClass of pods that name none, the mark of pods that name one, and policies' subjects.

The mark tells kube-scheduler which pods to ask the extender about: a pod that names a RuntimeClass
asks for one of an extended resource that no node has. Pods that lack what managedResources name are
never asked about (pkg/scheduler/extender.go, IsInterested), ignoredByScheduler keeps the mark
out of NodeResourcesFit (pkg/scheduler/scheduler.go, buildExtenders), and the kubelet drops the
request (pkg/kubelet/lifecycle/predicate.go, removeMissingExtendedResources). All of v1.36.2.
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

#: How much of the mark a pod requests and is limited to: extended resources are whole numbers.
AMOUNT: Final = "1"


def mark(pod: ReviewedPod) -> list[Operation]:
    """The operations that mark the pod; empty where it is marked or bound. Raises DecodeError."""
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


#: On a RuntimeClass: the default of the cluster.
IS_DEFAULT_ANNOTATION: Final = "runtimeclass-extender/is-default-class"


def is_default(runtime_class: RuntimeClass) -> bool:
    return runtime_class.annotations.get(IS_DEFAULT_ANNOTATION) == "true"


def cluster_default(runtime_classes: Iterable[RuntimeClass]) -> tuple[str, Sequence[str]] | None:
    """The newest marked class, of equally old ones the first by name; and warnings of several.

    As with StorageClasses (pkg/volume/util/storageclass.go, v1.36.2).
    """
    marked = sorted(filter(is_default, runtime_classes), key=lambda each: each.name)
    # RFC 3339 in UTC without fractions compares as text.
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


#: Namespaces that no policy looks at, whatever they are annotated with.
EXEMPT_NAMESPACES: Final = frozenset({"kube-system"})


class Subject(NamedTuple):
    """A pod, or a workload for the pods of its template, as a namespace's policies judge it.

    runtime_class: "" where it names none. takes_default: then it is given a default class.
    """

    kind: str
    namespace: str
    name: str
    runtime_class: str
    takes_default: bool


def subject_of(raw: Raw, kind: str) -> Subject | None:
    """None for what no policy looks at, such as what a controller made. Raises DecodeError."""
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
