"""What a Namespace's annotations say; tests/e2e/test_policies.py asks a real API server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.admission.namespace_rules import ALLOWED_ANNOTATION, rules_of
from tests.namespace_rules import CASES, NAMESPACE

NAMES = st.sampled_from(["kata", "gvisor", "wasm", "", "*", "k*"])


@pytest.mark.parametrize(("annotations", "name", "refusal"), CASES)
def test_a_pod_is_refused_for_what_the_annotations_say(
    annotations: dict[str, str], name: str | None, refusal: str
) -> None:
    assert rules_of(NAMESPACE, annotations).refusal(name or "") == refusal


@given(st.lists(NAMES), st.sampled_from(["kata", "gvisor", "wasm"]))
def test_a_longer_list_never_refuses_what_a_shorter_one_allows(names: list[str], more: str) -> None:
    shorter = rules_of(NAMESPACE, {ALLOWED_ANNOTATION: ",".join(names)})
    longer = rules_of(NAMESPACE, {ALLOWED_ANNOTATION: ",".join([*names, more])})
    assert longer.allows(more)
    for each in ("kata", "gvisor", "wasm", ""):
        assert longer.allows(each) or not shorter.allows(each)


@given(st.text())
def test_a_class_is_allowed_by_its_own_name_or_by_a_star_alone(text: str) -> None:
    rules = rules_of(NAMESPACE, {ALLOWED_ANNOTATION: text})
    entries = {each.strip() for each in text.split(",")}
    assert rules.allows("kata") == bool(entries & {"kata", "*"})
    assert rules.allows("")


def test_a_refusal_stays_short_and_on_one_line_whatever_the_annotation_holds() -> None:
    many = ",".join(f"class-{index}\x1b[31m" for index in range(10_000))
    refusal = rules_of("a" * 1000 + "\n", {ALLOWED_ANNOTATION: many}).refusal("kata")
    assert refusal.isprintable()
    assert refusal.endswith(" and 9980 more")
    assert len(refusal) < 10_000
