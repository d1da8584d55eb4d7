"""A kubeconfig that impersonates a user sends requests as that user, as kubectl does."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cases_file import cases
from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, FakeApiServer, kubeconfig, runtime_class
from tests.processes import run


def asked(folder: Path, server: str, user: Any, *flags: str) -> subprocess.CompletedProcess[str]:
    """A command whose kubeconfig has a user with these fields too."""
    written = json.loads(kubeconfig(server, token="one"))
    written["users"][0]["user"].update(user)
    (folder / "config").write_text(json.dumps(written))
    return run("nodes", "runc", "--kubeconfig", str(folder / "config"), *flags)


FLAGS = ("--as", "jane", "--as-group", "dev", "--as-group", "ops")


@pytest.mark.parametrize(("flags", "name"), [((), "véra"), (FLAGS, "jane")], ids=["file", "flags"])
def test_every_request_says_as_whom_it_is_made(
    flags: tuple[str, ...], name: str, cluster: FakeApiServer, tmp_path: Path
) -> None:
    cluster.put(NODES, {"metadata": {"name": "n1"}})
    cluster.put(RUNTIME_CLASSES, runtime_class("runc"))
    user = {"as": "véra", "as-groups": ["dev", "ops"]}
    done = asked(tmp_path, cluster.url, user | ({"as-uid": "7"} if flags else {}), *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert cluster.requests
    for each in cluster.requests:
        said = {key: value for key, value in each.headers.items() if key.startswith("impersonate-")}
        assert said == {"impersonate-user": name, "impersonate-group": "dev, ops"}
        assert each.headers["authorization"] == "Bearer one"


@cases
def test_what_cannot_be_meant_is_one_line(
    user: dict[str, Any], flags: list[str], said: str, tmp_path: Path
) -> None:
    done = asked(tmp_path, "http://127.0.0.1:9", user, *flags)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr
