"""Which pods a namespace lets in by its annotations, for our rules and for kube-apiserver's."""

from typing import Final

import pytest

ALLOWED: Final = "runtimeclass-extender/allowed-classes"
REQUIRED: Final = "runtimeclass-extender/required"

NAMESPACE: Final = "team-a"


def _not_allowed(name: str, allowed: str) -> str:
    return (
        f'RuntimeClass "{name}" is not allowed in namespace "{NAMESPACE}", which allows {allowed}'
    )


def _required(allowed: str) -> str:
    return (
        f'a pod in namespace "{NAMESPACE}" must name a RuntimeClass (spec.runtimeClassName);'
        f" allowed: {allowed}"
    )


_NONE: Final = "only the default runtime"

#: (annotations, class that the pod names or None, why it is refused or "")
CASES: Final = [
    pytest.param({}, None, "", id="no annotations, no class"),
    pytest.param({}, "kata", "", id="no annotations, a class"),
    pytest.param({ALLOWED: "kata"}, "kata", "", id="allowed"),
    pytest.param({ALLOWED: "kata"}, None, "", id="the default runtime beside a list"),
    pytest.param({ALLOWED: "kata"}, "gvisor", _not_allowed("gvisor", '"kata"'), id="not allowed"),
    pytest.param(
        {ALLOWED: " kata ,\tgvisor\n"}, "gvisor", "", id="blanks around entries are ignored"
    ),
    pytest.param(
        {ALLOWED: "kata,, gvisor,"},
        "wasm",
        _not_allowed("wasm", '"kata", "gvisor"'),
        id="empty entries are ignored",
    ),
    pytest.param({ALLOWED: "*"}, "gvisor", "", id="any"),
    pytest.param({ALLOWED: "kata, *"}, "gvisor", "", id="any beside a name"),
    pytest.param({ALLOWED: "k*"}, "kata", _not_allowed("kata", '"k*"'), id="a star is no pattern"),
    pytest.param({ALLOWED: ""}, "kata", _not_allowed("kata", _NONE), id="none"),
    pytest.param({ALLOWED: " , "}, "kata", _not_allowed("kata", _NONE), id="none, in blanks"),
    pytest.param({ALLOWED: ""}, None, "", id="none, and no class"),
    pytest.param({ALLOWED: "Kata"}, "kata", _not_allowed("kata", '"Kata"'), id="case plays a part"),
    pytest.param(
        {ALLOWED: "\u3000kata\x85"}, "kata", "", id="blanks are what Unicode says they are"
    ),
    pytest.param({REQUIRED: "true"}, None, _required("any"), id="required"),
    pytest.param({REQUIRED: "true"}, "kata", "", id="required and named"),
    pytest.param({REQUIRED: "false"}, None, "", id="not required"),
    pytest.param({REQUIRED: ""}, None, "", id="required, empty"),
    pytest.param({REQUIRED: " true "}, None, _required("any"), id="required, with blanks"),
    pytest.param({REQUIRED: " false "}, None, "", id="not required, with blanks"),
    pytest.param({REQUIRED: "yes"}, None, _required("any"), id="what can't be read opens nothing"),
    pytest.param(
        {REQUIRED: "true", ALLOWED: "kata,gvisor"},
        None,
        _required('"kata", "gvisor"'),
        id="required of those allowed",
    ),
    pytest.param({REQUIRED: "true", ALLOWED: ""}, None, _required("none"), id="required of none"),
    pytest.param(
        {REQUIRED: "true", ALLOWED: "kata"},
        "gvisor",
        _not_allowed("gvisor", '"kata"'),
        id="required, and not allowed",
    ),
]
