"""The webhook's decision: the changes to a pod that is created, or why it is refused.

The rules are those of the in-tree admission plugin RuntimeClass (admission.merging), of the default
classes (admission.default_class), and of the classes that fit (verbs.fitting_classes).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Final

from extender.admission.default_class import (
    cluster_default,
    origin_of_default,
    takes_default,
)
from extender.admission.json_patch import encode_patch, patch
from extender.admission.marking import mark
from extender.admission.merging import (
    AdmissionRefusal,
    Changes,
    Merge,
    mutate,
    not_found,
    refused_for,
    unsupported,
    validate,
)
from extender.admission.namespace_rules import NamespaceRules
from extender.admission.review_request import AdmissionRequest
from extender.admission.reviewed_pod import MIRROR_ANNOTATION, ReviewedPod
from extender.decoding.class_annotations import ISOLATION_ANNOTATION, ISOLATION_LEVELS, UNSUPPORTED
from extender.decoding.decoder import DecodeError
from extender.objects import MARK, RuntimeClass
from extender.predicates.node_checks import Policy
from extender.reasons import shown
from extender.undecided_errors import UndecidedError, WouldWaitError, not_synced
from extender.verbs.class_lookup import (
    RuntimeClassLookup,
    SnapshotSource,
    find_class,
)
from extender.verbs.explain.effort import Effort, TooMuchEffortError
from extender.verbs.fitting_classes import best, fit, why_none

#: A pod that bypassed the mutating webhook is admitted all the same.
_UNMARKED: Final = (
    f"the pod has a RuntimeClass and its first container does not ask for {MARK}: kube-scheduler"
    " does not ask the RuntimeClass extender about it"
)


#: The extender's defaults, since the webhook has no flags for matching.
_POLICY: Final = Policy()


#: About two seconds for a pod; kube-apiserver waits ten.
MAX_FIT_EFFORT: Final = 2_000_000


#: The rules of a Namespace by its name. Raises UndecidedError while they are not known.
RulesOfNamespaces = Callable[[str], NamespaceRules]


class Operation(StrEnum):
    """The operation of a review; also the label of the metrics."""

    MUTATE = "mutate"
    VALIDATE = "validate"


class Outcome(StrEnum):
    """How a review ended; the label of the metric."""

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
    """An AdmissionResponse without its uid. marked: the patch marks the pod."""

    outcome: Outcome
    patch: bytes = b""
    message: str = ""
    code: HTTPStatus = HTTPStatus.OK
    warnings: tuple[str, ...] = ()
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """A class that was given to a pod that names none.

    origin: the object that gives it. refusal: why the pod can't have it; "" where it can.
    by_default: the pod has not asked for a class.
    """

    name: str
    origin: str
    refusal: str
    warnings: tuple[str, ...] = ()
    by_default: bool = True


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Decides reviews. Used by all request threads at once.

    namespace_rules is None where pods without a class stay without one. on_default is called with
    each cluster default that was found: what is wrong with it, or "".
    marks_pods: pods with a class are marked (admission.marking). fits: a pod that asks for an
    isolation by annotation gets the best class of it, for which the source must have nodes.
    gives_default: pods that ask for nothing get the default class.
    """

    source: SnapshotSource
    merge: Merge
    lookup: RuntimeClassLookup
    namespace_rules: RulesOfNamespaces | None
    on_default: Callable[[str], None]
    marks_pods: bool = False
    unsupported: Unsupported = Unsupported.WARN
    fits: bool = False
    gives_default: bool = True

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
            given = self.fitted_class(pod, namespace, patient)
            if given is None and self.gives_default:
                given = self._default_class(pod, namespace)
            if given is None:
                return Answer(Outcome.SKIPPED)
            name, warnings = given.name, given.warnings
        # If the pod can't have the class, there is no need to look it up.
        may_have = given is None or not given.refusal
        runtime_class = self._runtime_class(name, patient) if may_have else None
        changes = self._changes(pod, name, runtime_class, given)
        if isinstance(changes, AdmissionRefusal):
            if given is not None and given.by_default:
                warnings = (*warnings, f'RuntimeClass "{name}" was given to the pod by default')
            if given is not None and name:
                # The author of the pod may never have heard of the class.
                changes = AdmissionRefusal(f"{changes.text} ({given.origin})")
            return _refused(changes, warnings)
        warnings = (*warnings, *self._warnings(pod, runtime_class))
        operations = patch(pod, replace(changes, runtime_class_name=given.name if given else None))
        marks = mark(pod) if self.marks_pods else []
        if not (operations or marks):
            return Answer(Outcome.ALLOWED, warnings=warnings)
        encoded = encode_patch([*operations, *marks])
        return Answer(Outcome.PATCHED, patch=encoded, warnings=warnings, marked=bool(marks))

    def _changes(
        self,
        pod: ReviewedPod,
        name: str,
        runtime_class: RuntimeClass | None,
        given: Given | None,
    ) -> Changes | AdmissionRefusal:
        if given is not None and given.refusal:
            return refused_for([given.refusal])
        if runtime_class is None:
            return not_found(name)
        return self._denial(pod, runtime_class) or mutate(pod, runtime_class, self.merge)

    def _unsupported(self, pod: ReviewedPod, runtime_class: RuntimeClass | None) -> Sequence[str]:
        """The features that the pod uses and its class does not support."""
        if runtime_class is None or runtime_class.rules is None:
            return ()
        rules = runtime_class.rules
        if not (rules.unsupported or rules.has_fault(UNSUPPORTED)):
            return ()
        return unsupported(pod.uses(), runtime_class)

    def _denial(self, pod: ReviewedPod, runtime_class: RuntimeClass) -> AdmissionRefusal | None:
        if self.unsupported is not Unsupported.DENY:
            return None
        texts = self._unsupported(pod, runtime_class)
        return refused_for(texts) if texts else None

    def _warnings(self, pod: ReviewedPod, runtime_class: RuntimeClass | None) -> Sequence[str]:
        if self.unsupported is not Unsupported.WARN:
            return ()
        return self._unsupported(pod, runtime_class)

    def _validate(self, pod: ReviewedPod, patient: bool) -> Answer:
        name = pod.runtime_class_name
        runtime_class = None if name is None else self._runtime_class(name, patient)
        if name is not None and runtime_class is None:
            return _refused(not_found(name))
        refusal = validate(pod, runtime_class)
        if refusal is None and runtime_class is not None:
            refusal = self._denial(pod, runtime_class)
        if refusal is not None:
            return _refused(refusal)
        warnings = (*self._warnings(pod, runtime_class),)
        if name is not None and self.marks_pods and mark(pod):
            warnings = (*warnings, _UNMARKED)
        return Answer(Outcome.ALLOWED, warnings=warnings)

    def _runtime_class(self, name: str, patient: bool) -> RuntimeClass | None:
        """None when there is no such class. Raises UndecidedError."""
        return find_class(name, self.source.snapshot, self.lookup, patient=patient)

    def fitted_class(self, pod: ReviewedPod, namespace: str, patient: bool = True) -> Given | None:
        """The best class for a pod that asks for isolation and names none; None for any other.

        Raises UndecidedError, and unless patient WouldWaitError: every node is looked at for it.
        """
        if not self.fits or not pod.has_spec:
            return None
        annotations = pod.annotations()
        if ISOLATION_ANNOTATION not in annotations or MIRROR_ANNOTATION in annotations:
            return None
        level = annotations[ISOLATION_ANNOTATION].strip()
        origin = f"annotation {ISOLATION_ANNOTATION} of the pod"
        if level not in ISOLATION_LEVELS:
            levels = ", ".join(ISOLATION_LEVELS)
            said = f'isolation "{shown(level)}" of annotation {ISOLATION_ANNOTATION}'
            refusal = f"{said} is none of {levels}"
            return Given("", origin, refusal, by_default=False)
        if not patient:
            raise WouldWaitError
        snapshot = self.source.snapshot
        if not snapshot.is_synced:
            raise not_synced("RuntimeClasses and nodes")
        rules = None if self.namespace_rules is None else self.namespace_rules(namespace)
        try:
            found = fit(pod.explained(), snapshot, _POLICY, rules, level, Effort(MAX_FIT_EFFORT))
        except TooMuchEffortError:
            refusal = "the pod's node affinity and tolerations are too many to try on every node"
            return Given("", origin, refusal, by_default=False)
        chosen = best(found)
        if chosen is None:
            return Given("", origin, why_none(found, level), by_default=False)
        return Given(chosen.runtime_class.name, origin, "", by_default=False)

    def _default_class(self, pod: ReviewedPod, namespace: str) -> Given | None:
        """The class given to a pod that names none. Raises UndecidedError."""
        if self.namespace_rules is None or not takes_default(pod):
            return None
        rules = self.namespace_rules(namespace)
        origin = origin_of_default(namespace, rules.default)
        if rules.names_default:
            return Given(rules.default, origin, rules.refusal(rules.default))
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
        return Given(default.name, origin, rules.refusal(default.name), warnings)


def _refused(refusal: AdmissionRefusal, warnings: tuple[str, ...] = ()) -> Answer:
    return Answer(
        Outcome.REFUSED, message=refusal.text, code=HTTPStatus.FORBIDDEN, warnings=warnings
    )
