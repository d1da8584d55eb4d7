"""Law of --reasons: when `unplaced` leaves the reasons out of a filter's answer."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.model.objects import Node, Pod, RuntimeClass
from extender.verbs.filter import Reasons
from tests.json_objects import node_json, pod_json
from tests.property import strategies as some
from tests.services import client_over

_REFUSED = b',"FailedAndUnresolvableNodes":{'
_END = b'},"Error":""}'


def ask(
    nodes: list[Node], classes: list[RuntimeClass], args: dict[str, Any], reasons: Reasons
) -> tuple[bytes, list[str]]:
    """The filter's answer, and the metrics of refusals afterwards."""
    client = client_over(nodes, classes, reasons=reasons)
    response = client.post("/filter", json.dumps(args))
    assert response.status_code == 200, response.data
    counted = client.get("/metrics").text.splitlines()
    return response.data, [each for each in counted if "_rejected_total{" in each]


@given(some.node_lists, some.class_lists, some.pods, some.asked_names, st.booleans())
def test_where_a_node_passes_the_maps_are_empty_and_else_every_byte_is_the_same(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, asked: list[str], whole: bool
) -> None:
    items = {"metadata": {}, "items": list(map(node_json, nodes))}
    of_mode = {"Nodes": items, "NodeNames": None} if whole else {"Nodes": None, "NodeNames": asked}
    args = {"Pod": pod_json(pod), **of_mode}
    (always, counted), (unplaced, counted_too) = (
        ask(nodes, classes, args, reasons) for reasons in (Reasons.ALWAYS, Reasons.UNPLACED)
    )
    assert counted == counted_too
    answer = json.loads(always)
    if answer["NodeNames"] or (answer["Nodes"] or {}).get("items"):
        before, _, _ = always.rpartition(_REFUSED)
        assert unplaced == before + _REFUSED + _END
    else:
        assert unplaced == always
