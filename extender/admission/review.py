"""The webhook's decision: the changes to a pod that is created, or why it is refused.

check -f and render use it for the pods in files.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Raw, Struct

from extender.admission.defaults import IS_DEFAULT_ANNOTATION, cluster_default, mark, takes_default
from extender.admission.fit import Given, asked_isolation, fitted_class
from extender.admission.json_patch import Json, apply, encode_patch
from extender.admission.json_patch import Operation as PatchOperation
from extender.admission.merging import REJECTED, Merge, mutate, not_found, validate
from extender.admission.reviewed_pod import ReviewedPod
from extender.kubernetes.class_annotations import PREFIX, UNSUPPORTED
from extender.kubernetes.decoder import NULL, DecodeError
from extender.kubernetes.explained_pods import uses_in
from extender.kubernetes.namespaces import DEFAULT_ANNOTATION, NamespaceRules
from extender.model.errors import UndecidedError, not_synced
from extender.model.objects import MARK, RuntimeClass
from extender.model.reasons import shown
from extender.rules.node_checks import unsupported_words
from extender.rules.snapshot import ClassLookup, SnapshotSource, find_class, no_lookup


class _Kind(Struct):
    group: str | None = None
    kind: str | None = None
    resource: str | None = None


class AdmissionRequest(Struct, rename="camel"):
    uid: str | None = None
    kind: _Kind | None = None
    resource: _Kind | None = None
    sub_resource: str | None = None
    operation: str | None = None
    namespace: str | None = None
    object: Raw = NULL

    @property
    def creates_pod(self) -> bool:
        """Whether the in-tree plugin handles the request: CREATE of a pod, not a subresource."""
        kind, resource = self.kind, self.resource
        return (
            self.operation == "CREATE"
            and not self.sub_resource
            and (resource is None or (not resource.group and resource.resource == "pods"))
            and (kind is None or (not kind.group and kind.kind == "Pod"))
        )

    @property
    def updates_class(self) -> bool:
        kind = self.kind or _Kind()
        is_class = (kind.group, kind.kind) == ("node.k8s.io", "RuntimeClass")
        return self.operation == "UPDATE" and not self.sub_resource and is_class


#: The warning about a pod that bypassed the mutating webhook. The pod is still admitted.
_UNMARKED: Final = (
    f"the pod has a RuntimeClass and its first container does not ask for {MARK}: kube-scheduler"
    " does not ask the RuntimeClass extender about it"
)

#: Looks up the rules of a Namespace by its name. Raises UndecidedError until they are synced.
RulesOfNamespaces = Callable[[str], NamespaceRules]


class Operation(StrEnum):
    """The operation of a review; also a label of the metrics."""

    MUTATE = "mutate"
    VALIDATE = "validate"


class Outcome(StrEnum):
    """How a review ended; also a label of the metric."""

    ALLOWED = "allowed"
    PATCHED = "patched"
    REFUSED = "refused"
    SKIPPED = "skipped"
    ERROR = "error"


class Unsupported(StrEnum):
    """--unsupported: whether a pod that uses something its class does not support is refused."""

    WARN = "warn"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Answer:
    """An AdmissionResponse without its uid."""

    outcome: Outcome
    patch: bytes = b""
    message: str = ""
    code: HTTPStatus = HTTPStatus.OK
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Admission:
    """The result of mutating a pod: the operations, or why it is refused.

    name: the class that the pod names or was given. runtime_class: None if there is no name, no
    such class, or if the given class is refused.
    """

    name: str | None = None
    given: Given | None = None
    runtime_class: RuntimeClass | None = None
    operations: Sequence[PatchOperation] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Decides reviews. All request threads use it at the same time.

    namespace_rules: None if pods get no default class. marks_pods: pods with a class are marked
    (admission.defaults). fits: a pod that asks for an isolation level by annotation gets the best
    class with at least that level, which needs nodes in the source. gives_default: other pods
    without a class get their namespace's default class. gives_cluster_default: they get the
    cluster's if the namespace names none. warns_of_impact: warnings about a RuntimeClass's update.
    """

    source: SnapshotSource
    merge: Merge = Merge.ALL
    lookup: ClassLookup = no_lookup
    namespace_rules: RulesOfNamespaces | None = None
    marks_pods: bool = False
    unsupported: Unsupported = Unsupported.WARN
    fits: bool = False
    gives_default: bool = True
    gives_cluster_default: bool = True
    warns_of_impact: Callable[[Raw], Iterable[str]] | None = None

    def review(self, operation: Operation, asked: AdmissionRequest) -> Answer:
        """The answer to a review, whatever it contains; may wait for the API server."""
        warns = self.warns_of_impact if asked.updates_class else None
        if not (asked.creates_pod or warns):
            return Answer(Outcome.SKIPPED)
        try:
            if warns:
                return Answer(Outcome.ALLOWED, warnings=tuple(warns(asked.object)))
            pod = ReviewedPod(asked.object)
            if operation is Operation.MUTATE:
                return self._mutate(pod, asked.namespace or "")
            return self._validate(pod)
        except DecodeError as error:
            return Answer(Outcome.ERROR, message=str(error), code=HTTPStatus.BAD_REQUEST)
        except UndecidedError as error:
            return Answer(Outcome.ERROR, message=str(error), code=HTTPStatus.SERVICE_UNAVAILABLE)

    def _mutate(self, pod: ReviewedPod, namespace: str) -> Answer:
        admission = self.admit(pod, namespace)
        name, given = admission.name, admission.given
        if name is None:
            return Answer(Outcome.SKIPPED)
        warnings = given.warnings if given else ()
        if admission.refusal:
            if given is not None and given.by_default:
                warnings = (*warnings, f'RuntimeClass "{name}" was given to the pod by default')
            return _refused(admission.refusal, warnings)
        if self.unsupported is Unsupported.WARN:
            warnings = (*warnings, *self._unsupported(pod, admission.runtime_class))
        marks = mark(pod) if self.marks_pods else []
        operations = [*admission.operations, *marks]
        if not operations:
            return Answer(Outcome.ALLOWED, warnings=warnings)
        encoded = encode_patch(operations)
        return Answer(Outcome.PATCHED, patch=encoded, warnings=warnings)

    def admit(self, pod: ReviewedPod, namespace: str) -> Admission:
        """The result of mutating a pod. Raises DecodeError and UndecidedError."""
        name, given = pod.runtime_class_name, None
        if name is None:
            given = self._fitted_class(pod, namespace)
            if given is None and self.gives_default:
                given = self._default_class(pod, namespace)
            if given is None:
                return Admission()
            name = given.name
        # A class that the pod can't have need not be looked up.
        runtime_class = None if given and given.refusal else self._runtime_class(name)
        refusal, operations = "", list[PatchOperation]()
        if given is not None and given.refusal:
            refusal = f"{REJECTED}{given.refusal}"
        elif runtime_class is None:
            refusal = not_found(name)
        else:
            changes = self._denial(pod, runtime_class) or mutate(pod, runtime_class, self.merge)
            if isinstance(changes, str):
                refusal = changes
            else:
                named = [(("spec", "runtimeClassName"), given.name)] if given else []
                operations = [*named, *changes]
        if refusal and given is not None and name:
            # The author of the pod may never have heard of the class.
            refusal = f"{refusal} ({given.origin})"
        return Admission(name, given, runtime_class, operations, refusal)

    def admitted(self, pod: Json, namespace: str) -> tuple[Admission, Json]:
        """The changed pod; the same object if unchanged or refused. Raises DecodeError."""
        admission = self.admit(ReviewedPod(_raw(pod)), namespace)
        if admission.refusal:
            return admission, pod
        admitted = pod
        if admission.operations:
            admitted = msgspec.json.decode(_raw(pod))
            apply(admitted, admission.operations)
        refusal = validate(ReviewedPod(_raw(admitted)), admission.runtime_class)
        return (replace(admission, refusal=refusal), pod) if refusal else (admission, admitted)

    def _denial(self, pod: ReviewedPod, runtime_class: RuntimeClass) -> str:
        """Why --unsupported deny refuses a pod; "" if it does not."""
        denies = self.unsupported is Unsupported.DENY
        texts = "; ".join(self._unsupported(pod, runtime_class)) if denies else ""
        return f"{REJECTED}{texts}" if texts else ""

    def _unsupported(self, pod: ReviewedPod, runtime_class: RuntimeClass | None) -> tuple[str, ...]:
        """A text for each feature that the pod uses and the class does not support."""
        if runtime_class is None or runtime_class.rules is None:
            return ()
        about = f'RuntimeClass "{runtime_class.name}"'
        if runtime_class.rules.has_fault(UNSUPPORTED):
            return (f"{about}: annotation {PREFIX}{UNSUPPORTED} can't be read",)
        if not runtime_class.rules.unsupported:
            return ()
        words = unsupported_words(uses_in(pod.raw), runtime_class)
        return tuple(f"{about}: {shown(word)} is unsupported" for word in words)

    def _validate(self, pod: ReviewedPod) -> Answer:
        name = pod.runtime_class_name
        runtime_class = None if name is None else self._runtime_class(name)
        if name is not None and runtime_class is None:
            return _refused(not_found(name))
        refusal = validate(pod, runtime_class)
        if runtime_class is not None:
            refusal = refusal or self._denial(pod, runtime_class)
        if refusal:
            return _refused(refusal)
        warnings = self._unsupported(pod, runtime_class)
        if name is not None and self.marks_pods and mark(pod):
            warnings = (*warnings, _UNMARKED)
        return Answer(Outcome.ALLOWED, warnings=warnings)

    def _runtime_class(self, name: str) -> RuntimeClass | None:
        """The class of a name; None if there is no such class. Raises UndecidedError."""
        return find_class(name, self.source.snapshot, self.lookup)

    def _fitted_class(self, pod: ReviewedPod, namespace: str) -> Given | None:
        """The class for a pod's isolation level. Slow: checks all nodes. Raises UndecidedError."""
        level = asked_isolation(pod) if self.fits else None
        if level is None:
            return None
        snapshot = self.source.snapshot
        if not snapshot.is_synced:
            raise not_synced("RuntimeClasses and nodes")
        rules = None if self.namespace_rules is None else self.namespace_rules(namespace)
        return fitted_class(pod, level, snapshot, rules)

    def _default_class(self, pod: ReviewedPod, namespace: str) -> Given | None:
        """The default class for a pod that names none. Raises UndecidedError."""
        if self.namespace_rules is None or not takes_default(pod):
            return None
        rules = self.namespace_rules(namespace)
        if rules.names_default:
            origin = f'annotation {DEFAULT_ANNOTATION} of namespace "{shown(namespace)}"'
            return Given(rules.default, origin, rules.refusal(rules.default))
        if rules.default or not self.gives_cluster_default:
            return None
        snapshot = self.source.snapshot
        if not snapshot.runtime_classes_synced:
            raise not_synced("RuntimeClasses")
        default = cluster_default(snapshot.runtime_classes.values())
        if default is None:
            return None
        name, warnings = default
        origin = f"annotation {IS_DEFAULT_ANNOTATION} of the RuntimeClass"
        return Given(name, origin, rules.refusal(name), tuple(warnings))


def _refused(refusal: str, warnings: tuple[str, ...] = ()) -> Answer:
    code = HTTPStatus.FORBIDDEN
    return Answer(Outcome.REFUSED, message=refusal, code=code, warnings=warnings)


def _raw(pod: Json) -> Raw:
    return Raw(msgspec.json.encode(pod))
