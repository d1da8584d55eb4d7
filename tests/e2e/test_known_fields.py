"""The fields that manifests may have are those of the real API."""

from typing import Any, Final

import pytest

from extender.cluster.misspelt import FIELDS, Fields
from tests.e2e.cluster import Cluster

#: By kind where its schema stands in /openapi/v3.
SCHEMAS: Final = {
    "Namespace": ("api/v1", "io.k8s.api.core.v1.Namespace"),
    "Node": ("api/v1", "io.k8s.api.core.v1.Node"),
    "Pod": ("api/v1", "io.k8s.api.core.v1.Pod"),
    "RuntimeClass": ("apis/node.k8s.io/v1", "io.k8s.api.node.v1.RuntimeClass"),
}


def unknown(schema: Any, schemas: dict[str, Any], known: Fields, place: str) -> list[str]:
    """The fields of a schema that are not known, as far as `known` goes into it."""
    while "properties" not in schema:
        schema = schema.get("items") or schema.get("allOf", [schema])[0]
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rpartition("/")[2]]
    found = []
    for name, inside in schema["properties"].items():
        if name not in known:
            found.append(f"{place}.{name}")
        elif known[name]:
            found += unknown(inside, schemas, known[name], f"{place}.{name}")
    return found


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_field_that_is_looked_at_is_known(kind: str, instead: Cluster) -> None:
    group, name = SCHEMAS[kind]
    schemas = instead.get(f"/openapi/v3/{group}")["components"]["schemas"]
    assert unknown(schemas[name], schemas, FIELDS[kind], kind) == []
