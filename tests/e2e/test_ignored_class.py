"""No field of the real API is taken for a near miss of runtimeClassName."""

from extender.kubernetes.workloads import ignored_class
from tests.e2e.cluster import Cluster


def test_no_field_that_kube_apiserver_knows_is_a_near_miss(instead: Cluster) -> None:
    fields: set[str] = set()
    for group in ("api/v1", "apis/apps/v1", "apis/batch/v1"):
        schemas = instead.get(f"/openapi/v3/{group}")["components"]["schemas"]
        fields.update(name for each in schemas.values() for name in each.get("properties", ()))
    assert "runtimeClassName" in fields
    spec = dict.fromkeys(fields - {"runtimeClassName"}, "x")
    assert not [*ignored_class({"kind": "Pod", "spec": spec}, "Pod")]
