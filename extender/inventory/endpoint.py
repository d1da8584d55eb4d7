"""The endpoints about RuntimeClasses and nodes."""

from collections.abc import Iterable
from typing import Final

from flask import Flask, Response, request

from extender.explain.document import Document
from extender.explain.endpoint import answer, check_parameters, not_found, synced
from extender.inventory import matching
from extender.model.errors import BadRequestError
from extender.model.names import text_of
from extender.model.objects import RuntimeClass
from extender.model.reasons import shown
from extender.rules.class_nodes import classes_of_node, nodes_of_class
from extender.rules.snapshot import Snapshot
from extender.verbs.service import Service

#: The number of nodes listed by default (without ?limit=): 200 KB, enough for a person.
DEFAULT_LISTED_NODES: Final = 1000


def class_named(snapshot: Snapshot, name: str) -> RuntimeClass:
    """The class of that name. Raises NotFoundError."""
    runtime_class = snapshot.runtime_classes.get(name)
    if runtime_class is None:
        raise not_found("RuntimeClass", name, snapshot.runtime_classes)
    return runtime_class


def asked_limit() -> int | None:
    """The value of ?limit=N, None without it. Raises BadRequestError."""
    text = request.args.get("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequestError(f"limit: expected a whole number, got {shown(text)!r}")
    return int(text)


def _asked_part() -> str:
    """The value of ?q= in lower case: the part of a name to search for, as on the pages."""
    return request.args.get("q", "").casefold()


class InventoryEndpoint:
    """Answers from the newest snapshot; 503 until the snapshot is synced."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def install(self, app: Flask) -> None:
        for path, endpoint, view in (
            ("/runtimeclasses", "runtimeclasses", self._classes),
            ("/runtimeclasses/<name>", "runtimeclass", self._class),
            ("/runtimeclasses/<name>/nodes", "class_nodes", self._class_nodes),
            ("/nodes", "nodes", self._nodes),
            ("/nodes/<name>", "node", self._node),
        ):
            app.add_url_rule(path, endpoint, view, methods=["GET"])

    def _classes(self) -> Response:
        check_parameters("q")
        snapshot, text = synced(self._service), _asked_part()
        classes = [each for each in snapshot.classes_by_name if text in each.name.casefold()]
        return answer({"items": self._documents(snapshot, classes)}, matching.class_list_text)

    def _class(self, name: str) -> Response:
        check_parameters()
        return answer(self.class_document(name), matching.class_text)

    def class_document(self, name: str) -> Document:
        """Raises NotFoundError, UndecidedError."""
        snapshot = synced(self._service)
        return self._documents(snapshot, [class_named(snapshot, name)])[0]

    def _documents(self, snapshot: Snapshot, classes: Iterable[RuntimeClass]) -> list[Document]:
        service = self._service
        return matching.class_documents(classes, snapshot, service.support, service.policy)

    def _class_nodes(self, name: str) -> Response:
        check_parameters("limit")
        snapshot, limit = synced(self._service), asked_limit()
        nodes = nodes_of_class(class_named(snapshot, name), snapshot, self._service.policy)
        document = matching.class_nodes_document(name, nodes, snapshot, limit)
        return answer(document, matching.class_nodes_text)

    def _nodes(self) -> Response:
        check_parameters("limit", "q")
        snapshot, limit = synced(self._service), asked_limit()
        part = _asked_part().encode("utf-8", "replace")
        found = sorted(name for name in snapshot.nodes if part in name.lower())
        names = found[: DEFAULT_LISTED_NODES if limit is None else limit]
        document = self.node_list(names, snapshot, len(found) - len(names))
        return answer(document, matching.node_list_text)

    def node_list(self, names: Iterable[bytes], snapshot: Snapshot, left_out: int = 0) -> Document:
        shapes = ((name, snapshot.nodes[name]) for name in names)
        items = [
            matching.listed_node_document(
                name, snapshot.shapes[shape], self._service.support.classes(snapshot, shape)
            )
            for name, shape in shapes
        ]
        return {"items": items, "leftOut": left_out}

    def _node(self, name: str) -> Response:
        check_parameters()
        return answer(self.node_document(name), matching.node_text)

    def node_document(self, name: str) -> Document:
        """Raises NotFoundError, UndecidedError."""
        snapshot = synced(self._service)
        node = name.encode("utf-8", "replace")
        shape = snapshot.shape(node)
        if shape is None:
            raise not_found("Node", name, map(text_of, snapshot.nodes))
        classes = classes_of_node(shape, snapshot.classes_by_name, self._service.policy)
        return matching.node_document(node, shape, classes)
