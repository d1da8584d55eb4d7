"""What kube-scheduler refuses to start with: fields, types and values of its configuration.

The fields of kube-scheduler/config/v1 types.go and component-base/config/v1alpha1 types.go, the
values of pkg/scheduler/apis/config/validation/validation.go, v1.36.2. kube-scheduler decodes v1
strictly: an unknown key, also a known one in another case, is refused, and so is a wrong type. Null
is the same as an absent field, except for durations. The arguments of plugins are not looked at.
"""

import base64
import binascii
import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from extender.checks.config_fields import Circumstances
from extender.checks.durations import parse_duration
from extender.checks.finding import Finding, Severity
from extender.reasons import shown

#: The version whose fields these are.
_OF_VERSION: Final = (1, 36)

_DOES_NOT_START: Final = "kube-scheduler does not start"
_STRICTLY: Final = "kube-scheduler reads v1 strictly and does not start"


@dataclass(frozen=True, slots=True)
class _Value:
    """A value that is no object or list; null fits unless refuses_null."""

    expected: str
    fits: Callable[[object], bool]
    example: str
    refuses_null: bool = False


@dataclass(frozen=True, slots=True)
class _Range:
    """A whole number of 32 or 64 bits, and between what validation lets it be."""

    bits: int
    lowest: int | None = None
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class _Object:
    """name: as in "is no field of …"."""

    name: str
    fields: Mapping[str, "_Type"]


@dataclass(frozen=True, slots=True)
class _ListOf:
    item: "_Type"


_Type = _Value | _Range | _Object | _ListOf | None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object, bits: int) -> bool:
    """3.0 counts as whole: kube-scheduler turns YAML into JSON first, where it becomes 3."""
    if not isinstance(value, int | float) or not _is_number(value) or value != int(value):
        return False
    bound: int = 2 ** (bits - 1)
    return -bound <= value < bound


def _is_bytes(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_whole(each, 32) and 0 <= each <= 255 for each in value)
    if not isinstance(value, str):
        return False
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


_TEXT: Final = _Value("a string", lambda value: isinstance(value, str), "a string in quotes")
_BOOLEAN: Final = _Value(
    "true or false", lambda value: isinstance(value, bool), "true or false, without quotes"
)
_DURATION: Final = _Value(
    "a duration",
    lambda value: isinstance(value, str) and parse_duration(value) is not None,
    "a number and its unit, such as 5s",
    refuses_null=True,
)
_NUMBER: Final = _Value("a number", _is_number, "a number")
_BYTES: Final = _Value("base64", _is_bytes, "base64 of a PEM file, in one string")
_PERCENTAGE: Final = _Range(32, 0, 100)

_PLUGIN: Final = _Object("a plugin", {"name": _TEXT, "weight": _Range(32)})
_PLUGIN_SET: Final = _Object(
    "a set of plugins", {"enabled": _ListOf(_PLUGIN), "disabled": _ListOf(_PLUGIN)}
)
_PLUGINS: Final = _Object(
    "plugins",
    dict.fromkeys(
        (
            *("preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score"),
            *("reserve", "permit", "preBind", "bind", "postBind", "multiPoint"),
            *("placementGenerate", "placementScore"),
        ),
        _PLUGIN_SET,
    ),
)
_PROFILE: Final = _Object(
    "a profile",
    {
        "schedulerName": _TEXT,
        "percentageOfNodesToScore": _PERCENTAGE,
        "plugins": _PLUGINS,
        "pluginConfig": _ListOf(_Object("a plugin's arguments", {"name": _TEXT, "args": None})),
    },
)
_TLS: Final = _Object(
    "tlsConfig",
    {
        "insecure": _BOOLEAN,
        **dict.fromkeys(("serverName", "certFile", "keyFile", "caFile"), _TEXT),
        **dict.fromkeys(("certData", "keyData", "caData"), _BYTES),
    },
)
_EXTENDER: Final = _Object(
    "an extender",
    {
        **dict.fromkeys(
            ("urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "bindVerb"), _TEXT
        ),
        "weight": _Range(64),
        "enableHTTPS": _BOOLEAN,
        "tlsConfig": _TLS,
        "httpTimeout": _DURATION,
        "nodeCacheCapable": _BOOLEAN,
        "managedResources": _ListOf(
            _Object("a managed resource", {"name": _TEXT, "ignoredByScheduler": _BOOLEAN})
        ),
        "ignorable": _BOOLEAN,
    },
)
_CONFIGURATION: Final = _Object(
    "a KubeSchedulerConfiguration",
    {
        **dict.fromkeys(("apiVersion", "kind"), _TEXT),
        "parallelism": _Range(32, 1),
        "leaderElection": _Object(
            "leaderElection",
            {
                "leaderElect": _BOOLEAN,
                **dict.fromkeys(("leaseDuration", "renewDeadline", "retryPeriod"), _DURATION),
                **dict.fromkeys(("resourceLock", "resourceName", "resourceNamespace"), _TEXT),
            },
        ),
        "clientConnection": _Object(
            "a client connection",
            {
                **dict.fromkeys(("kubeconfig", "acceptContentTypes", "contentType"), _TEXT),
                "qps": _NUMBER,
                "burst": _Range(32),
            },
        ),
        **dict.fromkeys(("enableProfiling", "enableContentionProfiling"), _BOOLEAN),
        "percentageOfNodesToScore": _PERCENTAGE,
        "podInitialBackoffSeconds": _Range(64, 1),
        "podMaxBackoffSeconds": _Range(64, 1),
        "profiles": _ListOf(_PROFILE),
        "extenders": _ListOf(_EXTENDER),
        "delayCacheUntilActive": _BOOLEAN,
    },
)


def check_strict_fields(
    document: Mapping[str, Any], circumstances: Circumstances
) -> Iterator[Finding]:
    """Keys that are no fields, values of wrong types or out of range, names given twice."""
    yield from _check(document, _CONFIGURATION, "", circumstances)
    yield from _check_scheduler_names(document.get("profiles"))


def duplicate_keys(places: Sequence[str]) -> Iterator[Finding]:
    """places: the places in the file where a key stands a second time in one object."""
    for place in places:
        yield Finding(
            Severity.ERROR,
            "duplicate-key",
            f"{shown(place)} stands twice in one object",
            _STRICTLY,
            "remove one of the two",
        )


def _check(
    value: object, expected: _Type, place: str, circumstances: Circumstances
) -> Iterator[Finding]:
    if expected is None or (value is None and not getattr(expected, "refuses_null", False)):
        return
    if isinstance(expected, _Object):
        yield from _check_object(value, expected, place, circumstances)
    elif isinstance(expected, _ListOf):
        if not isinstance(value, list):
            yield _wrong_type(place, value, "a list", "a list")
            return
        for index, each in enumerate(value):
            yield from _check(each, expected.item, f"{place}[{index}]", circumstances)
    elif isinstance(expected, _Range):
        yield from _check_range(value, expected, place)
    elif not expected.fits(value):
        yield _wrong_type(place, value, expected.expected, expected.example)


def _check_object(
    value: object, expected: _Object, place: str, circumstances: Circumstances
) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield _wrong_type(place, value, "an object", "an object of fields")
        return
    for key, each in value.items():
        if key not in expected.fields:
            yield _unknown(place, key, each, expected, circumstances)
        else:
            within = f"{place}.{key}" if place else str(key)
            yield from _check(each, expected.fields[key], within, circumstances)


def _check_range(value: object, expected: _Range, place: str) -> Iterator[Finding]:
    if not isinstance(value, int | float) or not _is_whole(value, expected.bits):
        said = f"a whole number of {expected.bits} bits"
        yield _wrong_type(place, value, said, "a whole number, without quotes")
        return
    low, high = expected.lowest, expected.highest
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"{low} to {high}" if high is not None else f"{low} or more"
        yield Finding(
            Severity.ERROR,
            "out-of-range",
            f"{place} is {value}, expected {bounds}",
            _DOES_NOT_START,
            f"{place.rpartition('.')[2]}: {bounds}",
        )


def _got(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return repr(shown(value))
        case dict():
            return "an object"
        case list():
            return "a list"
    return shown(str(value))


def _wrong_type(place: str, value: object, expected: str, example: str) -> Finding:
    return Finding(
        Severity.ERROR,
        "wrong-type",
        f"{place} is {_got(value)}, expected {expected}",
        _DOES_NOT_START,
        f"{place.rpartition('.')[2]}: {example}",
    )


def _unknown(
    place: str, key: object, value: object, expected: _Object, circumstances: Circumstances
) -> Finding:
    name = shown(str(key))
    near = difflib.get_close_matches(str(key), expected.fields, 1)
    version = circumstances.kubernetes_version
    newer = version is not None and version > _OF_VERSION
    plain = not isinstance(value, dict | list)
    return Finding(
        Severity.WARNING if newer else Severity.ERROR,
        "unknown-field",
        f"{f'{place}.' if place else ''}{name} is no field of {expected.name}"
        + (f" in {_OF_VERSION[0]}.{_OF_VERSION[1]}" if newer else ""),
        f"unless it is a newer one, {_STRICTLY}" if newer else _STRICTLY,
        f"{near[0]}: {shown(str(value)) if plain else '…'}" if near else f"remove {name}",
    )


def _check_scheduler_names(profiles: object) -> Iterator[Finding]:
    """A profile without a name is default-scheduler where it is the only one."""
    if not isinstance(profiles, list):
        return
    first: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        fields = profile if isinstance(profile, dict) else {}
        name, place = fields.get("schedulerName"), f"profiles[{index}].schedulerName"
        if name == "" or (name is None and len(profiles) > 1):
            what = f"{place} is {'missing' if name is None else 'empty'}"
            fix = "schedulerName: default-scheduler"
        elif isinstance(name, str) and name in first:
            what = f"{place} {shown(name)} is that of profiles[{first[name]}] too"
            fix = "schedulerName: another name"
        else:
            if isinstance(name, str):
                first[name] = index
            continue
        yield Finding(Severity.ERROR, "scheduler-name", what, _DOES_NOT_START, fix)
