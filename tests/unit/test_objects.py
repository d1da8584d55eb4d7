"""What can be a key, and what says that it can't."""

from collections.abc import Hashable

import pytest

from extender.objects import (
    Features,
    Handler,
    Node,
    Pod,
    RuntimeClass,
    SelectorRequirement,
    SelectorTerm,
    Taint,
    Toleration,
)
from extender.shape import Shape

KEYS = (
    Taint("t"),
    Toleration(),
    Handler(),
    Features(),
    SelectorRequirement("k", "In", ("v",)),
    SelectorTerm(),
    RuntimeClass("c", "h"),
    Shape(),
)


@pytest.mark.parametrize("value", KEYS, ids=lambda value: type(value).__name__)
def test_what_says_that_it_is_hashable_can_be_a_key(value: Hashable) -> None:
    assert {value: 1}[value] == 1


@pytest.mark.parametrize("value", [Pod(), Node("n")], ids=lambda value: type(value).__name__)
def test_what_holds_a_mapping_says_that_it_is_not_hashable(value: object) -> None:
    assert not isinstance(value, Hashable)
