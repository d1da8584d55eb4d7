"""The vectors about valid RuntimeClasses hold for the kube-apiserver under test."""

from typing import Any, Final

import pytest

from tests.e2e.cluster import Cluster
from tests.fakes.apiserver import RUNTIME_CLASSES
from tests.vectors_file import vectors

LENGTH: Final = ("no more than 63 bytes", "no more than 63 characters")


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in vectors("runtimeclass_validation", "cases")
        if "old" not in case.values[0] and not case.values[0]["comparison_operators"]
    ],
)
def test_kube_apiserver_takes_and_refuses_what_the_vectors_say(
    case: dict[str, Any], instead: Cluster
) -> None:
    status, answer = instead.request("POST", f"{RUNTIME_CLASSES}?dryRun=All", case["object"])
    if case["valid"]:
        assert status == 201, answer
        return
    assert status in (400, 422), answer
    if "decode_error" in case or instead.minor < 36:
        return  # the versions before refuse the same, in other words
    told = {
        # 1.37 says bytes of this one field too; it counts as before.
        f"{each['field']}: {each['message'].replace(*LENGTH)}"
        if each["field"] == "handler"
        else f"{each['field']}: {each['message']}"
        for each in answer["details"]["causes"]
    }
    assert told == {each["text"] for each in case["errors"]}
