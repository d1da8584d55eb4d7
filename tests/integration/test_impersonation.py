"""A kubeconfig that impersonates somebody asks with that one's rights, as kubectl does."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, FakeApiServer, kubeconfig, runtime_class
from tests.processes import run


def asked(folder: Path, server: str, user: Any, *flags: str) -> subprocess.CompletedProcess[str]:
    """A command whose kubeconfig has a user with these fields too."""
    written = json.loads(kubeconfig(server, token="one"))
    written["users"][0]["user"].update(user)
    (folder / "config").write_text(json.dumps(written))
    return run("nodes", "runc", "--kubeconfig", str(folder / "config"), *flags)


def test_every_request_says_as_whom_it_is_made(cluster: FakeApiServer, tmp_path: Path) -> None:
    cluster.put(NODES, {"metadata": {"name": "n1"}})
    cluster.put(RUNTIME_CLASSES, runtime_class("runc"))
    user = {"as": "véra", "as-groups": ["dev", "ops"]}
    done = asked(tmp_path, cluster.url, user)
    assert (done.returncode, done.stderr) == (0, "")
    assert cluster.requests
    for each in cluster.requests:
        said = {key: value for key, value in each.headers.items() if key.startswith("impersonate-")}
        assert said == {"impersonate-user": "véra", "impersonate-group": "dev, ops"}
        assert each.headers["authorization"] == "Bearer one"


@pytest.mark.parametrize(
    ("user", "said"),
    [
        pytest.param({"as-groups": ["dev"]}, "needs as", id="groups of nobody"),
        pytest.param({"as": "v", "as-groups": "dev"}, "as-groups a list", id="a text"),
        pytest.param({"as": 7}, "as: expected a text", id="a number"),
        pytest.param({"as": "v\r\nX-Other: 1"}, "Invalid header value", id="two headers in one"),
        pytest.param({"as": "v", "as-uid": "7"}, "not supported", id="a user by number"),
    ],
)
def test_what_cannot_be_meant_is_one_line(tmp_path: Path, user: dict[str, Any], said: str) -> None:
    done = asked(tmp_path, "http://127.0.0.1:9", user)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


def test_flags_impersonate_somebody_else_than_the_kubeconfig(
    cluster: FakeApiServer, tmp_path: Path
) -> None:
    cluster.put(NODES, {"metadata": {"name": "n1"}})
    cluster.put(RUNTIME_CLASSES, runtime_class("runc"))
    flags = ("--as", "jane", "--as-group", "dev", "--as-group", "ops", "-o", "yaml")
    done = asked(tmp_path, cluster.url, {"as": "véra", "as-uid": "7"}, *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert "matching:\n- n1\n" in done.stdout
    for each in cluster.requests:
        said = {key: value for key, value in each.headers.items() if key.startswith("impersonate-")}
        assert said == {"impersonate-user": "jane", "impersonate-group": "dev, ops"}
    alone = asked(tmp_path, cluster.url, {}, "--as-group", "dev")
    assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
    assert "--as-group needs --as USER" in alone.stderr
