"""check finds what kube-scheduler refuses to start with, and nothing in what it takes."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.checks.config_fields import Circumstances
from extender.checks.finding import Severity
from extender.checks.scheduler_config import check_scheduler_config
from extender.checks.strict_fields import check_strict_fields, duplicate_keys
from extender.yaml_documents import yaml_documents
from tests.config.shipped import scheduler_configurations
from tests.scheduler_configurations import CASES, REFUSED


def _found(text: bytes) -> set[str]:
    duplicates: list[str] = []
    (document,) = yaml_documents(text, duplicates=duplicates)
    assert isinstance(document, dict)
    findings = [*duplicate_keys(duplicates), *check_strict_fields(document, Circumstances())]
    assert all(each.severity is Severity.ERROR for each in findings)
    assert all("does not start" in each.why for each in findings)
    return {each.check for each in findings}


@pytest.mark.parametrize(("text", "check"), CASES)
def test_what_kube_scheduler_refuses_is_found_and_nothing_else(text: bytes, check: str) -> None:
    assert _found(text) == ({check} if check else set())


def test_nothing_of_it_is_in_the_shipped_configurations() -> None:
    for file in scheduler_configurations():
        text = next(
            each
            for each in file.read_text().split("\n---\n")
            if "kind: KubeSchedulerConfiguration" in each
        )
        assert not _found(text.encode())


def test_a_key_that_stands_twice_is_told_with_its_line() -> None:
    duplicates: list[str] = []
    list(yaml_documents(b"a: 1\nb:\n  c: 1\n  c: 2\n<<: {a: 2}\n", duplicates=duplicates))
    assert duplicates == ["line 4, column 3: c"]


def test_a_field_of_a_newer_version_is_a_warning_only() -> None:
    document = yaml.safe_load(CASES[0].values[0]) | {"percentageOfPlacementsToScore": 5}  # type: ignore[arg-type]
    (finding,) = check_strict_fields(document, Circumstances(kubernetes_version=(1, 37)))
    assert (finding.check, finding.severity) == ("unknown-field", Severity.WARNING)


def test_every_extender_s_fields_are_read_strictly_not_only_ours() -> None:
    document = yaml.safe_load(CASES[0].values[0])  # type: ignore[arg-type]
    ours = {"urlPrefix": "http://127.0.0.1:8888", "filterVerb": "filter", "preemptVerb": "preempt"}
    others = {"urlPrefix": "http://gpu:1", "ignorable": "maybe"}
    checks = {
        each.check
        for each in check_scheduler_config(
            {**document, "extenders": [ours, others]}, Circumstances()
        )
    }
    assert checks & REFUSED == {"wrong-type"}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
_KEYS = ("extenders", "profiles", "parallelism", "leaderElection", "clientConnection")


@given(st.dictionaries(st.sampled_from(_KEYS) | st.text(), _JSON))
def test_any_document_is_judged_in_lines_of_text(document: dict[str, Any]) -> None:
    for each in check_strict_fields(document, Circumstances()):
        assert "\n" not in each.what + each.why + each.fix


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        pytest.param("127.0.0.1:8888", "http://127.0.0.1:8888", id="no scheme"),
        pytest.param("localhost:8888/", "http://localhost:8888/", id="a host without scheme"),
        pytest.param("", "http://127.0.0.1:8888", id="empty"),
        pytest.param("htp://127.0.0.1:8888", "http://127.0.0.1:8888", id="misspelt scheme"),
        pytest.param("grpc://127.0.0.1:8888", "http://127.0.0.1:8888", id="another scheme"),
        pytest.param("http://127.0.0.1:8888/filter", "http://127.0.0.1:8888", id="a verb"),
        pytest.param("http://127.0.0.1:8888/prioritize/", "http://127.0.0.1:8888", id="a slash"),
    ],
)
def test_a_url_that_no_call_gets_through_is_found(url: str, fix: str) -> None:
    document = yaml.safe_load(CASES[0].values[0])  # type: ignore[arg-type]
    verbs = {"filterVerb": "filter", "preemptVerb": "preempt", "prioritizeVerb": "prioritize"}
    extender = {"urlPrefix": url, "weight": 1, "nodeCacheCapable": True, **verbs}
    (finding,) = check_scheduler_config({**document, "extenders": [extender]}, Circumstances())
    assert (finding.check, finding.severity) == ("url-prefix", Severity.ERROR)
    assert finding.fix == f"urlPrefix: {fix}"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8888", "HTTPS://a.example:8888/runtimeclass"])
def test_a_url_that_calls_get_through_is_sound(url: str) -> None:
    document = yaml.safe_load(CASES[0].values[0])  # type: ignore[arg-type]
    found = check_scheduler_config({**document, "extenders": [{"urlPrefix": url}]}, Circumstances())
    assert "url-prefix" not in {each.check for each in found}
