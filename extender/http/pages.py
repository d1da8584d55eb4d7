"""The pages about a RuntimeClass, nodes and a pod: what the debug endpoints answer, as HTML.

Everything that stands in a page is escaped: names, labels and texts are written by pod authors and
nodes. No page loads anything from another host, and its only script refreshes it.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import orjson
from flask import Response, request

from extender.http.debug_routes import DebugRoutes, Query, class_of
from extender.http.error_answers import answer_of
from extender.http.exchange import Refusal
from extender.http.forms import form_text
from extender.http.overview_page import OverviewPage
from extender.http.service import Service
from extender.http.templating import asked_text, page, page_of
from extender.printing.debug_documents import class_nodes_document, states_of
from extender.verbs.class_nodes import ClassNodes, nodes_of_class
from extender.verbs.pools import Pool
from extender.wire.explain_bodies import ExplainArgs

#: The number of nodes on a page, and for each reason on it.
NODES_A_PAGE: Final = 100
NODES_A_REASON: Final = 100

#: The number of a pod's requirements and warnings on a page; the pod's author decides how many
#: there are.
MAX_EXPLAINED: Final = 200


class Pages:
    """HTML made from the newest snapshot; errors are pages too."""

    def __init__(self, service: Service, routes: DebugRoutes, overview: OverviewPage) -> None:
        self._service = service
        self._routes = routes
        self._overview = overview

    def runtime_class(self, name: str) -> Response:
        service, snapshot = self._service, self._routes.synced()
        runtime_class, pool = class_of(snapshot, name), asked_text("pool")
        nodes = nodes_of_class(runtime_class, snapshot, service.policy)
        if pool:
            nodes = _of_pool(nodes, self._overview.counted(snapshot).pools, pool)
        shown = nodes.matching[:NODES_A_REASON]
        return page(
            "class.html",
            item=self._routes.class_item(name, snapshot),
            nodes=class_nodes_document(name, nodes, states_of(shown, snapshot), NODES_A_REASON),
            matching_count=len(nodes.matching),
            pool=pool,
        )

    def nodes(self) -> Response:
        snapshot, text = self._routes.synced(), asked_text("q")
        wanted = text.encode("utf-8", "replace")
        names = sorted(name for name in snapshot.nodes if wanted in name)
        number, page_count, listed = page_of(names, NODES_A_PAGE)
        return page(
            "nodes.html",
            text=text,
            found=len(names),
            nodes_total=len(snapshot.nodes),
            parameters={"q": text},
            page=number,
            page_count=page_count,
            **self._routes.listed_nodes(listed, snapshot),
        )

    def node(self, name: str) -> Response:
        return page("node.html", **self._routes.node_item(name))

    def explain(self) -> Response:
        rules = None
        if request.method == "POST":
            pasted = form_text(request, "pod")
            pod = self._service.read_pod(pasted.encode("utf-8", "replace"))
        elif "pod" in request.args:
            pasted = ""
            pod, rules = self._routes.pod_named(request.args["pod"])
        else:
            return page("explain.html")
        document = self._routes.explanation(
            ExplainArgs(pod, None), Query(False, False, None), rules
        )
        asked = "" if pasted else request.args.get("pod", "")
        return page("explain.html", pasted=pasted, asked=asked, most=MAX_EXPLAINED, **document)

    def error(self, error: Exception) -> Response:
        """The same error as elsewhere, for a person."""
        answer = answer_of(error)
        try:
            pasted = form_text(request, "pod") if request.method == "POST" else ""
        except Refusal:
            pasted = ""
        message = orjson.loads(b"".join(answer.chunks))["error"]
        response = page(
            "error.html",
            status=answer.status,
            phrase=HTTPStatus(answer.status).phrase,
            message=message,
            pasted=pasted,
        )
        response.status_code = answer.status
        return response


def _of_pool(nodes: ClassNodes, pools: Sequence[Pool], pool: str) -> ClassNodes:
    members = {name for each in pools if each.name == pool for name in each.nodes}
    return ClassNodes(
        [name for name in nodes.matching if name in members],
        [
            (reason, found)
            for reason, names in nodes.not_matching
            if (found := [name for name in names if name in members])
        ],
    )
