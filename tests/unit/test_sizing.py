"""What make bench-sizing assumes of a cluster, how it searches, and what it says of a size."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest import sizing_tables, webhook_limit
from loadtest.generator import Cluster, ClusterSpec
from loadtest.shipped import shipped
from loadtest.sizing_model import Load, Run, offered
from loadtest.tables import terminal
from loadtest.webhook_limit import LIMIT_MS, Limit, Step

LOAD = Load(nodes=1_000, pods=10_000, pods_a_second=10, node_bytes=10_000)

RUN = Run(
    load=LOAD,
    mode="shipped",
    ready=1.0,
    complete=1.0,
    start_processor=1.0,
    following=0.01,
    asked=0.02,
    placed=10.0,
    filter_p50=0.3,
    filter_p99=0.5,
    memory=90 * 2**20,
    peak=130 * 2**20,
    watches=2,
    start_requests=3,
    start_bytes=10 * 2**20,
    bytes_a_second=130_000.0,
    update_milliseconds=0.1,
)


@pytest.mark.parametrize(
    ("nodes", "asked"),
    [(50, 50), (100, 100), (1_000, 420), (5_000, 500), (6_000, 300), (65_000, 3_250)],
)
def test_so_many_nodes_are_asked_about(nodes: int, asked: int) -> None:
    """numFeasibleNodesToFind, pkg/scheduler/schedule_one.go, v1.36.2."""
    assert offered(nodes) == asked


@pytest.mark.parametrize(
    ("nodes", "updates"), [(10, 1.0), (3_000, 40.0), (65_000, 65_000 / 300 + 100)]
)
def test_kubelets_report_each_five_minutes_and_changes_at_most_each_ten_seconds(
    nodes: int, updates: float
) -> None:
    assert Load.of(Cluster(ClusterSpec(nodes))).node_updates == pytest.approx(updates)


def step(rate: int, *, kept: bool = True) -> Step:
    return Step(rate, float(rate), 1.0, LIMIT_MS if kept else LIMIT_MS + 1, rate / 4_000)


@given(st.integers(1, 10_000), st.integers(0, 6))
def test_the_search_ends_between_what_is_kept_and_what_is_not(limit: int, refinements: int) -> None:
    """No rate above the limit is told to be kept, and each refinement halves what is unknown."""
    steps = webhook_limit.search(
        lambda rate: step(rate, kept=rate <= limit), refinements=refinements
    )
    assert [each.rate for each in steps] == sorted({each.rate for each in steps})
    found = Limit(steps, 0, 0)
    if found.kept is None:
        assert found.too_many == webhook_limit.RATES[0] > limit
    elif found.too_many is None:
        assert found.kept.rate == webhook_limit.RATES[-1] <= limit
    else:
        assert found.kept.rate <= limit < found.too_many
        assert found.too_many - found.kept.rate <= -(-found.kept.rate // 2**refinements) + 1


def test_a_rate_that_failed_once_is_tried_again() -> None:
    failed: set[int] = set()

    def measure(rate: int) -> Step:
        is_first = rate not in failed
        failed.add(rate)
        return step(rate, kept=not is_first)

    assert Limit(webhook_limit.search(measure), 0, 0).too_many is None


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(replace(step(100), p99=LIMIT_MS + 0.1), id="answers come too late"),
        pytest.param(replace(step(100), placed=94.0), id="fewer pods than were due"),
    ],
)
def test_a_rate_is_kept_by_time_and_by_number(slow: Step) -> None:
    assert step(100).is_kept
    assert not slow.is_kept


def test_the_shipped_resources_are_the_least_of_all_manifests() -> None:
    assert shipped("requests", "cpu", review=False) == 100
    assert shipped("requests", "memory", review=True) == 96 * 2**20
    assert shipped("limits", "memory", review=False) == 1024 * 2**20


def test_what_does_not_fit_the_shipped_requests_is_told() -> None:
    busier, larger = replace(RUN, asked=0.101), replace(RUN, memory=140 * 2**20)
    assert (sizing_tables.cpu_request(busier), sizing_tables.memory_request(larger)) == (150, 192)
    assert sizing_tables.over_shipped([RUN]) == []
    for run in (busier, larger):
        assert sizing_tables.over_shipped([RUN, run]) == ["1,000 nodes as shipped"]


def test_pods_that_are_followed_raise_the_memory_limit_by_what_they_take() -> None:
    following = replace(RUN, mode="watch-pods", memory=RUN.memory + 100 * 2**20)
    assert sizing_tables.memory_limit(RUN, RUN) == 1024
    assert sizing_tables.memory_limit(following, RUN) == 1024 + 96


def test_more_replicas_multiply_the_load_of_the_api_server_and_nothing_else() -> None:
    report = "\n".join(sizing_tables.report(terminal, [RUN], Limit([step(50)], 2**20, 2**20)))
    assert "2 / 16 / 127  4 / 32 / 254  6 / 48 / 381" in report
    assert report.count("90.0") == 1
