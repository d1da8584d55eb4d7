"""The benchmarks run: real servers, answers compared, tables that fit."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest import bench, beside, growth, memory, sizing, stacks, start
from loadtest.cases import HALF, NAMES, Case
from loadtest.comparing import Result, Spent
from loadtest.progress import Progress
from loadtest.tables import markdown, terminal
from loadtest.timing import Times, percentile

_MAINS = [bench.main, beside.main, growth.main, memory.main, sizing.main, stacks.main, start.main]


def test_bench_compares_the_three_servers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--sizes=10,200", "--nodes-sizes=10", "--requests=4", "--quick", "--no-plot"]
    assert bench.main([*flags, "--out", str(tmp_path)]) == 0
    table = capsys.readouterr().out
    assert max(map(len, table.splitlines()[:-1])) <= 100
    assert "filter" in table
    results = json.loads((tmp_path / "bench.json").read_text())["results"]
    assert {each["case"]["verb"] for each in results} == {"filter", "prioritize", "preempt"}
    assert {name for each in results for name in each["times"]} == {"service", "floor", "plain"}
    assert all(each["times"]["service"]["requests"] == 4 for each in results)
    assert all(each["spent"].keys() == {"service", "floor"} for each in results)
    for each in (spent for result in results for spent in result["spent"].values()):
        assert 0 < each["processor"] < 100
        assert 0 < each["switches"] < 100


@pytest.mark.parametrize("main", _MAINS)
def test_each_says_what_its_flags_are(
    main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "--out DIR" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("processor", "switches", "p50", "told"),
    [
        pytest.param(0.12, 1.04, 2.0, [], id="all limits are kept"),
        pytest.param(0.121, 1.0, 2.0, ["0.121 ms of processor time, limit 0.12 ms"], id="time"),
        pytest.param(0.12, 1.06, 2.0, ["1.1 context switches, limit 1"], id="switches"),
        pytest.param(0.12, 1.0, 2.01, ["2.01x the floor, limit 2.0x"], id="ratio"),
    ],
)
def test_what_is_over_its_limit_is_told(
    processor: float, switches: float, p50: float, told: list[str]
) -> None:
    times = {"service": Times(1, p50, p50, p50), "floor": Times(1, 1.0, 1.0, 1.0)}
    case = Case("filter", NAMES, HALF, 10)
    result = Result(case, 1, 1, times, {"service": Spent(processor, switches)})
    assert bench.over_limit([result], None) == [f"{case}: {each}" for each in told]


def test_a_long_tail_is_told() -> None:
    tail = Result(
        Case("filter", NAMES, HALF, 500),
        1,
        1,
        {"service": Times(5_000, 1.0, 3.1, 1.0), "floor": Times(5_000, 1.0, 1.0, 1.0)},
        {},
    )
    (line,) = bench.over_limit([], tail)
    assert "p99/p50 3.10 (limit 3)" in line


def test_bench_ends_with_one_line_when_a_server_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "floor_command", lambda: ["false"])
    flags = ["--sizes=10", "--nodes-sizes=10", "--requests=1", "--quick", "--no-plot"]
    assert bench.main([*flags, "--out", str(tmp_path)]) == 1
    assert "floor.log: ended with exit code 1" in capsys.readouterr().err


def test_start_measures_a_fresh_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(["--nodes", "300", "--requests", "2", "--out", str(tmp_path)]) == 0
    assert "start-up until ready, s" in capsys.readouterr().out


def test_stacks_compares_servers_that_answer_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--sizes=10,200", "--requests=3", "--servers=floor,floor-asyncio,own"]
    assert stacks.main([*flags, "--out", str(tmp_path)]) == 0
    table = capsys.readouterr().out
    assert max(map(len, table.splitlines())) <= 100
    for words in ("bare protocol, uvloop", "bare protocol, asyncio", "our server", "the service"):
        assert table.count(words) == 2
    assert "closes" not in table
    assert "| our server" in (tmp_path / "stacks.md").read_text()


def test_growth_edits_runtimeclasses_under_load(tmp_path: Path) -> None:
    sweeps = growth.Sweeps(None, quick=True, out=tmp_path, progress=Progress())
    still, changing = sweeps.changing()
    assert still.times.requests == changing.times.requests
    assert changing.value >= 1


def test_memory_is_held_against_the_shipped_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--nodes=300", "--max-mebibytes=8", "--kinds=null Nodes,review of tolerations"]
    assert memory.main([*flags, "--out", str(tmp_path)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[-1] for row in rows if row and row[-1].endswith(".0")] == ["1024.0", "256.0"]


def test_sizing_follows_a_cluster_and_finds_what_the_webhook_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--sizes=30", "--seconds=0.4", "--webhook-seconds=0.2", "--webhook-rates=1"]
    assert sizing.main([*flags, "--no-plot", "--out", str(tmp_path)]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines()[:-1])) <= 100
    found = json.loads((tmp_path / "sizing.json").read_text())
    plain, watching = found["sizes"]
    assert (plain["watches"], watching["watches"]) == (2, 3)
    # A list of the waiting pods besides, of --requeue-pods.
    assert (plain["start_requests"], watching["start_requests"]) == (3, 4)
    assert plain["start_bytes"] > 30 * plain["load"]["node_bytes"]
    assert watching["bytes_a_second"] > plain["bytes_a_second"] > 0
    assert 0 < plain["following"] < 1
    assert 0 < plain["asked"] < 1
    assert found["webhook"]["steps"][0]["rate"] == 50
    assert "| 30 " in (tmp_path / "sizing.md").read_text().replace("|    30", "| 30")


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 2.0), (75, 3.0), (99, 4.0), (100, 4.0), (1, 1.0)]
)
def test_a_percentile_is_one_of_the_times(percent: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == expected


def test_numbers_of_a_table_stand_flush_right() -> None:
    rows = [("verb", "ms"), ("filter", "12.5"), ("x", "1,000")]
    assert terminal(rows).splitlines() == [
        "verb       ms",
        "-------------",
        "filter   12.5",
        "x       1,000",
    ]
    assert markdown(rows).splitlines()[1] == "| ------ | ----: |"
