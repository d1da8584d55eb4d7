"""The verbs that kube-scheduler calls: decode → verb → encode."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from flask import Flask, Response, request
from werkzeug.exceptions import UnsupportedMediaType

from extender.http.errors import error_response
from extender.http.service import ERROR_PREFIX, Service, UndecidedError
from extender.http.wire import (
    Args,
    Chunks,
    decode_args,
    encode_filter_error,
    encode_filtered_names,
    encode_filtered_nodes,
    encode_passed_all,
    encode_scores,
    names_of,
    run_of,
)
from extender.http.wire_preemption import decode_preemption_args, encode_victims
from extender.metrics import class_label
from extender.names import NameRun
from extender.objects import Pod, RuntimeClass
from extender.snapshot import Snapshot
from extender.verbs.filter import FilterResult, sort_nodes
from extender.verbs.matching import match_names, match_nodes
from extender.verbs.preempt import keep_matching
from extender.verbs.prioritize import Scores
from extender.verdict import Code, shown

_LOG: Final = logging.getLogger(__name__)

_JSON: Final = {"Content-Type": "application/json"}


def read_body(limit: int) -> bytes:
    """The request's body. Raises werkzeug's 413 for one over the limit.

    Read straight from the server: werkzeug's stream would copy it in pieces of 64 KiB.
    """
    encoding = request.environ.get("HTTP_CONTENT_ENCODING", "identity")
    if encoding != "identity":
        raise UnsupportedMediaType(f"Content-Encoding {shown(encoding)} is not supported")
    length = request.content_length
    body: bytes = b"" if length is not None and length > limit else _read(limit)
    if len(body) > limit or (length is not None and length > limit):
        raise BodyTooLargeError(limit)
    return body


def _read(limit: int) -> bytes:
    body: bytes = request.environ["wsgi.input"].read(limit + 1)
    return body


class BodyTooLargeError(Exception):
    """The body is over --max-body-bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"request body is over the limit of {limit} bytes (--max-body-bytes)")


class FilterRoute:
    """POST /filter."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __call__(self, body: bytes) -> tuple[Chunks, int]:
        args = decode_args(body, self._service.seen_nodes)
        return self._answer(args), args.nodes.count

    def _answer(self, args: Args) -> Chunks:
        pod = args.pod
        if pod.is_unconstrained:
            return encode_passed_all(args.nodes)
        try:
            runtime_class, snapshot = self._service.resolve(pod)
            if isinstance(args.nodes, NameRun):
                return self._names(pod, runtime_class, snapshot, args.nodes)
        except UndecidedError as error:
            return encode_filter_error(args.nodes, str(error))
        verdicts = match_nodes(pod, runtime_class, args.nodes.nodes, self._service.policy)
        result = sort_nodes(verdicts)
        self._note(pod, result)
        return encode_filtered_nodes(args.nodes, names_of(args.nodes), result)

    def _names(
        self, pod: Pod, runtime_class: RuntimeClass | None, snapshot: Snapshot, names: NameRun
    ) -> Chunks:
        if not snapshot.nodes_synced:
            raise UndecidedError(f"{ERROR_PREFIX}nodes not synced yet")
        result = self._judge(pod, runtime_class, snapshot, names)
        if result.leaves_none:
            # First remembered, then looked again: what begins to match in between is either seen
            # here, or finds the pod remembered and wakes it.
            tried_before = self._service.refused.refuse(pod)
            for newer in self._newer(snapshot, result, tried_before):
                runtime_class = newer.runtime_classes.get(pod.runtime_class_name)
                if runtime_class is None and pod.runtime_class_name:
                    # Gone, or not there yet: to be asked for, as at first.
                    runtime_class, newer = self._service.resolve(pod)
                result = self._judge(pod, runtime_class, newer, names)
                if not result.leaves_none:
                    break
        self._note(pod, result)
        return encode_filtered_names(names, result)

    def _judge(
        self,
        pod: Pod,
        runtime_class: RuntimeClass | None,
        snapshot: Snapshot,
        names: NameRun,
    ) -> FilterResult:
        verdicts = match_names(pod, runtime_class, snapshot, names, self._service.policy)
        return sort_nodes(verdicts)

    def _newer(
        self, judged: Snapshot, result: FilterResult, tried_before: bool
    ) -> Iterable[Snapshot]:
        """Snapshots to judge by instead; waited for only where a node could make a difference."""
        if not result.reasons.keys() <= {Code.NOT_FOUND, Code.CONFLICT}:
            return self._service.node_events(judged, tried_before=tried_before)
        newest = self._service.source.snapshot
        return () if newest is judged else (newest,)

    def _note(self, pod: Pod, result: FilterResult) -> None:
        service = self._service
        if result.leaves_none:
            service.refused.refuse(pod)
            if _LOG.isEnabledFor(logging.DEBUG):
                _log_refusal(pod, result)
        else:
            service.refused.admit(pod.namespace, pod.name, pod.uid)
        if result.reasons:
            label = class_label(pod.runtime_class_name, service.source.snapshot.runtime_classes)
            service.metrics.refused(label, result.reasons, result.leaves_none)


def _log_refusal(pod: Pod, result: FilterResult) -> None:
    _LOG.debug(
        "pod left without a node",
        extra={
            "pod": f"{pod.namespace}/{pod.name}",
            "runtimeclass": pod.runtime_class_name,
            "nodes": len(result.groups),
            "reasons": [
                f"{size} {text}" for size, text in zip(result.sizes[1:], result.texts, strict=True)
            ],
        },
    )


class PrioritizeRoute:
    """POST /prioritize."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._preferences = service.preferences

    def __call__(self, body: bytes) -> tuple[Chunks, int]:
        args = decode_args(body, self._service.seen_nodes)
        snapshot = self._service.source.snapshot
        # The filter has looked for a missing class a moment ago; the scores need not.
        own = snapshot.runtime_classes.get(args.pod.runtime_class_name)
        if isinstance(args.nodes, NameRun):
            names = args.nodes
            scores = self._preferences.scores(own, snapshot, names)
        else:
            names = names_of(args.nodes)
            scores = self._preferences.scores_of_nodes(own, snapshot, args.nodes.nodes)
        if not snapshot.runtime_classes_synced:
            scores = Scores(bytes(names.count))
        return encode_scores(names, scores.scores), names.count


class PreemptRoute:
    """POST /preempt."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __call__(self, body: bytes) -> tuple[Chunks, int]:
        args = decode_preemption_args(body)
        pod, victims = args.pod, args.victims
        if not pod.is_unconstrained:
            runtime_class, snapshot = self._service.resolve(pod)
            if not snapshot.nodes_synced:
                raise UndecidedError(f"{ERROR_PREFIX}nodes not synced yet")
            names = run_of(list(victims))
            verdicts = match_names(pod, runtime_class, snapshot, names, self._service.policy)
            victims = keep_matching(verdicts, victims)
        return encode_victims(victims), len(args.victims)


def install_verbs(app: Flask, service: Service) -> None:
    metrics = service.metrics
    limit = service.max_body_bytes

    def verb(name: str, answer: Callable[[bytes], tuple[Chunks, int]]) -> None:
        duration = metrics.duration.labels(name)
        nodes = metrics.nodes.labels(name)
        succeeded = metrics.requests.labels(name, "200")

        def view() -> Response:
            started = time.perf_counter()
            chunks, count = answer(read_body(limit))
            response = Response(chunks, 200, _JSON)
            nodes.observe(count)
            succeeded.inc()
            duration.observe(time.perf_counter() - started)
            return response

        app.add_url_rule(f"/{name}", name, view, methods=["POST"], provide_automatic_options=False)

    @app.errorhandler(BodyTooLargeError)
    def too_large(error: BodyTooLargeError) -> Response:
        return error_response(413, str(error))

    @app.after_request
    def count_failures(response: Response) -> Response:
        if response.status_code != 200 and request.endpoint in VERBS:
            metrics.requests.labels(request.endpoint, str(response.status_code)).inc()
        return response

    @app.errorhandler(UndecidedError)
    def undecided(error: UndecidedError) -> Response:
        # Of the verbs only preempt's answer has no field for an error.
        return error_response(503, str(error))

    verb("filter", FilterRoute(service))
    verb("prioritize", PrioritizeRoute(service))
    verb("preempt", PreemptRoute(service))


VERBS: Final = frozenset({"filter", "prioritize", "preempt"})
