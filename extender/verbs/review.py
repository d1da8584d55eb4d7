"""The webhook's decision: what is done to a pod that is created, or why it is refused.

The rules are those of the in-tree admission plugin RuntimeClass (admission.merging), and of the
default classes (admission.default_class).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Final, Protocol

from extender.admission.default_class import (
    cluster_default,
    origin_of_default,
    takes_default,
)
from extender.admission.json_patch import encode_patch, patch
from extender.admission.marking import mark
from extender.admission.merging import AdmissionRefusal, Changes, Merge, mutate, not_found, validate
from extender.admission.namespace_rules import NamespaceRules
from extender.admission.pod import ReviewedPod
from extender.admission.request import AdmissionRequest
from extender.decoding import DecodeError
from extender.objects import MARK, RuntimeClass
from extender.undecided import UndecidedError, not_synced
from extender.verbs.class_lookup import (
    RuntimeClassLookup,
    SnapshotSource,
    find_class,
)

#: A pod that came past the mutating webhook is let in all the same.
_UNMARKED: Final = (
    f"the pod has a RuntimeClass and its first container does not ask for {MARK}: kube-scheduler"
    " does not ask the RuntimeClass extender about it"
)


class RulesOfNamespaces(Protocol):
    """Knows the rules of Namespaces."""

    def __call__(self, namespace: str) -> NamespaceRules:
        """Raises UndecidedError while they are not known."""


class Operation(StrEnum):
    """What a review is for; also the label of the metrics."""

    MUTATE = "mutate"
    VALIDATE = "validate"


class Outcome(StrEnum):
    """How a review ended; the label of the metric."""

    ALLOWED = "allowed"
    PATCHED = "patched"
    REFUSED = "refused"
    SKIPPED = "skipped"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Answer:
    """An AdmissionResponse without its uid. marked: the patch marks the pod."""

    outcome: Outcome
    patch: bytes = b""
    message: str = ""
    code: HTTPStatus = HTTPStatus.OK
    warnings: tuple[str, ...] = ()
    marked: bool = False


@dataclass(frozen=True, slots=True)
class _Given:
    """A class that was given to a pod that names none.

    origin: what gives it. refusal: why the pod can't have it; "" where it can.
    """

    name: str
    origin: str
    refusal: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Decides reviews. Used by all request threads at once.

    namespace_rules is None where pods without a class stay without one. on_default is called with
    each cluster default that was found: what is wrong with it, or "".
    marks_pods: pods with a class are marked (admission.marking).
    """

    source: SnapshotSource
    merge: Merge
    lookup: RuntimeClassLookup
    namespace_rules: RulesOfNamespaces | None
    on_default: Callable[[str], None]
    marks_pods: bool = False

    def review(
        self, operation: Operation, asked: AdmissionRequest, *, patient: bool = True
    ) -> Answer:
        """The answer to a review, whatever it contains.

        Unless patient, it raises WouldWaitError where the API server has to be asked.
        """
        if not asked.creates_pod:
            return Answer(Outcome.SKIPPED)
        try:
            pod = ReviewedPod(asked.object)
            if operation is Operation.MUTATE:
                return self._mutate(pod, asked.namespace or "", patient)
            return self._validate(pod, patient)
        except DecodeError as error:
            return Answer(Outcome.ERROR, message=str(error), code=HTTPStatus.BAD_REQUEST)
        except UndecidedError as error:
            return Answer(Outcome.ERROR, message=str(error), code=HTTPStatus.SERVICE_UNAVAILABLE)

    def _mutate(self, pod: ReviewedPod, namespace: str, patient: bool) -> Answer:
        name, given = pod.runtime_class_name, None
        warnings: tuple[str, ...] = ()
        if name is None:
            given = self._default_class(pod, namespace)
            if given is None:
                return Answer(Outcome.SKIPPED)
            name, warnings = given.name, given.warnings
        changes = self._changes(pod, name, given, patient)
        if isinstance(changes, AdmissionRefusal):
            if given is not None:
                warnings = (*warnings, f'RuntimeClass "{name}" was given to the pod by default')
                # The author of the pod may never have heard of the class.
                changes = AdmissionRefusal(f"{changes.text} ({given.origin})")
            return _refused(changes, warnings)
        operations = patch(pod, replace(changes, runtime_class_name=given.name if given else None))
        marks = mark(pod) if self.marks_pods else []
        if not (operations or marks):
            return Answer(Outcome.ALLOWED)
        encoded = encode_patch([*operations, *marks])
        return Answer(Outcome.PATCHED, patch=encoded, warnings=warnings, marked=bool(marks))

    def _changes(
        self, pod: ReviewedPod, name: str, given: _Given | None, patient: bool
    ) -> Changes | AdmissionRefusal:
        if given is not None and given.refusal:
            return AdmissionRefusal(f"pod rejected: {given.refusal}")
        runtime_class = self._runtime_class(name, patient)
        return not_found(name) if runtime_class is None else mutate(pod, runtime_class, self.merge)

    def _validate(self, pod: ReviewedPod, patient: bool) -> Answer:
        name = pod.runtime_class_name
        runtime_class = None if name is None else self._runtime_class(name, patient)
        if name is not None and runtime_class is None:
            return _refused(not_found(name))
        refusal = validate(pod, runtime_class)
        if refusal is not None:
            return _refused(refusal)
        if name is not None and self.marks_pods and mark(pod):
            return Answer(Outcome.ALLOWED, warnings=(_UNMARKED,))
        return Answer(Outcome.ALLOWED)

    def _runtime_class(self, name: str, patient: bool) -> RuntimeClass | None:
        """None when there is no such class. Raises UndecidedError."""
        return find_class(name, self.source.snapshot, self.lookup, patient=patient)

    def _default_class(self, pod: ReviewedPod, namespace: str) -> _Given | None:
        """The class given to a pod that names none. Raises UndecidedError."""
        if self.namespace_rules is None or not takes_default(pod):
            return None
        rules = self.namespace_rules(namespace)
        origin = origin_of_default(namespace, rules.default)
        if rules.names_default:
            return _Given(rules.default, origin, rules.refusal(rules.default))
        if rules.default:
            return None
        snapshot = self.source.snapshot
        if not snapshot.runtime_classes_synced:
            raise not_synced("RuntimeClasses")
        default = cluster_default(snapshot.runtime_classes.values())
        if default is None:
            return None
        self.on_default(default.warning)
        warnings = (default.warning,) if default.warning else ()
        return _Given(default.name, origin, rules.refusal(default.name), warnings)


def _refused(refusal: AdmissionRefusal, warnings: tuple[str, ...] = ()) -> Answer:
    return Answer(
        Outcome.REFUSED, message=refusal.text, code=HTTPStatus.FORBIDDEN, warnings=warnings
    )
