"""Workloads: the kinds that create pods from a template, and the pod that an object creates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from msgspec import Raw, Struct

from extender.kubernetes.decoder import NULL, DecodeError, ObjectMeta, decode, nullable
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.kinds import PODS, Kind
from extender.kubernetes.pods import NO_METADATA, RawPod, RawPodStatus
from extender.kubernetes.quantity import billionths
from extender.model.finding import Finding, error
from extender.model.objects import Pod
from extender.model.pod_needs import Toleration
from extender.model.reasons import shown
from extender.model.using_objects import Workload

DAEMON_SET: Final = "DaemonSet"

#: The kinds that create pods from a template.
WORKLOADS: Final = (
    Kind("CronJob", "batch", "cronjobs", "cj"),
    Kind(DAEMON_SET, "apps", "daemonsets", "ds"),
    Kind("Deployment", "apps", "deployments", "deploy"),
    Kind("Job", "batch", "jobs"),
    Kind("ReplicaSet", "apps", "replicasets", "rs"),
    Kind("ReplicationController", "", "replicationcontrollers", "rc"),
    Kind("StatefulSet", "apps", "statefulsets", "sts"),
)

#: A kind that has a template, but creates no pods by itself.
POD_TEMPLATE: Final = Kind("PodTemplate", "", "podtemplates")

#: The kinds of objects that are a pod or have a pod template, by name.
KINDS: Final = {each.name: each for each in (PODS, *WORKLOADS, POD_TEMPLATE)}

#: By kind, the path of the pod or the pod template in an object.
TEMPLATE_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(KINDS, ("spec", "template")),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    PODS.name: (),
    POD_TEMPLATE.name: ("template",),
}


def has_template(kind: str, group: str) -> bool:
    """Whether objects of a kind have a template. group: the API group in their apiVersion."""
    return kind != PODS.name and kind in KINDS and KINDS[kind].group == group


#: The tolerations that the DaemonSet controller adds to every pod, and to pods with hostNetwork
#: (pkg/controller/daemon/util/daemonset_util.go, AddOrUpdateDaemonPodTolerations, v1.36.2).
_DAEMON_TOLERATIONS: Final = tuple(
    Toleration(f"node.kubernetes.io/{key}", "Exists", "", effect)
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_ON_HOST_NETWORK: Final = Toleration(
    "node.kubernetes.io/network-unavailable", "Exists", "", "NoSchedule"
)


def with_daemon_tolerations(pod: Pod) -> Pod:
    """A pod from explained_pod with the tolerations that the DaemonSet controller adds."""
    on_host = (_ON_HOST_NETWORK,) if "hostNetwork" in (pod.uses or ()) else ()
    missing = [each for each in (*_DAEMON_TOLERATIONS, *on_host) if each not in pod.tolerations]
    return replace(pod, tolerations=(*pod.tolerations, *missing))


class RawWorkload(Struct):
    metadata: ObjectMeta | None = None
    spec: Raw = NULL
    status: Raw = NULL


class _Replicas(Struct):
    replicas: int | None = None


def template_of(document: Raw, kind: str) -> Raw:
    """The template of a workload, NULL if it has none. Raises DecodeError."""
    found, place = document, ""
    for step in TEMPLATE_PATHS[kind]:
        fields = nullable(found, dict[str, Raw], place) or {}
        found, place = fields.get(step, NULL), f"{place}.{step}"
    return found


def template_pod_of(document: Raw, kind: str) -> Pod:
    """The pod that a workload creates, under its name and namespace. Raises DecodeError."""
    metadata = decode(document, RawWorkload).metadata or NO_METADATA
    template, place = template_of(document, kind), ".".join(TEMPLATE_PATHS[kind])
    if template == NULL:
        raise DecodeError(f"{place}: missing")
    pod = explained_pod(template, place)
    if kind == DAEMON_SET:
        pod = with_daemon_tolerations(pod)
    return replace(pod, namespace=metadata.namespace or "", name=metadata.name or "", uid="")


def workload_of(document: Raw, kind: str) -> Workload:
    """The workload and the class of its template. Raises DecodeError."""
    workload = decode(document, RawWorkload, kind)
    metadata = workload.metadata or NO_METADATA
    template = nullable(template_of(document, kind), RawPod, ".".join(TEMPLATE_PATHS[kind]))
    named = template.spec.runtime_class_name if template and template.spec else None
    return Workload(
        kind,
        metadata.namespace or "default",
        metadata.name or "",
        named or "",
        _is_past(kind, workload, metadata),
        partial(template_pod_of, document, kind),
    )


def _is_past(kind: str, workload: RawWorkload, metadata: ObjectMeta) -> bool:
    if kind == "Job":
        # The conditions of Jobs and of pods have the same fields.
        status = nullable(workload.status, RawPodStatus, "Job.status") or RawPodStatus()
        return any(status.condition(kind, "True") for kind in ("Complete", "Failed"))
    if kind == "ReplicaSet":
        spec = nullable(workload.spec, _Replicas, "ReplicaSet.spec")
        is_kept = any(
            each.kind == "Deployment" and each.controller
            for each in metadata.owners("ReplicaSet.metadata")
        )
        return is_kept and spec is not None and spec.replicas == 0
    return False


#: The path of a finding: keys and indices within the object.
Place = tuple[str | int, ...]

Found = tuple[Finding, Place]


@dataclass(frozen=True, slots=True)
class Template:
    """The pod or pod template in an object: `pod` has metadata and spec, `place` is its path.

    namespace: the object's own, or the one in which it will be created. exempt: the rules of the
    namespace do not apply to the object (admission.defaults).
    """

    kind: str
    namespace: str
    name: str
    place: Place
    pod: dict[str, Any]
    exempt: bool = False

    @property
    def subject(self) -> str:
        return f"{self.kind} {shown(self.namespace)}/{shown(self.name)}"

    def spec(self, *path: str | int) -> Place:
        return (*self.place, "spec", *path)

    def asking(self, resource: str) -> Place:
        """The path of the largest request (all must be readable), else of the containers."""
        most, found = -1, self.spec("containers")
        for place, container in self._containers():
            resources = container.get("resources") or {}
            for field in ("requests", "limits"):
                amounts = resources.get(field) or {}
                if resource in amounts:
                    amount = billionths(str(amounts[resource] or 0).strip())
                    if amount > most:
                        most, found = amount, (*place, "resources", field, resource)
                    break
        return found

    def read_only_mount(self) -> Place:
        """The path of the first recursively read-only mount, else of the containers."""
        for place, container in self._containers():
            for index, mount in enumerate(container.get("volumeMounts") or ()):
                if isinstance(mount, dict) and mount.get("recursiveReadOnly") == "Enabled":
                    return (*place, "volumeMounts", index, "recursiveReadOnly")
        return self.spec("containers")

    def _containers(self) -> Iterator[tuple[Place, Mapping[str, Any]]]:
        spec = self.pod.get("spec") or {}
        for field in ("containers", "initContainers"):
            for index, each in enumerate(spec.get(field) or ()):
                if isinstance(each, dict):
                    yield self.spec(field, index), each


#: Misspellings of runtimeClassName, in lower case and without - and _.
_NEAR_MISSES: Final = frozenset(
    {
        *("runtimeclassname", "runtimeclassnames", "runtimeclass", "runtimeclasses"),
        *("runtimeclasname", "runtimclassname", "runtimclass", "runtimeclassnam"),
    }
)


def ignored_class(plain: dict[str, Any], kind: str) -> Iterator[Found]:
    """The fields that look meant for runtimeClassName in an object whose pods name no class.

    Such a field has a misspelt name or stands in the wrong place, anywhere from the top of the
    object down to its containers. kind: one of KINDS.
    """
    spec = (*TEMPLATE_PATHS[kind], "spec")
    around: list[tuple[Place, Any]] = []
    found: Any = plain
    for depth, step in enumerate((*spec, "containers")):
        around.append((spec[:depth], found))
        found = found.get(step) if isinstance(found, dict) else None
    containers = found if isinstance(found, list) else []
    around += (((*spec, "containers", index), each) for index, each in enumerate(containers))
    fields = [
        (*place, name)
        for place, each in around
        if isinstance(each, dict)
        for name, value in each.items()
        if value and name.casefold().replace("-", "").replace("_", "") in _NEAR_MISSES
    ]
    right = (*spec, "runtimeClassName")
    if right in fields:
        return
    meant = ".".join(right)
    for place in fields:
        yield (
            error(
                "class_ignored",
                f"Kubernetes knows no {shown('.'.join(map(str, place)))}; did you mean {meant}?",
                "the pods would run without the RuntimeClass: kube-apiserver drops fields that it"
                " does not know, unless the client asks for strict validation",
                f"write {meant}",
            ),
            place,
        )
