"""make bench-scheduler where it can't measure, and what it makes of what it has measured."""

from pathlib import Path

import pytest

from loadtest import scheduler
from loadtest.scheduler_cases import ALL_NODES, NONE, Configuration, Kind, base_of, plan
from loadtest.scheduling import Run
from tests.e2e import cluster


def a_run(pods_per_second: float) -> Run:
    return Run(pods_per_second, 1.0, 1.0, 1.0, 1.0, 0.0)


def test_without_the_programs_it_says_so_and_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "ASSETS", tmp_path)
    assert scheduler.main(["--out", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"scheduler: nothing measured: {tmp_path} has no etcd, kube-apiserver")
    assert not (tmp_path / "scheduler.md").exists()


def test_shares_are_of_the_same_round() -> None:
    asked = Configuration("filter", ("filter",))
    results = {
        (Kind.PLAIN, NONE): [a_run(100), a_run(300)],
        (Kind.PLAIN, asked): [a_run(50), a_run(210)],
    }
    assert scheduler.shares(results, Kind.PLAIN, asked) == pytest.approx([0.5, 0.7])
    (_, base, row) = scheduler.rows(results)
    assert (base[2], base[3]) == ("200", "1.00x")
    assert row[:5] == ("no class", "filter", "130", "0.60x", "0.50x")


@pytest.mark.parametrize("quick", [True, False])
def test_each_configuration_is_tried_beside_what_it_is_a_share_of(quick: bool) -> None:
    tried = plan([], quick=quick)
    assert len(tried) == len(set(tried))
    for kind, configuration in tried:
        assert (kind, base_of(configuration)) in tried
    assert any(each in ALL_NODES for _, each in tried) is not quick


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("go", "'go' is not NAME=COMMAND with {port} in it", id="no command"),
        pytest.param("go=./go", "'go=./go' is not NAME=COMMAND with {port} in it", id="no port"),
    ],
)
def test_another_extender_is_a_name_and_a_command_with_a_port(
    text: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        scheduler.main(["--also", text])
    assert line in capsys.readouterr().err
