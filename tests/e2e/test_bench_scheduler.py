"""make bench-scheduler measures the real kube-scheduler, and counts who is asked about."""

from pathlib import Path

from loadtest import scheduler

_SMALL = ["--nodes=60", "--pods=60", "--rounds=1"]


def test_plain_pods_make_no_request_where_only_marked_ones_are_asked_about(tmp_path: Path) -> None:
    assert scheduler.main([*_SMALL, f"--out={tmp_path}"]) == 0
    lines = (tmp_path / "scheduler.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")] for line in lines if line.startswith("| ")]
    requests = {(row[1], row[2]): float(row[-3]) for row in rows[2:]}
    for kind in ("no class", "class"):
        assert requests[kind, "no extender"] == 0
        assert requests[kind, "filter"] == 1
        assert requests[kind, "filter, preempt"] == 1
        assert requests[kind, "all three verbs"] == 2
    assert requests["no class", "marked pods only"] == 0
    assert requests["class", "marked pods only"] == 2
    assert requests["one a node", "marked pods only"] == 0
    assert all(float(row[3].replace(",", "")) > 0 for row in rows[2:])
