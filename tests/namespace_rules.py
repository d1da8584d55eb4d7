"""Which pods a namespace lets in by its annotations, for our rules and for kube-apiserver's."""

from typing import Any, Final

import pytest

from tests.cases_file import tables

PREFIX: Final = "runtimeclass-extender/"
ALLOWED: Final = f"{PREFIX}allowed-classes"
REQUIRED: Final = f"{PREFIX}required"

NAMESPACE: Final = "team-a"


def _case(name: str, annotations: dict[str, str], pod: str | None, refusal: str = "") -> Any:
    full = {f"{PREFIX}{key}": value for key, value in annotations.items()}
    return pytest.param(full, pod, refusal, id=name)


#: (annotations, class that the pod names or None, why it is refused or "")
CASES: Final = [_case(name, *row) for name, row in tables("namespaces")["rules"].items()]
