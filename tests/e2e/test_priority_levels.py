"""Which priority level kube-apiserver gives each identity of the service: docs/sizing.md."""

import http.client
import json
import re
import ssl
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from tests.config.pages import blocks, rows, section
from tests.config.shipped import INSTALL
from tests.e2e.cluster import EXTENDER, Cluster
from tests.e2e.test_webhook import open_kinds
from tests.processes import until

_HEADING: Final = "## Who the service is to API priority and fairness"
_FLOW_CONTROL: Final = "/apis/flowcontrol.apiserver.k8s.io/v1"

_WAYS: Final = ("control-plane", "second-scheduler", "remote", "webhook")


def _install(where: Cluster, way: str) -> None:
    open_kinds(where)
    where.apply((INSTALL / f"{way}.yaml").read_text())


def _rows() -> dict[str, list[str]]:
    return {way: rest for way, *rest in rows(section("sizing", _HEADING))}


def _token(where: Cluster, identity: str) -> str:
    account = re.search(r"service account `([^/]+)/([^`]+)`", identity)
    if account:
        return where.account_token(account[1], account[2])
    assert identity == f"user `{EXTENDER}`"
    return "extender-token"


def _judged(where: Cluster, token: str) -> tuple[str, str]:
    """(FlowSchema, priority level) of a request: each answer has their UIDs."""
    context = ssl.create_default_context(cafile=str(where.authority.cert))
    connection = http.client.HTTPSConnection(urlsplit(where.url).netloc, context=context, timeout=9)
    try:
        connection.request("GET", "/api/v1/nodes", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        uids = [answer.headers[f"X-Kubernetes-PF-{what}-UID"] for what in _KINDS]
    finally:
        connection.close()
    return _named(where, "flowschemas", uids[0]), _named(
        where, "prioritylevelconfigurations", uids[1]
    )


_KINDS: Final = ("FlowSchema", "PriorityLevel")


def _named(where: Cluster, resource: str, uid: str) -> str:
    _, found = where.request("GET", f"{_FLOW_CONTROL}/{resource}")
    items: list[Any] = found["items"]
    (name,) = (each["metadata"]["name"] for each in items if each["metadata"]["uid"] == uid)
    return str(name)


def test_the_page_has_a_row_for_each_way_to_install() -> None:
    assert set(_rows()) == set(_WAYS)


@pytest.mark.parametrize("way", _WAYS)
def test_each_identity_is_where_the_page_says(way: str, beside: Cluster) -> None:
    _install(beside, way)
    identity, flow_schema, level = _rows()[way]
    token = _token(beside, identity)
    assert _judged(beside, token) == (flow_schema.strip("`"), level.strip("`"))


def test_the_flow_schema_of_the_page_puts_all_of_them_beside_kube_scheduler(
    beside: Cluster,
) -> None:
    (block,) = blocks(section("sizing", _HEADING), "yaml")
    schema = yaml.safe_load(block)
    tokens = []
    for way in _WAYS:
        _install(beside, way)
        tokens.append(_token(beside, _rows()[way][0]))
    beside.apply(json.dumps(schema))
    try:
        for token in (*tokens, "scheduler-token"):
            until(lambda token=token: _judged(beside, token)[1] == "workload-high")  # type: ignore[misc]
    finally:
        path = f"{_FLOW_CONTROL}/flowschemas/{schema['metadata']['name']}"
        assert beside.request("DELETE", path)[0] == 200
