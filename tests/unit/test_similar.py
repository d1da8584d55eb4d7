"""Names suggested for a misspelt one."""

import time

import pytest

from extender.model.similar import did_you_mean
from tests.cases_file import rows

#: Processor time, which other load does not change; kube-scheduler's calls wait meanwhile.
SECONDS = 0.1


@pytest.mark.parametrize(
    ("asked", "known", "said"),
    [
        *rows("similar", "names_that_look_alike_are_suggested"),
        pytest.param("k" * 300, ["k" * 253], "", id="longer than a name"),
    ],
)
def test_names_that_look_alike_are_suggested(asked: str, known: list[str], said: str) -> None:
    assert did_you_mean(asked, known) == said


def test_among_many_nodes_a_neighbour_is_found_in_no_time() -> None:
    names = [f"ip-10-0-{n // 250}-{n % 250}.eu-central-1.compute.internal" for n in range(65_000)]
    started = time.process_time()
    said = did_you_mean("ip-10-0-7-11.eu-central-1.compute.internl", names)
    assert time.process_time() - started < SECONDS
    assert '"ip-10-0-7-11.eu-central-1.compute.internal"' in said
