"""Which priority level kube-apiserver gives each identity of the service: docs/sizing.md."""

import http.client
import json
import re
import ssl
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from tests.config.kustomize import printed
from tests.config.shipped import FOLDER
from tests.e2e.cluster import EXTENDER, Cluster
from tests.processes import ROOT, until

_PAGE: Final = (ROOT / "docs" / "sizing.md").read_text()
_FLOW_CONTROL: Final = "/apis/flowcontrol.apiserver.k8s.io/v1"

#: How each is installed → what is applied for it.
_FOLDERS: Final = {
    "control-plane": "control-plane",
    "second-scheduler": "second-scheduler/beside-plugin",
    "remote": "remote/base",
    "webhook": "webhook/base",
}


def _rows() -> dict[str, list[str]]:
    section = _PAGE.partition("## Who the service is to API priority")[2]
    rows = [row.strip("|").split("|") for row in section.splitlines() if row.startswith("| ")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in rows[1:]}


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
    assert set(_rows()) == set(_FOLDERS)


@pytest.mark.parametrize("way", _FOLDERS)
def test_each_identity_is_where_the_page_says(way: str, beside: Cluster) -> None:
    beside.apply(printed(FOLDER / _FOLDERS[way]))
    identity, flow_schema, level = _rows()[way]
    token = _token(beside, identity)
    assert _judged(beside, token) == (flow_schema.strip("`"), level.strip("`"))


def test_the_flow_schema_of_the_page_puts_all_of_them_beside_kube_scheduler(
    beside: Cluster,
) -> None:
    section = _PAGE.partition("## Who the service is to API priority")[2]
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    schema = yaml.safe_load(block)
    tokens = []
    for way, folder in _FOLDERS.items():
        beside.apply(printed(FOLDER / folder))
        tokens.append(_token(beside, _rows()[way][0]))
    beside.apply(json.dumps(schema))
    try:
        for token in (*tokens, "scheduler-token"):
            until(lambda token=token: _judged(beside, token)[1] == "workload-high")  # type: ignore[misc]
    finally:
        path = f"{_FLOW_CONTROL}/flowschemas/{schema['metadata']['name']}"
        assert beside.request("DELETE", path)[0] == 200
