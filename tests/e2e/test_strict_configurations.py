"""The real kube-scheduler refuses what check says it refuses."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.cluster import ASSETS, scheduler_minor
from tests.scheduler_configurations import CASES, NO_KUBECONFIG


@pytest.mark.parametrize(("text", "check"), CASES)
def test_kube_scheduler_starts_with_what_check_finds_nothing_in(
    tmp_path: Path, text: bytes, check: str
) -> None:
    """Having taken the file it ends because the kubeconfig that the file names is not there."""
    if b"placementScore" in text and scheduler_minor() < 36:
        pytest.skip("kube-scheduler reads plugins.placementScore since 1.36")
    file = tmp_path / "config.yaml"
    file.write_bytes(text)
    ended = subprocess.run(
        [str(ASSETS / "kube-scheduler"), f"--config={file}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ended.returncode != 0
    taken = f"stat {NO_KUBECONFIG}: no such file or directory" in ended.stderr
    assert taken == (not check), ended.stderr[-500:]
