"""make bench-scheduler measures the real kube-scheduler, and counts who is asked about."""

import json
from pathlib import Path

from loadtest import scheduler


def test_plain_pods_make_no_request_where_only_marked_ones_are_asked_about(
    tmp_path: Path,
) -> None:
    flags = ["--nodes=60", "--pods=60", "--rounds=1", "--quick", "--no-plot", f"--out={tmp_path}"]
    assert scheduler.main(flags) == 0
    results = json.loads((tmp_path / "scheduler.json").read_text())["results"]
    requests = {
        (each["pods"], each["configuration"]): each["runs"][0]["requests"] for each in results
    }
    for kind in ("no class", "class"):
        assert requests[kind, "no extender"] == 0
        assert requests[kind, "filter"] == 1
        assert requests[kind, "filter, preempt"] == 1
        assert requests[kind, "all three verbs"] == 2
    assert requests["no class", "marked pods only"] == 0
    assert requests["class", "marked pods only"] == 2
    assert requests["one a node", "marked pods only"] == 0
    assert all(each["runs"][0]["pods_per_second"] > 0 for each in results)
