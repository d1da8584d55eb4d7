"""A 410 begins a list anew where its continue token explains it; all else is a fault."""

from pathlib import Path

import pytest

from extender.cluster.api.connection import ApiConnection, ConnectionFaultError
from extender.cluster.requeue import refused_pods
from tests.fakes.apiserver import PODS, FakeApiServer, Fault, pod
from tests.fakes.following import config_for

MESSAGE = '0/1 nodes are available: 1 nodes don\'t match RuntimeClass "kata".'
SAID = {"type": "PodScheduled", "status": "False", "message": MESSAGE}
REFUSED = {"status": {"phase": "Pending", "conditions": [SAID]}}


def test_the_listing_of_waiting_pods_fails_and_may_be_tried_again(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(PODS, pod("p", "kata") | REFUSED)
        api.faults[PODS].append(Fault(status=410))
        connection = ApiConnection(config_for(api, tmp_path))
        with pytest.raises(ConnectionFaultError, match="HTTP 410"):
            list(refused_pods(connection))
        assert [each.name for each in refused_pods(connection)] == ["p"]


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_any_other_failure_on_a_later_page_is_no_expired_token(status: int, tmp_path: Path) -> None:
    """It is told, and a list of thousands of pods is not begun anew at once."""
    with FakeApiServer() as api:
        for number in range(501):
            api.put(PODS, pod(f"p{number}", "kata"))
        api.faults[PODS].extend([None, Fault(status=status)])
        connection = ApiConnection(config_for(api, tmp_path))
        with pytest.raises(ConnectionFaultError):
            list(refused_pods(connection))
        assert len(api.requests) == 2
