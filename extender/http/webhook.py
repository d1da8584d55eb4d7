"""The RuntimeClass admission webhook: review → decision → answer.

A body that is no AdmissionReview is a 400. Whatever stands in a review that can be read is
answered with a 200 and the review's uid.
"""

import logging
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Final, Protocol

from extender.admission.default_class import (
    NO_DEFAULT,
    ClusterDefault,
    cluster_default,
    origin_of_default,
    takes_default,
)
from extender.admission.json_patch import encode_patch, patch
from extender.admission.merging import Merge, Refusal, mutate, not_found, validate
from extender.admission.pod import ReviewedPod
from extender.decoding import DecodeError
from extender.http.health import Health
from extender.http.review import (
    AdmissionRequest,
    Answer,
    Outcome,
    decode_review,
    encode_answer,
)
from extender.http.routing import Route, Threads, VerbRoute
from extender.http.service import RuntimeClassLookup, SnapshotSource, no_lookup
from extender.metrics import Metrics
from extender.objects import RuntimeClass
from extender.undecided import ERROR_PREFIX, UndecidedError, WouldWaitError
from extender.verdict import shown

_LOG: Final = logging.getLogger(__name__)

#: A request to kube-apiserver is 3 MiB at most; a review holds the object, which grows by
#: defaulting, and for an update the old one too.
DEFAULT_MAX_REVIEW_BYTES: Final = 8 * 2**20


class NamespaceAnnotation(Protocol):
    """Knows the Namespaces' default classes."""

    def __call__(self, namespace: str) -> str | None:
        """The namespace's annotation runtimeclass-extender/default-class; None without one.

        Raises UndecidedError while it is not known.
        """


class Operation(StrEnum):
    """What kube-apiserver asks for; also the label of the metrics."""

    MUTATE = "mutate"
    VALIDATE = "validate"


@dataclass(frozen=True, slots=True)
class WebhookService:
    """Everything a route of the webhook may use, made once by the server.

    namespace_annotation is None where pods without a class stay without one.
    """

    source: SnapshotSource
    metrics: Metrics
    health: Health
    merge: Merge = Merge.ALL
    lookup: RuntimeClassLookup = no_lookup
    namespace_annotation: NamespaceAnnotation | None = None
    serve_metrics: bool = True


@dataclass(slots=True)
class Reviewer:
    """Decides reviews. Used by all request threads at once; only the last warning is kept."""

    service: WebhookService
    _warned: str = field(default="", init=False)

    def review(
        self, operation: Operation, asked: AdmissionRequest, *, patient: bool = True
    ) -> Answer:
        """The answer to one review, whatever is in it.

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
        name, given, origin = pod.runtime_class_name, None, ""
        warnings: tuple[str, ...] = ()
        if name is None:
            given, origin, warnings = self._default_class(pod, namespace)
            if given is None:
                return Answer(Outcome.SKIPPED)
            name = given
        runtime_class = self._runtime_class(name, patient)
        changes = (
            not_found(name)
            if runtime_class is None
            else mutate(pod, runtime_class, self.service.merge)
        )
        if isinstance(changes, Refusal):
            if given is not None:
                warnings = (*warnings, f'RuntimeClass "{given}" was given to the pod by default')
                # The author of the pod may never have heard of the class.
                changes = Refusal(f"{changes.text} ({origin})")
            return _refused(changes, warnings)
        operations = patch(pod, replace(changes, runtime_class_name=given))
        if not operations:
            return Answer(Outcome.ALLOWED)
        return Answer(Outcome.PATCHED, patch=encode_patch(operations), warnings=warnings)

    def _validate(self, pod: ReviewedPod, patient: bool) -> Answer:
        name = pod.runtime_class_name
        runtime_class = None if name is None else self._runtime_class(name, patient)
        if name is not None and runtime_class is None:
            return _refused(not_found(name))
        refusal = validate(pod, runtime_class)
        return Answer(Outcome.ALLOWED) if refusal is None else _refused(refusal)

    def _runtime_class(self, name: str, patient: bool) -> RuntimeClass | None:
        """None when there is no such class. Raises UndecidedError."""
        snapshot = self.service.source.snapshot
        if not name:
            return None
        if not snapshot.runtime_classes_synced:
            raise UndecidedError(f"{ERROR_PREFIX}RuntimeClasses not synced yet")
        found = snapshot.runtime_classes.get(name)
        if found is not None or self.service.lookup is no_lookup:
            return found
        if not patient:
            raise WouldWaitError
        return self.service.lookup(name)

    def _default_class(
        self, pod: ReviewedPod, namespace: str
    ) -> tuple[str | None, str, tuple[str, ...]]:
        """The class given to a pod that names none, what gives it, and warnings.

        Raises UndecidedError.
        """
        annotation = self.service.namespace_annotation
        if annotation is None or not takes_default(pod):
            return None, "", ()
        of_namespace = annotation(namespace)
        origin = origin_of_default(namespace, of_namespace)
        if of_namespace:
            return (None if of_namespace == NO_DEFAULT else of_namespace), origin, ()
        snapshot = self.service.source.snapshot
        if not snapshot.runtime_classes_synced:
            raise UndecidedError(f"{ERROR_PREFIX}RuntimeClasses not synced yet")
        default = cluster_default(snapshot.runtime_classes.values())
        if default is None:
            return None, "", ()
        return default.name, origin, self._warnings(default)

    def _warnings(self, default: ClusterDefault) -> tuple[str, ...]:
        text = default.warning
        if text != self._warned:
            # Two threads may both get here: the line comes twice then.
            self._warned = text
            if text:
                _LOG.warning(text)
        return (text,) if text else ()


def _refused(refusal: Refusal, warnings: tuple[str, ...] = ()) -> Answer:
    return Answer(
        Outcome.REFUSED, message=refusal.text, code=HTTPStatus.FORBIDDEN, warnings=warnings
    )


class ReviewRoute:
    """POST /mutate or /validate: bytes in, bytes out."""

    def __init__(self, reviewer: Reviewer, operation: Operation) -> None:
        self._reviewer = reviewer
        self._operation = operation
        counter = reviewer.service.metrics.admission_requests
        self._outcomes = {
            outcome: counter.labels(operation.value, outcome.value) for outcome in Outcome
        }

    def __call__(self, body: bytes, *, patient: bool = True) -> tuple[list[bytes], int]:
        asked = decode_review(body)
        answer = self._reviewer.review(self._operation, asked, patient=patient)
        if answer.code != HTTPStatus.OK:
            _log_refusal(self._operation, asked, answer)
        self._outcomes[answer.outcome].inc()
        return [encode_answer(asked.uid or "", answer)], 0


def review_routes(service: WebhookService, threads: Threads) -> dict[bytes, Route]:
    """POST /mutate and POST /validate, by path."""
    reviewer = Reviewer(service)
    return {
        f"/{operation.value}".encode(): VerbRoute(
            ReviewRoute(reviewer, operation), service.metrics.of_review(operation.value), threads
        )
        for operation in Operation
    }


def _log_refusal(operation: Operation, asked: AdmissionRequest, answer: Answer) -> None:
    # Whoever creates the pod is told; the log is for whoever looks why nothing gets in.
    level = logging.WARNING if answer.outcome is Outcome.ERROR else logging.DEBUG
    if _LOG.isEnabledFor(level):
        _LOG.log(
            level,
            "pod not let in",
            extra={
                "operation": operation.value,
                "namespace": shown(asked.namespace or ""),
                "uid": shown(asked.uid or ""),
                "cause": shown(answer.message),
            },
        )
