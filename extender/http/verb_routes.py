"""The verbs that kube-scheduler calls: decode → verb → encode; bytes in, bytes out.

They know nothing of HTTP. Where an answer has to wait, for a node event or for a class that is not
in the cache, they wait if called with patient=True, and raise WouldWaitError otherwise.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from extender.http.scores_ahead import MOST_AHEAD, score_names
from extender.http.service import Service, no_node_events
from extender.metrics import class_label
from extender.names import NameRun
from extender.objects import Pod, RuntimeClass
from extender.snapshot import Snapshot
from extender.undecided_errors import UndecidedError, WouldWaitError, not_synced
from extender.verbs.filter import (
    FilterResult,
    filter_names,
    filter_nodes,
    look_again,
)
from extender.verbs.preempt import keeps_victims
from extender.wire.bodies import Chunks, PodText, with_uses
from extender.wire.filter_bodies import (
    Args,
    decode_args,
    decode_args_quickly,
    encode_filter_error,
    encode_filtered_names,
    encode_filtered_nodes,
    encode_passed_all,
    encode_scores,
    is_long_answer,
    names_of,
)
from extender.wire.node_items import NodeItems
from extender.wire.preempt_bodies import (
    Keeps,
    PreemptionArgs,
    decode_preemption_args,
    decode_quickly,
    encode_kept,
)

_LOG: Final = logging.getLogger(__name__)


def _limits_uses(runtime_class: RuntimeClass | None) -> bool:
    """Whether more must be read of the pod: what it uses."""
    return (
        runtime_class is not None
        and runtime_class.rules is not None
        and bool(runtime_class.rules.unsupported)
    )


class FilterRoute:
    """POST /filter."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __call__(self, body: bytes, *, patient: bool = True) -> tuple[Chunks, int]:
        args = decode_args(body, self._service.seen_nodes, self._service.last_pod)
        return self._answer(args, patient), args.nodes.count

    def quickly(self, body: bytes) -> tuple[Chunks, int] | None:
        """The answer if it takes a few milliseconds at most, whatever the body is."""
        args = decode_args_quickly(body, self._service.seen_nodes, self._service.last_pod)
        return None if args is None else (self._answer(args, patient=False), args.nodes.count)

    def _answer(self, args: Args, patient: bool) -> Chunks:
        pod, nodes = args.pod, args.nodes
        if pod.is_unconstrained:
            if isinstance(nodes, NameRun) and nodes.count > 1 and nodes.end <= MOST_AHEAD:
                self._note_left(args, nodes)
            return encode_passed_all(nodes)
        try:
            runtime_class, snapshot = self._service.resolve(pod, patient=patient)
            if _limits_uses(runtime_class):
                pod = with_uses(pod, args.text)
            if not isinstance(nodes, NameRun):
                return self._described(pod, runtime_class, nodes)
            result = self._filter_names(pod, runtime_class, snapshot, nodes, patient)
            if not patient and is_long_answer(nodes, result):
                raise WouldWaitError
            chunks, left = encode_filtered_names(nodes, result)
            if result.passing > 1 and len(left) <= MOST_AHEAD:
                self._note_left(args, left)
            return chunks
        except UndecidedError as error:
            return encode_filter_error(nodes, str(error))

    def _note_left(self, args: Args, left: NameRun | bytes) -> None:
        if isinstance(args.text, bytes):  # kube-scheduler's are; others refer to the whole body
            self._service.scores_ahead.filtered = args.pod, args.text, left

    def _described(self, pod: Pod, runtime_class: RuntimeClass | None, nodes: NodeItems) -> Chunks:
        result = filter_nodes(pod, runtime_class, nodes.nodes, self._service.policy)
        self._note(pod, result)
        return encode_filtered_nodes(nodes, names_of(nodes), result)

    def _filter_names(
        self,
        pod: Pod,
        runtime_class: RuntimeClass | None,
        snapshot: Snapshot,
        names: NameRun,
        patient: bool,
    ) -> FilterResult:
        if not snapshot.nodes_synced:
            raise not_synced("nodes")
        policy = self._service.policy
        if not patient and snapshot.shapes.takes_long(pod, runtime_class, policy):
            raise WouldWaitError
        result = filter_names(pod, runtime_class, snapshot, names, policy)
        if result.leaves_none:
            if not patient and self._may_wait(result):
                raise WouldWaitError
            # The pod is remembered first and judged again afterwards: a node that begins to match
            # in between is either seen here, or its event finds the pod remembered and requeues it.
            tried_before = self._service.refused.refuse(pod)
            newer = self._with_class(pod, self._newer(pod, snapshot, result, tried_before))
            result = look_again(result, pod, newer, names, policy)
        self._note(pod, result)
        return result

    def _with_class(
        self, pod: Pod, snapshots: Iterable[Snapshot]
    ) -> Iterator[tuple[RuntimeClass | None, Snapshot]]:
        """Each snapshot with the class that the pod names."""
        for snapshot in snapshots:
            runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
            if runtime_class is None and pod.runtime_class_name:
                # The class is gone or not there yet: it is looked up again.
                runtime_class, snapshot = self._service.resolve(pod)
            if pod.uses is None and _limits_uses(runtime_class):
                # The class says only since now what its pods can't use: the next attempt judges
                # that.
                return
            yield runtime_class, snapshot

    def _newer(
        self, pod: Pod, judged: Snapshot, result: FilterResult, tried_before: bool
    ) -> Iterable[Snapshot]:
        """Newer snapshots; they are waited for only where a node could make a difference."""
        if self._may_wait(result):
            return self._service.node_events(judged, tried_before=tried_before, group=pod.group)
        newest = self._service.source.snapshot
        return () if newest is judged else (newest,)

    def _may_wait(self, result: FilterResult) -> bool:
        return result.depends_on_nodes and self._service.node_events is not no_node_events

    def _note(self, pod: Pod, result: FilterResult) -> None:
        service = self._service
        leaves_none = result.leaves_none
        if leaves_none:
            service.refused.refuse(pod, result.why)
            if _LOG.isEnabledFor(logging.DEBUG):
                _log_refusal(pod, result)
        else:
            service.refused.admit(pod)
        if result.reasons:
            label = class_label(pod.runtime_class_name, service.source.snapshot.runtime_classes)
            service.metrics.refused(label, result.reasons, leaves_none)


def _log_refusal(pod: Pod, result: FilterResult) -> None:
    _LOG.debug(
        "pod left without a node",
        extra={
            "pod": f"{pod.namespace}/{pod.name}",
            "runtimeclass": pod.runtime_class_name,
            "nodes": len(result.groups),
            "reasons": [f"{size} {text}" for size, text in result.why],
        },
    )


class PrioritizeRoute:
    """POST /prioritize."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __call__(self, body: bytes, *, patient: bool = True) -> tuple[Chunks, int]:
        service = self._service
        ready = service.scores_ahead.answer(body)
        return ready or self._answer(decode_args(body, service.seen_nodes, service.last_pod))

    def quickly(self, body: bytes) -> tuple[Chunks, int] | None:
        """The answer if it takes a few milliseconds at most, whatever the body is."""
        service = self._service
        ready = service.scores_ahead.answer(body)
        if ready is not None:
            return ready
        if service.preferences.takes_long(service.source.snapshot):
            return None
        args = decode_args_quickly(body, service.seen_nodes, service.last_pod)
        return None if args is None else self._answer(args)

    def _answer(self, args: Args) -> tuple[Chunks, int]:
        pod, nodes = args.pod, args.nodes
        snapshot, preferences = self._service.source.snapshot, self._service.preferences
        if isinstance(nodes, NameRun):
            return score_names(pod, nodes, snapshot, preferences), nodes.count
        own = snapshot.runtime_classes.get(pod.runtime_class_name)
        scores = preferences.scores_of_nodes(own, snapshot, nodes.nodes)
        above = scores.above_lowest if snapshot.runtime_classes_synced else None
        return encode_scores(names_of(nodes), above), nodes.count


class PreemptRoute:
    """POST /preempt."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __call__(self, body: bytes, *, patient: bool = True) -> tuple[Chunks, int]:
        return self._answer(decode_preemption_args(body, self._service.last_pod), patient)

    def quickly(self, body: bytes) -> tuple[Chunks, int] | None:
        """The answer if it takes a few milliseconds at most, whatever the body is."""
        args = decode_quickly(body, self._service.last_pod)
        return None if args is None else self._answer(args, patient=False)

    def _answer(self, args: PreemptionArgs, patient: bool) -> tuple[Chunks, int]:
        return encode_kept(args, self._keeps(args.pod, args.text, patient))

    def _keeps(self, pod: Pod, text: PodText, patient: bool) -> Keeps | None:
        """Which nodes' victims are kept: of those that the pod can run on; None for all nodes."""
        if pod.is_unconstrained:
            return None
        runtime_class, snapshot = self._service.resolve(pod, patient=patient)
        if _limits_uses(runtime_class):
            pod = with_uses(pod, text)
        if not snapshot.nodes_synced:
            raise not_synced("nodes")
        policy = self._service.policy
        if not patient and snapshot.shapes.takes_long(pod, runtime_class, policy):
            raise WouldWaitError
        return lambda names: keeps_victims(pod, runtime_class, snapshot, names, policy)
