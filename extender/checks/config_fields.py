"""What the lints of a KubeSchedulerConfiguration share: its fields, and its circumstances."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class SchedulerConfigError(ValueError):
    """The document can't be linted; one line that names the place."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the configuration itself does not say.

    kubernetes_version: (major, minor), None where it is not known. broken_promises: whether nodes
    have the labels of a class but not its handler, None where no cluster was looked at. in_pod:
    whether kube-scheduler runs in a pod with a service account, None where that is not known.
    untainted: the nodes that serve RuntimeClasses by their labels alone, beside others that do not.
    """

    admission_plugin: bool = True
    kubernetes_version: tuple[int, int] | None = None
    broken_promises: bool | None = None
    in_pod: bool | None = None
    untainted: Sequence[str] = ()


def read_object(value: object, place: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SchedulerConfigError(f"{place}: expected an object, got {type(value).__name__}")
    return value


def read_list(document: Mapping[str, Any], key: str, place: str = "") -> Sequence[object]:
    value = document.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise SchedulerConfigError(f"{place}{key}: expected a list, got {type(value).__name__}")
    return value


def profiles_of(document: Mapping[str, Any]) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Pairs of place and profile; a file without profiles has the default one."""
    return list(read_objects(document, "profiles")) or [("the default profile", {})]


def read_objects(
    document: Mapping[str, Any], key: str, place: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, object) of each element of a list."""
    for index, each in enumerate(read_list(document, key, place)):
        where = f"{place}{key}[{index}]"
        yield where, read_object(each, where)


def plugin_args(
    place: str, profile: Mapping[str, Any], plugin: str
) -> tuple[str, Mapping[str, Any]]:
    """The place and the fields of a plugin's arguments in a profile; none where it has none."""
    for where, config in read_objects(profile, "pluginConfig", f"{place}."):
        if config.get("name") == plugin:
            return f"{where}.args", read_object(config.get("args"), f"{where}.args")
    return "", {}
