"""The verbs that kube-scheduler calls: decode → verb → encode; bytes in, bytes out."""

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from io import BytesIO
from typing import Any, Final

from extender.http.answers import Answer, Request, answer_of
from extender.http.limits import work
from extender.model.errors import BadRequestError, UndecidedError, not_synced
from extender.model.names import NameRun
from extender.model.objects import Pod, RuntimeClass
from extender.rules.snapshot import Snapshot
from extender.verbs.bodies import Chunks, NodeItems, with_uses
from extender.verbs.filter import (
    Args,
    FilterResult,
    decode_args,
    encode_filter_error,
    encode_filtered_names,
    encode_filtered_nodes,
    encode_passed_all,
    match_names,
    match_nodes,
    names_of,
    sort_nodes,
)
from extender.verbs.outcomes import VerbCounts, class_label
from extender.verbs.preempt import decode_preemption_args, encode_kept
from extender.verbs.prioritize import encode_scores
from extender.verbs.service import Service

_LOG: Final = logging.getLogger(__name__)

#: An answer, and the number of nodes in the request.
Answered = tuple[Chunks, int]

#: Calls a function on the event loop or in a thread, by the body's size (http.limits.work).
Do = Callable[..., Awaitable[Any]]

#: The nodes of a request: names, or whole Nodes.
Nodes = NameRun | NodeItems

#: Answers the body of a request.
Verb = Callable[[BytesIO, Do], Awaitable[Answered]]


class VerbRoute:
    """The route of a verb: times and counts requests, and answers errors."""

    methods: Final = ("POST",)

    def __init__(self, verb: Verb, times: VerbCounts, about: str, *, queried: bool = False) -> None:
        """queried: a query string is ignored; otherwise it is refused."""
        self._verb, self._times, self.about, self._queried = verb, times, about, queried

    async def __call__(self, request: Request) -> Answer:
        began = time.perf_counter()
        try:
            if request.query and not self._queried:
                raise BadRequestError("no parameter is known here")
            do: Do = partial(work, request.size)
            chunks, nodes = await self._verb(request.body, do)
        except Exception as error:
            answer = answer_of(error)
            self._times.failed(answer.status)
            return answer
        self._times.succeeded(nodes, time.perf_counter() - began)
        return Answer(chunks)


def taken(body: BytesIO) -> bytes:
    """The content of a body, without a copy. Its memory is freed once the caller drops it."""
    content = body.getvalue()
    body.close()
    return content


def _limits_uses(runtime_class: RuntimeClass | None) -> bool:
    """Whether the class lists unsupported features, so that the pod's must be decoded."""
    rules = runtime_class.rules if runtime_class else None
    return rules is not None and bool(rules.unsupported)


class FilterVerb:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, body: BytesIO, do: Do) -> Answered:
        service = self._service
        args: Args = await do(lambda: decode_args(taken(body), service.seen_nodes))
        pod, nodes = args.pod, args.nodes
        if pod.is_unconstrained:
            return encode_passed_all(nodes), nodes.count
        try:
            runtime_class, snapshot = await service.look_up(pod)
            if _limits_uses(runtime_class):
                pod = await do(with_uses, pod, args.text)
            are_named = isinstance(nodes, NameRun)
            if are_named and not snapshot.nodes_synced:
                raise not_synced("nodes")
            result = await do(self._judged, pod, runtime_class, snapshot, nodes)
            if result.leaves_none and not pod.is_bound:
                result = await self._look_again(result, pod, snapshot, nodes, do)
            self._note(pod, result)
            encode = encode_filtered_names if are_named else encode_filtered_nodes
            return await do(encode, nodes, result, service.reasons), nodes.count
        except UndecidedError as error:
            return encode_filter_error(nodes, str(error)), nodes.count

    def _judged(
        self, pod: Pod, runtime_class: RuntimeClass | None, snapshot: Snapshot, nodes: Nodes
    ) -> FilterResult:
        policy = self._service.policy
        if isinstance(nodes, NameRun):
            return sort_nodes(match_names(pod, runtime_class, snapshot, nodes, policy))
        suspects = snapshot.suspects
        return sort_nodes(match_nodes(pod, runtime_class, nodes.nodes, policy, suspects))

    async def _look_again(
        self, result: FilterResult, pod: Pod, judged: Snapshot, nodes: Nodes, do: Do
    ) -> FilterResult:
        """Judge a refused pod again by newer snapshots, until one of them leaves it a node.

        kube-scheduler may have received a node's event before this service. The pod is remembered
        first and judged again afterwards: a node that begins to match in between is either seen
        here, or its event finds the pod remembered and requeues it.
        """
        service = self._service
        tried_before = service.refused.refuse(pod)
        waits = isinstance(nodes, NameRun) and result.depends_on_nodes
        if waits and service.node_events is not None:
            newer = service.node_events(judged, tried_before=tried_before)
        else:
            newer = self._newer(judged)
        async with aclosing(newer):
            async for snapshot in newer:
                runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
                if runtime_class is None and pod.runtime_class_name:
                    # The snapshot lacks the class, which may be new: look it up again.
                    runtime_class, snapshot = await service.look_up(pod)
                if pod.uses is None and _limits_uses(runtime_class):
                    # The class now lists unsupported features. The next attempt checks them.
                    break
                result = await do(self._judged, pod, runtime_class, snapshot, nodes)
                if not result.leaves_none:
                    break
        return result

    async def _newer(self, judged: Snapshot) -> AsyncGenerator[Snapshot, None]:
        """The current snapshot if it is newer, without waiting for an event of a node."""
        if self._service.source.snapshot is not judged:
            yield self._service.source.snapshot

    def _note(self, pod: Pod, result: FilterResult) -> None:
        """Count refusals, and remember a pod left without a node. Bound pods don't count."""
        if pod.is_bound:
            return
        service, leaves_none = self._service, result.leaves_none
        if leaves_none:
            service.refused.refuse(pod, result.why)
            _LOG.debug(
                "pod left without a node",
                extra={
                    "pod": f"{pod.namespace}/{pod.name}",
                    "runtimeclass": pod.runtime_class_name,
                    "nodes": len(result.groups),
                    "reasons": [f"{size} {text}" for size, text in result.why],
                },
            )
        else:
            service.refused.admit(pod)
        if result.reasons:
            label = class_label(pod.runtime_class_name, service.source.snapshot.runtime_classes)
            service.metrics.rejections.add(label, result.reasons, left_none=leaves_none)


class PrioritizeVerb:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, body: BytesIO, do: Do) -> Answered:
        def answer() -> Answered:
            args = decode_args(taken(body), self._service.seen_nodes)
            return self.scored(args), args.nodes.count

        answered: Answered = await do(answer)
        return answered

    def scored(self, args: Args) -> Chunks:
        """The scores. A missing class is not looked up: the filter has already done that."""
        nodes, preferences = args.nodes, self._service.preferences
        snapshot = self._service.source.snapshot
        names = nodes if isinstance(nodes, NameRun) else names_of(nodes)
        if not snapshot.runtime_classes_synced:
            return encode_scores(names, None)
        own = snapshot.runtime_classes.get(args.pod.runtime_class_name)
        if isinstance(nodes, NameRun):
            scores = preferences.scores(own, snapshot, nodes)
        else:
            scores = preferences.scores_of_nodes(own, snapshot, nodes.nodes)
        return encode_scores(names, scores.above_lowest)


class PreemptVerb:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, body: BytesIO, do: Do) -> Answered:
        service = self._service
        args = await do(lambda: decode_preemption_args(taken(body)))
        pod = args.pod
        if pod.is_unconstrained:
            unchanged: Answered = await do(encode_kept, args, None)
            return unchanged
        runtime_class, snapshot = await service.look_up(pod)
        if _limits_uses(runtime_class):
            pod = await do(with_uses, pod, args.text)
        if not snapshot.nodes_synced:
            raise not_synced("nodes")

        def keeps(names: NameRun) -> bytes:
            return match_names(pod, runtime_class, snapshot, names, service.policy).passes

        answered: Answered = await do(encode_kept, args, keeps)
        return answered
