"""The endpoints for people: explain, the RuntimeClasses, their nodes, a node's classes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flask import Flask, Response, request

from extender.admission.namespace_rules import NamespaceRules
from extender.checks.classes_and_nodes import check_classes
from extender.http.error_answers import NotFoundError
from extender.http.routing import Turn
from extender.http.service import Service
from extender.http.verb_routes import PrioritizeRoute
from extender.names import NameRun, text_of
from extender.objects import Pod, RuntimeClass
from extender.predicates.shape_parts import Wanted
from extender.printing import debug_texts
from extender.printing.debug_documents import (
    Document,
    class_document,
    class_nodes_document,
    classes_document,
    explanation_document,
    node_document,
    nodes_document,
    nodes_list_document,
    scores_document,
    states_of,
)
from extender.printing.similar import did_you_mean
from extender.printing.tables import Screen
from extender.reasons import shown
from extender.shape import Shape, ShapeId
from extender.snapshot import Snapshot
from extender.undecided_errors import not_synced
from extender.verbs.class_nodes import classes_of_node, nodes_of_class
from extender.verbs.explain.candidate_nodes import described_nodes, nodes_of
from extender.verbs.explain.explanation import explain
from extender.verbs.explain.scores import NodeScore, explain_scores
from extender.wire.bodies import BadRequestError, encode
from extender.wire.explain_bodies import ExplainArgs, decode_explain_args
from extender.wire.filter_bodies import decode_args, names_of
from extender.wire.node_items import NodeItems

_MAX_LIMIT_DIGITS: Final = 9

#: The number of nodes in a list of all, unless ?limit= is given: 200 KB, enough for a person.
DEFAULT_LISTED_NODES: Final = 1000

Text = Callable[[Mapping[str, Any], Screen], str]


@dataclass(frozen=True, slots=True)
class Query:
    """The query parameters of a debug request."""

    text: bool
    all_nodes: bool
    limit: int | None


def read_query(args: Mapping[str, str], *known: str) -> Query:
    """Raises BadRequestError; known are the parameters of this endpoint besides output."""
    for name in args:
        if name != "output" and name not in known:
            there_are = ", ".join(["output", *known])
            raise BadRequestError(f"unknown parameter {shown(name)!r}; there are: {there_are}")
    output, nodes, limit = args.get("output", "json"), args.get("nodes", ""), args.get("limit")
    if output not in ("json", "text"):
        raise BadRequestError(f"output: expected json or text, got {shown(output)!r}")
    if nodes not in ("", "all"):
        raise BadRequestError(f"nodes: expected all, got {shown(nodes)!r}")
    if limit is not None and not (
        limit.isascii() and limit.isdigit() and len(limit) <= _MAX_LIMIT_DIGITS
    ):
        raise BadRequestError(f"limit: expected a whole number, got {shown(limit)!r}")
    return Query(output == "text", nodes == "all", None if limit is None else int(limit))


def pod_key(text: str) -> tuple[str, str]:
    """NAMESPACE/NAME. Raises BadRequestError."""
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise BadRequestError(f"pod: expected NAMESPACE/NAME, got {shown(text)!r}")
    return namespace, name


class DebugRoutes:
    """Answers made from the newest snapshot; while it is not synced, they are 503."""

    def __init__(self, service: Service, turn: Turn) -> None:
        self._service = service
        self._turn = turn

    def explain(self) -> Response:
        asked = request.method == "GET"
        query = read_query(request.args, "nodes", *(["pod"] if asked else []))
        rules = None
        if not asked:
            args = decode_explain_args(request.get_data())
        else:
            pod, rules = self.pod_named(request.args.get("pod", ""))
            args = ExplainArgs(pod, None)
        return _answer(self.explanation(args, query, rules), debug_texts.explanation_text, query)

    def pod_named(self, text: str) -> tuple[Pod, NamespaceRules | None]:
        """The pod NAMESPACE/NAME, and the rules of its namespace where they are known.

        Raises BadRequestError, NotFoundError, UndecidedError.
        """
        namespace, name = pod_key(text)
        with self._turn.released():
            pod = self._service.find_pod(namespace, name)
            rules = self._service.rules_of_namespace(namespace) if pod else None
        if pod is None:
            raise _not_found("Pod", f"{namespace}/{name}", self._service.known_pods())
        return pod, rules

    def explanation(
        self, args: ExplainArgs, query: Query, rules: NamespaceRules | None = None
    ) -> Document:
        service, pod = self._service, args.pod
        runtime_class, snapshot = service.resolve(pod)
        described = isinstance(args.nodes, NodeItems)
        self._check_synced(snapshot, nodes=not described)
        if isinstance(args.nodes, NodeItems):
            wanted = Wanted.of((runtime_class,) if runtime_class else ())
            candidates = described_nodes(args.nodes.nodes, names_of(args.nodes).names, wanted)
        else:
            candidates = nodes_of(snapshot, args.nodes.names if args.nodes else None)
        explanation = explain(pod, runtime_class, candidates, service.policy, rules)
        document = explanation_document(explanation)
        if query.all_nodes:
            document["nodes"] = nodes_document(explanation)
            if not described:
                # kube-scheduler asks for the scores of nodes that passed every filter.
                asked = candidates.names if args.nodes else explanation.passing
                document["scores"] = scores_document(
                    explain_scores(runtime_class, snapshot, asked, service.preferences)
                )
        return document

    def prioritize(self) -> Response:
        """The verb's answer for people: every host with its full score, not the differences."""
        query = read_query(request.args)
        if not query.text:
            chunks, _ = PrioritizeRoute(self._service)(request.get_data())
            return Response(b"".join(chunks), mimetype="application/json")
        service, args, snapshot = self._service, decode_args(request.get_data()), self.synced()
        own = snapshot.runtime_classes.get(args.pod.runtime_class_name)
        if isinstance(args.nodes, NameRun):
            scores = explain_scores(own, snapshot, args.nodes.names, service.preferences)
        else:
            wanted = service.preferences.scores_of_nodes(own, snapshot, args.nodes.nodes).scores
            scores = [
                (name, NodeScore(None, score, ()))
                for name, score in zip(names_of(args.nodes).names, wanted, strict=True)
            ]
        document: Document = {"scores": scores_document(scores)}
        return _answer(document, debug_texts.scores_text, query)

    def runtime_classes(self) -> Response:
        query, snapshot = read_query(request.args), self.synced()
        findings = check_classes(snapshot, self._service.support, self._service.policy)
        counts = self._service.support.counts(snapshot).nodes
        document = classes_document(snapshot, counts, findings)
        return _answer(document, debug_texts.classes_text, query)

    def runtime_class(self, name: str) -> Response:
        query, snapshot = read_query(request.args), self.synced()
        return _answer(self.class_item(name, snapshot), debug_texts.class_text, query)

    def class_item(self, name: str, snapshot: Snapshot) -> Document:
        """One class. Raises NotFoundError."""
        runtime_class = class_of(snapshot, name)
        findings = check_classes(snapshot, self._service.support, self._service.policy)
        counts = self._service.support.counts(snapshot).nodes
        return class_document(runtime_class, snapshot, counts, findings)

    def class_nodes(self, name: str) -> Response:
        query, snapshot = read_query(request.args, "limit"), self.synced()
        runtime_class = class_of(snapshot, name)
        nodes = nodes_of_class(runtime_class, snapshot, self._service.policy)
        states = states_of(nodes.matching[: query.limit], snapshot)
        document = class_nodes_document(name, nodes, states, query.limit)
        return _answer(document, debug_texts.class_nodes_text, query)

    def nodes(self) -> Response:
        query, snapshot = read_query(request.args, "limit"), self.synced()
        limit = DEFAULT_LISTED_NODES if query.limit is None else query.limit
        left_out = max(0, len(snapshot.nodes) - limit)
        document = self.listed_nodes(sorted(snapshot.nodes)[:limit], snapshot, left_out)
        return _answer(document, debug_texts.nodes_text, query)

    def listed_nodes(
        self, names: Iterable[bytes], snapshot: Snapshot, left_out: int = 0
    ) -> Document:
        """Nodes with the classes that they support."""
        support, supported = self._service.support, dict[ShapeId, Sequence[str]]()
        listed = []
        for name in names:
            shape_id = snapshot.nodes[name]
            if shape_id not in supported:
                supported[shape_id] = support.classes(snapshot, shape_id)
            listed.append((name, snapshot.shapes[shape_id], supported[shape_id]))
        return nodes_list_document(listed, left_out)

    def node(self, name: str) -> Response:
        query = read_query(request.args)
        return _answer(self.node_item(name), debug_texts.node_text, query)

    def node_item(self, name: str) -> Document:
        """One node. Raises NotFoundError, and UndecidedError before the first sync."""
        snapshot = self.synced()
        shape = node_of(snapshot, name)
        classes = classes_of_node(shape, snapshot.classes_by_name, self._service.policy)
        return node_document(name, shape, classes)

    def synced(self) -> Snapshot:
        """The newest snapshot. Raises UndecidedError before the first sync."""
        snapshot = self._service.source.snapshot
        self._check_synced(snapshot, nodes=True)
        return snapshot

    @staticmethod
    def _check_synced(snapshot: Snapshot, *, nodes: bool) -> None:
        if not snapshot.runtime_classes_synced:
            raise not_synced("RuntimeClasses")
        if nodes and not snapshot.nodes_synced:
            raise not_synced("nodes")


def class_of(snapshot: Snapshot, name: str) -> RuntimeClass:
    """Raises NotFoundError."""
    runtime_class = snapshot.runtime_classes.get(name)
    if runtime_class is None:
        raise _not_found("RuntimeClass", name, snapshot.runtime_classes)
    return runtime_class


def node_of(snapshot: Snapshot, name: str) -> Shape:
    """Raises NotFoundError."""
    shape = snapshot.shape(name.encode("utf-8", "replace"))
    if shape is None:
        raise _not_found("Node", name, map(text_of, snapshot.nodes))
    return shape


def _not_found(kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    return NotFoundError(f'{kind} "{shown(name)}" not found{did_you_mean(name, known)}')


def _answer(document: Document, text: Text, query: Query) -> Response:
    if query.text:
        return Response(text(document, Screen()), content_type="text/plain; charset=utf-8")
    return Response(encode(document), mimetype="application/json")


def install_debug(app: Flask, service: Service, turn: Turn, *, of_ops: bool = False) -> DebugRoutes:
    """The endpoints for people; those of verbs are not for the listener of probes."""
    routes = DebugRoutes(service, turn)
    app.add_url_rule("/explain", "explain", routes.explain, methods=["GET", "POST"])
    if not of_ops:
        app.add_url_rule("/prioritize", "prioritize", routes.prioritize, methods=["POST"])
    for path, endpoint, view in (
        ("/runtimeclasses", "runtimeclasses", routes.runtime_classes),
        ("/runtimeclasses/<name>", "runtimeclass", routes.runtime_class),
        ("/runtimeclasses/<name>/nodes", "class_nodes", routes.class_nodes),
        ("/nodes", "nodes", routes.nodes),
        ("/nodes/<name>", "node", routes.node),
    ):
        app.add_url_rule(path, endpoint, view, methods=["GET"])
    return routes
