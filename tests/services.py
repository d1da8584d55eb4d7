"""The service over the nodes and classes of a test, asked without a socket."""

import time
from collections.abc import Iterable
from typing import Any

from extender.http.health import Health
from extender.model.objects import Node, RuntimeClass
from extender.rules.snapshot import SnapshotSource
from extender.server.app import create_app
from extender.verbs.metrics import Metrics
from extender.verbs.outcomes import RefusedPods
from extender.verbs.service import Service
from tests.asking import Client
from tests.stores import store_of


def service_over(store: SnapshotSource, **fields: Any) -> Service:
    """fields: those of Service that are not the usual ones."""
    fields.setdefault("refused", RefusedPods(time.monotonic))
    return Service(store, Metrics(), Health(lambda: store.snapshot), **fields)


def client_of(service: Service) -> Client:
    return Client(create_app(service))


def client_over(nodes: Iterable[Node], classes: Iterable[RuntimeClass], **fields: Any) -> Client:
    return client_of(service_over(store_of(nodes, classes), **fields))
