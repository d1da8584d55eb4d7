"""The endpoint /explain, /prioritize for people, and what the endpoints of all features share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flask import Flask, Response, request
from msgspec import Raw

from extender.cli.output import Screen
from extender.explain.document import Document, explained, nodes_document, scores_document
from extender.explain.own_checks import Question
from extender.explain.text import explanation_text, scores_text
from extender.http.answers import NotFoundError
from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.namespaces import NamespaceRules
from extender.kubernetes.resources import PodLoad
from extender.kubernetes.versions import Version
from extender.model.errors import BadRequestError, not_synced
from extender.model.names import NameRun
from extender.model.objects import Pod
from extender.model.reasons import listed, shown
from extender.model.similar import did_you_mean, similar
from extender.rules.node_shape import Wanted
from extender.rules.pools import described_nodes, nodes_of
from extender.rules.resource_fit import IncomingPod
from extender.rules.snapshot import Snapshot
from extender.verbs.bodies import NULL, NodeItems, bound_other, bound_pod, decode_or_refuse, encode
from extender.verbs.endpoint import PrioritizeVerb
from extender.verbs.filter import decode_args, decode_other, decode_usual, names_of
from extender.verbs.service import Service


@dataclass(frozen=True, slots=True)
class ExplainArgs:
    """A pod with its affinity and overhead, and the nodes to judge; None for all known nodes."""

    pod: Pod
    nodes: NameRun | NodeItems | None = None


def decode_explain_args(body: bytes) -> ExplainArgs:
    """Read a Pod, or ExtenderArgs with or without nodes. Raises BadRequestError."""
    usual = decode_usual(body)
    if usual is not None:
        return ExplainArgs(_decode_pod(usual.text), usual.nodes)
    bound_other(body)
    decoded = decode_or_refuse(body, dict[str, Raw], "")
    fields = {key.casefold(): value for key, value in decoded.items()}
    if "pod" not in fields:
        kind = decode_or_refuse(fields.get("kind", Raw(b'"Pod"')), str, "kind")
        if not fields.keys() & {"metadata", "spec"} or kind != "Pod":
            raise BadRequestError("body: expected a Pod or ExtenderArgs")
        return ExplainArgs(_decode_pod(body))
    pod, lists = _decode_pod(fields["pod"]), (fields.get("nodenames"), fields.get("nodes"))
    has_nodes = any(each not in (None, NULL) for each in lists)
    return ExplainArgs(pod, decode_other(body).nodes if has_nodes else None)


def _decode_pod(raw: bytes | Raw) -> Pod:
    if raw == NULL:
        raise BadRequestError("Pod: missing")
    bound_pod(raw)
    try:
        return explained_pod(raw)
    except DecodeError as error:
        raise BadRequestError(str(error)) from None


def check_parameters(*known: str) -> None:
    """Raises BadRequestError for a query parameter that the endpoint does not have."""
    for name in request.args:
        if name not in (*known, "output"):
            there_are = ", ".join([*known, "output"])
            raise BadRequestError(f"unknown parameter {shown(name)!r}; there are: {there_are}")


def asks_text() -> bool:
    """Whether ?output= asks for text. Raises BadRequestError."""
    output = request.args.get("output", "json")
    if output not in ("json", "text"):
        raise BadRequestError(f"output: expected json or text, got {shown(output)!r}")
    return output == "text"


def answer(document: Document, text: Callable[[Document, Screen], str]) -> Response:
    """The document as JSON or text, as ?output= asks. Raises BadRequestError."""
    if asks_text():
        return Response(text(document, Screen()), content_type="text/plain; charset=utf-8")
    return Response(encode(document), mimetype="application/json")


def not_found(kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    found = similar(name, known)
    return NotFoundError(f'{kind} "{shown(name)}" not found{did_you_mean(name, found)}', found)


def synced(service: Service) -> Snapshot:
    """The newest snapshot. Raises UndecidedError before the first sync."""
    return _checked(service.source.snapshot)


def _checked(snapshot: Snapshot, *, nodes: bool = True) -> Snapshot:
    if not snapshot.runtime_classes_synced:
        raise not_synced("RuntimeClasses")
    if nodes and not snapshot.nodes_synced:
        raise not_synced("nodes")
    return snapshot


class ExplainEndpoint:
    def __init__(self, service: Service) -> None:
        self._service = service

    def install(self, app: Flask, *, of_ops: bool) -> None:
        """of_ops: for the listener of --ops-bind, which has no endpoints of verbs."""
        app.add_url_rule("/explain", "explain", self._explain, methods=["GET", "POST"])
        if not of_ops:
            app.add_url_rule("/prioritize", "prioritize", self._prioritize, methods=["POST"])

    def _explain(self) -> Response:
        is_named, nodes = request.method == "GET", request.args.get("nodes", "")
        check_parameters(*(["pod"] if is_named else []), "nodes")
        if nodes not in ("", "all"):
            raise BadRequestError(f"nodes: expected all, got {shown(nodes)!r}")
        if is_named:
            pod, rules = self.pod_named(request.args.get("pod", ""))
            args = ExplainArgs(pod)
        else:
            args, rules = self._posted(request.get_data()), None
        document = self.document(args, rules, all_nodes=bool(nodes), with_outlook=True)
        return answer(document, explanation_text)

    def _posted(self, body: bytes) -> ExplainArgs:
        """Read JSON, or YAML as in the form of the page. Raises BadRequestError."""
        if not body.strip() or body.lstrip()[:1] in b'{["':
            return decode_explain_args(body)
        pods, _ = self._service.read_pods(body)
        if len(pods) > 1:
            raise BadRequestError(f"body: holds {len(pods)} objects, send one: {listed([*pods])}")
        (pod,) = pods.values()
        return ExplainArgs(pod)

    def pod_named(self, text: str) -> tuple[Pod, NamespaceRules | None]:
        """The pod, its namespace's rules. Raises BadRequestError, NotFoundError, UndecidedError."""
        namespace, _, name = text.partition("/")
        if not namespace or not name or "/" in name:
            raise BadRequestError(f"pod: expected NAMESPACE/NAME, got {shown(text)!r}")
        with self._service.turn.released():
            pod = self._service.find_pod(namespace, name)
            rules = self._service.rules_of_namespace(namespace) if pod else None
        if pod is None:
            raise not_found("Pod", text, self._service.known_pods())
        return pod, rules

    def document(
        self,
        args: ExplainArgs,
        rules: NamespaceRules | None = None,
        *,
        all_nodes: bool = False,
        with_outlook: bool = False,
    ) -> Document:
        """The explanation. with_outlook: read pods too, to predict the event of kube-scheduler."""
        service, of_request = self._service, isinstance(args.nodes, NodeItems)
        own, snapshot = service.resolve_waiting(args.pod)
        _checked(snapshot, nodes=not of_request)
        if isinstance(args.nodes, NodeItems):
            wanted = Wanted.of((own,) if own else ())
            candidates = described_nodes(args.nodes.nodes, names_of(args.nodes).names, wanted)
        else:
            candidates = nodes_of(snapshot, args.nodes.names if args.nodes else None)

        def version() -> Version | None:
            with service.turn.released():
                return service.kubernetes_version()

        def pods_beside(incoming: IncomingPod) -> Sequence[PodLoad]:
            with service.turn.released():
                return list(service.pods_beside(incoming))

        beside = pods_beside if with_outlook else None
        asked = Question(args.pod, own, candidates, service.policy, version)
        explanation, document = explained(asked, rules, beside)
        if all_nodes:
            document["nodes"] = nodes_document(explanation)
        if all_nodes and not of_request:
            # kube-scheduler asks for the scores of nodes that passed every filter.
            names = candidates.names if args.nodes else explanation.passing
            document["scores"] = scores_document(own, snapshot, names, service.preferences)
        return document

    def _prioritize(self) -> Response:
        check_parameters()
        service, args = self._service, decode_args(request.get_data())
        if not asks_text():
            scored = PrioritizeVerb(service).scored(args)
            return Response(b"".join(scored), mimetype="application/json")
        snapshot, preferences = synced(service), service.preferences
        own = snapshot.runtime_classes.get(args.pod.runtime_class_name)
        if isinstance(args.nodes, NameRun):
            scores = scores_document(own, snapshot, args.nodes.names, preferences)
        else:
            found = preferences.scores_of_nodes(own, snapshot, args.nodes.nodes).scores
            scores = {
                node.name: {"cost": None, "score": score, "serves": []}
                for node, score in zip(args.nodes.nodes, found, strict=True)
            }
        return answer({"scores": scores}, scores_text)
