"""The measurements run against real servers, and their verdicts follow from what they measured."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from loadtest import bench, live, publish, run, scheduler
from loadtest.cases import HALF, NAMES, Case
from loadtest.comparing import FLOOR, SERVICE, Result
from loadtest.judging import Limit
from loadtest.processes import Usage
from loadtest.run import Measured, Series
from loadtest.scheduler_cases import NONE, Configuration, Kind, of_other
from loadtest.scheduling import Run
from loadtest.timing import Times, percentile
from tests.e2e import cluster


def a_result(nodes: int, p50: float, p99: float) -> Result:
    times = {SERVICE: Times(100, p50, p99), FLOOR: Times(100, 1.0, 1.0)}
    return Result(Case("filter", NAMES, HALF, nodes), times)


def a_run(pods_per_second: float) -> Run:
    return Run(pods_per_second, 1.0, 1.0, 1.0, 1.0, 0.0)


def broken(limits: Iterator[Limit]) -> Sequence[str]:
    return [each.text for each in limits if not each.kept]


def test_bench_asks_service_and_webhook_beside_the_floor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["--sizes=10", "--requests=4", "--out", str(tmp_path)]) in (0, 1)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 100
    verbs = {line.split()[1] for line in printed.splitlines() if line.startswith("| ")}
    assert {"filter", "prioritize", "preempt", "mutate", "validate"} <= verbs
    assert printed.startswith((tmp_path / "bench.md").read_text().rstrip())


def test_bench_ends_with_one_line_when_a_server_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "floor_command", lambda: ["false"])
    assert bench.main(["--sizes=10", "--requests=1", "--out", str(tmp_path)]) == 1
    assert "floor.log: ended with exit code 1" in capsys.readouterr().err


def test_each_limit_of_bench_is_judged() -> None:
    assert broken(bench.limits([a_result(10, 2.2, 6.6), a_result(65_000, 3.0, 6.0)])) == []
    slow, tail = broken(bench.limits([a_result(10, 2.21, 4.0), a_result(500, 1.0, 3.1)]))
    assert slow.endswith("filter, half refused, 10 names: 2.21x")
    assert tail.endswith("filter, half refused, 500 names: 3.1x, floor 1.0x")


def test_live_follows_a_cluster_as_shipped(tmp_path: Path) -> None:
    assert live.main(["--sizes=30", "--seconds=1.5", "--out", str(tmp_path)]) == 0
    written = (tmp_path / "live.md").read_text()
    *_, row = [line.split() for line in written.splitlines() if line.startswith("|    30 |")]
    assert row[3] == "3", "watches"


def a_measurement(before: float, beside: float, after: float, grown: int = 0) -> Measured:
    usage = Usage(100 * 2**20, 4, 20)
    rest = Usage(usage.rss + grown, 4, 20)
    one, two, three = Series([before]), Series([beside]), Series([after])
    return Measured([], one, two, three, usage, usage, rest, peak=2**28, errors=0)


def test_requests_beside_hostile_clients_are_held_to_those_without() -> None:
    assert broken(a_measurement(1, 50, 1).limits()) == []
    assert broken(a_measurement(5, 56, 6).limits()) == []
    (slow,) = broken(a_measurement(1, 52, 1).limits())
    (memory,) = broken(a_measurement(1, 1, 1, grown=17 * 2**20).limits())
    assert slow.startswith("hostile clients add 51.0 ms")
    assert memory.startswith("memory at rest: 117")


def test_without_the_programs_bench_scheduler_says_so_and_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "ASSETS", tmp_path)
    assert scheduler.main(["--out", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"scheduler: nothing measured: {tmp_path} has no etcd, kube-apiserver" in line
    assert not (tmp_path / "scheduler.md").exists()


def test_without_locust_the_load_test_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "locust", None)
    assert run.main(["--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith("locust is not installed here: make loadtest\n")


def test_shares_are_of_the_same_round_and_so_is_the_comparison_with_another_service() -> None:
    asked = Configuration("filter", ("filter",))
    results = {
        (Kind.PLAIN, NONE): [a_run(100), a_run(300)],
        (Kind.PLAIN, asked): [a_run(50), a_run(210)],
        (Kind.PLAIN, of_other(asked)): [a_run(50), a_run(240)],
    }
    (_, base, row, _) = scheduler.rows(results)
    assert (base[2], base[3]) == ("200", "1.00x")
    assert row[:5] == ("no class", "filter", "130", "0.60x", "0.50x")
    text, of_all = broken(scheduler.against_other(results))
    assert text.startswith("no class, filter: 0.938x the pods a second of --other")
    assert of_all == "all rows: 0.938x, standard error 0.062, at least 0.97x"


def test_a_percentile_is_one_of_the_times() -> None:
    found = [percentile([4.0, 1.0, 3.0, 2.0], percent) for percent in (1, 50, 75, 99, 100)]
    assert found == [1.0, 2.0, 3.0, 4.0, 4.0]


def test_only_what_was_measured_is_put_between_the_marks_of_the_pages(tmp_path: Path) -> None:
    for document in publish.NAMES:
        (tmp_path / document).write_text((publish.DOCS / document).read_text())
    (tmp_path / "bench.md").write_text("| \\1 new |\n")
    publish.publish(tmp_path, tmp_path)
    before = (publish.DOCS / "performance.md").read_text()
    head, _, rest = before.partition("<!-- bench -->\n")
    _, _, tail = rest.partition("<!-- end bench -->")
    new = f"{head}<!-- bench -->\n| \\1 new |\n<!-- end bench -->{tail}"
    assert (tmp_path / "performance.md").read_text() == new
    sizing = (publish.DOCS / "sizing.md").read_text()
    assert (tmp_path / "sizing.md").read_text() == sizing
