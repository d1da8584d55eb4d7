"""The verbs that kube-scheduler calls: decode → verb → encode."""

import logging
import time
from collections.abc import Callable
from typing import Final

from flask import Flask, Response, request

from extender.http.errors import error_response
from extender.http.service import ERROR_PREFIX, Service, UndecidedError
from extender.http.wire import (
    Args,
    Chunks,
    Names,
    decode_args,
    encode_filter_error,
    encode_filtered_names,
    encode_filtered_nodes,
    encode_passed_all,
)
from extender.metrics import class_label
from extender.objects import Pod, RuntimeClass
from extender.snapshot import Snapshot
from extender.verbs.filter import FilterResult, filter_nodes
from extender.verbs.matching import match_names, match_nodes

_LOG: Final = logging.getLogger(__name__)

_JSON: Final = {"Content-Type": "application/json"}


def read_body(limit: int) -> bytes:
    """The request's body. Raises werkzeug's 413 for one over the limit.

    Read straight from the server: werkzeug's stream would copy it in pieces of 64 KiB.
    """
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


def _answer(chunks: Chunks) -> Response:
    return Response(chunks, 200, _JSON)


class FilterRoute:
    """POST /filter."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __call__(self, args: Args) -> Chunks:
        pod = args.pod
        if pod.is_unconstrained:
            return encode_passed_all(args.nodes)
        snapshot = self._service.source.snapshot
        try:
            runtime_class = self._service.runtime_class(pod, snapshot)
            if isinstance(args.nodes, Names):
                return self._names(pod, runtime_class, snapshot, args.nodes)
        except UndecidedError as error:
            return encode_filter_error(args.nodes, str(error))
        verdicts = match_nodes(pod, runtime_class, args.nodes.nodes, self._service.policy)
        result = filter_nodes(verdicts, args.nodes.names(), args.nodes.raw)
        self._note(pod, result)
        return encode_filtered_nodes(result)

    def _names(
        self, pod: Pod, runtime_class: RuntimeClass | None, snapshot: Snapshot, asked: Names
    ) -> Chunks:
        if not snapshot.nodes_synced:
            raise UndecidedError(f"{ERROR_PREFIX}nodes not synced yet")
        policy = self._service.policy
        names = asked.split()
        verdicts = match_names(pod, runtime_class, snapshot, names, policy)
        result = filter_nodes(verdicts, names, names)
        if names and not result.passing and self._service.wait_for_node_event():
            snapshot = self._service.source.snapshot
            verdicts = match_names(pod, runtime_class, snapshot, names, policy)
            result = filter_nodes(verdicts, names, names)
        self._note(pod, result)
        return encode_filtered_names(result)

    def _note(self, pod: Pod, result: FilterResult[object]) -> None:
        service = self._service
        if result.passing or not result.refused:
            service.refused.admit(pod.namespace, pod.name, pod.uid)
        else:
            service.refused.refuse(pod.namespace, pod.name, pod.uid, pod.runtime_class_name)
            if _LOG.isEnabledFor(logging.DEBUG):
                _log_refusal(pod, result)
        if result.counts:
            label = class_label(pod.runtime_class_name, service.source.snapshot.runtime_classes)
            service.metrics.refused(label, result.counts, not result.passing)


def _log_refusal(pod: Pod, result: FilterResult[object]) -> None:
    refused = sum(result.counts.values())
    _LOG.debug(
        "pod left without a node",
        extra={
            "pod": f"{pod.namespace}/{pod.name}",
            "runtimeclass": pod.runtime_class_name,
            "nodes": refused,
            "reasons": [f"{len(names)} {text}" for text, names in result.refused],
        },
    )


def install_verbs(app: Flask, service: Service) -> None:
    metrics = service.metrics
    limit = service.max_body_bytes

    def verb(name: str, answer: Callable[[Args], Chunks]) -> None:
        duration = metrics.duration.labels(name)
        nodes = metrics.nodes.labels(name)
        succeeded = metrics.requests.labels(name, "200")

        def view() -> Response:
            started = time.perf_counter()
            args = decode_args(read_body(limit))
            response = _answer(answer(args))
            nodes.observe(args.nodes.count)
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

    verb("filter", FilterRoute(service))


VERBS: Final = frozenset({"filter", "prioritize", "preempt"})
