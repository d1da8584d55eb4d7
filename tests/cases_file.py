"""Tables of cases as data: tests/cases/FILE.yaml has rows for the tests of test_FILE.py."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest
import yaml

P = ParamSpec("P")
T = TypeVar("T")


@lru_cache
def tables(name: str) -> dict[str, Any]:
    text = (Path(__file__).parent / "cases" / f"{name}.yaml").read_text()
    found = yaml.safe_load(text)
    assert isinstance(found, dict)
    return found


def rows(name: str, table: str) -> list[Any]:
    """The rows of a table as pytest parameters, with or without an id."""
    found = tables(name)[table]
    named = found.items() if isinstance(found, dict) else ((None, row) for row in found)
    return [pytest.param(*row, id=each) for each, row in named]


def cases(test: Callable[P, T]) -> Callable[P, T]:
    """Runs a test for each row of its table: its first arguments."""
    name = test.__module__.rpartition(".test_")[2]
    values = rows(name, test.__name__.removeprefix("test_"))
    fields = list(inspect.signature(test).parameters)[: len(values[0].values)]
    marked: Callable[P, T] = pytest.mark.parametrize(fields, values)(test)
    return marked
