"""The table of features by version, and how version texts are read."""

from typing import Any

import pytest

from extender.kubernetes.versions import ON_SINCE, Span, Version, is_on, version_of
from tests.cases_file import cases


@pytest.mark.parametrize("span", [Span((1, 33)), Span((1, 34), (1, 36))])
def test_a_span_holds_from_its_first_to_its_last_version(span: Span) -> None:
    holding = [minor for minor in range(30, 40) if span.holds((1, minor))]
    assert holding == [*range(span.first[1], (span.last or (1, 39))[1] + 1)]


@pytest.mark.parametrize(("gate", "since"), ON_SINCE.items())
def test_a_gate_is_on_from_a_version_on(gate: str, since: Version) -> None:
    minors = range(20, 45)
    assert [is_on(gate, (1, minor)) for minor in minors] == [
        (1, minor) >= since for minor in minors
    ]
    assert not is_on(gate, (0, 0))
    assert is_on(gate, (2, 0))


@cases
def test_a_version_is_read_in_the_forms_in_which_components_tell_it(
    text: str, version: Any
) -> None:
    assert version_of(text) == (version and tuple(version))
