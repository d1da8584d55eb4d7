"""What the policies of namespaces judge: pods that are created, and templates of such."""

from typing import Final, NamedTuple

from msgspec import Raw, Struct

from extender.admission.default_class import takes_default
from extender.admission.reviewed_pod import MIRROR_ANNOTATION, ReviewedPod
from extender.decoding.decoder import decode
from extender.decoding.workloads import RawWorkload, template_of

#: Namespaces that no policy looks at, whatever they are annotated with.
EXEMPT_NAMESPACES: Final = frozenset({"kube-system"})

_NULL: Final = Raw(b"null")
_FINISHED: Final = ("Succeeded", "Failed")


class Subject(NamedTuple):
    """A pod, or a workload for the pods of its template.

    runtime_class: "" where it names none. takes_default: then it is given a default class.
    """

    kind: str
    namespace: str
    name: str
    runtime_class: str
    takes_default: bool

    @property
    def key(self) -> tuple[str, str]:
        """(kind, NAMESPACE/NAME)"""
        return self.kind, f"{self.namespace}/{self.name}"


class _Owner(Struct):
    controller: bool | None = None


class _Metadata(Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    owner_references: list[_Owner | None] | None = None


class _Status(Struct):
    phase: str | None = None


class _Pod(Struct):
    metadata: _Metadata | None = None
    status: _Status | None = None


class _Workload(Struct):
    metadata: _Metadata | None = None


def pod_subject(raw: Raw) -> Subject | None:
    """None for a pod that no policy looks at, and one that will never run again.

    Raises DecodeError.
    """
    found = decode(raw, _Pod, "Pod")
    pod = ReviewedPod(raw)
    if MIRROR_ANNOTATION in pod.annotations():
        return None
    if found.status is not None and found.status.phase in _FINISHED:
        return None
    return _subject("Pod", found.metadata or _Metadata(), pod)


def template_subject(raw: Raw, kind: str) -> Subject | None:
    """None for what a controller makes of another template, and where no policy looks.

    Raises DecodeError.
    """
    metadata = decode(raw, _Workload, kind).metadata or _Metadata()
    if any(each is not None and each.controller for each in metadata.owner_references or ()):
        return None
    template, _ = template_of(decode(raw, RawWorkload, kind), kind)
    return None if template == _NULL else _subject(kind, metadata, ReviewedPod(template))


def _subject(kind: str, metadata: _Metadata, pod: ReviewedPod) -> Subject | None:
    namespace = metadata.namespace or "default"
    if namespace in EXEMPT_NAMESPACES:
        return None
    return Subject(
        kind, namespace, metadata.name or "", pod.runtime_class_name or "", takes_default(pod)
    )
