"""A kubeconfig that impersonates somebody asks with that one's rights, as kubectl does."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, FakeApiServer, kubeconfig
from tests.processes import run

CLASS = {"metadata": {"name": "runc"}, "handler": "runc"}


def configured(file: Path, server: str, **user: Any) -> tuple[str, str]:
    """The flag for a kubeconfig whose user has these fields, with - for _."""
    written = json.loads(kubeconfig(server, token="one"))
    written["users"][0]["user"].update({key.replace("_", "-"): user[key] for key in user})
    file.write_text(json.dumps(written))
    return "--kubeconfig", str(file)


def test_every_request_says_as_whom_it_is_made(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        server.put(NODES, {"metadata": {"name": "n1"}})
        server.put(RUNTIME_CLASSES, CLASS)
        flags = configured(
            tmp_path / "config",
            server.url,
            **{"as": "véra"},
            as_uid="7",
            as_groups=["dev", "ops"],
            as_user_extra={"example.com/Ünit": ["a", "b"]},
        )
        done = run("nodes", "runc", *flags)
        assert (done.returncode, done.stderr) == (0, "")
        assert server.requests
        for each in server.requests:
            said = {
                name: value
                for name, value in each.headers.items()
                if name.startswith("impersonate-")
            }
            assert said == {
                "impersonate-user": "véra",
                "impersonate-uid": "7",
                "impersonate-group": "dev, ops",
                "impersonate-extra-example.com%2f%c3%9cnit": "a, b",
            }
            assert each.headers["authorization"] == "Bearer one"


@pytest.mark.parametrize(
    ("user", "said"),
    [
        pytest.param({"as_groups": ["dev"]}, "mean nothing without as", id="groups of nobody"),
        pytest.param({"as": "v", "as_groups": "dev"}, "as-groups: expected a list", id="a text"),
        pytest.param({"as": 7}, "as: expected a text", id="a number"),
        pytest.param({"as": "v\r\nX-Other: 1"}, "no header can have", id="two headers in one"),
    ],
)
def test_what_cannot_be_meant_is_one_line(tmp_path: Path, user: dict[str, Any], said: str) -> None:
    done = run("nodes", "runc", *configured(tmp_path / "config", "http://127.0.0.1:9", **user))
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
