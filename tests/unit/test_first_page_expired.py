"""A list starts over after a 410 for its continue token; any other failure ends it."""

from pathlib import Path

import pytest

from extender.cluster.api.connection import ApiConnection, ConnectionFaultError
from extender.cluster.requeue import refused_pods
from tests.fakes.apiserver import PODS, FakeApiServer, Fault, pod
from tests.fakes.following import config_for


@pytest.mark.parametrize(
    ("page", "status"), [(1, 410), *((2, each) for each in (403, 429, 500, 503))]
)
def test_a_failure_that_is_no_expired_token_ends_the_list(
    page: int, status: int, tmp_path: Path
) -> None:
    """The failure is reported, and a list of thousands of pods does not start over at once."""
    with FakeApiServer() as api:
        for number in range(501):
            api.put(PODS, pod(f"p{number}", "kata"))
        api.faults[PODS].extend([*[None] * (page - 1), Fault(status=status)])
        connection = ApiConnection(config_for(api, tmp_path))
        with pytest.raises(ConnectionFaultError, match=f"HTTP {status}"):
            list(refused_pods(connection))
        assert len(api.requests) == page
