"""Which pods an extender is asked about, and which resources kube-scheduler leaves out.

As pkg/scheduler/extender.go (IsInterested) and scheduler.go (buildExtenders) read it, v1.36.2.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from extender.checks.config_fields import profiles_of, read_list, read_object
from extender.objects import MARK

DEFAULT_SCHEDULER: Final = "default-scheduler"

_FIT: Final = "NodeResourcesFit"


def managed_resources(
    extender: Mapping[str, Any], place: str = ""
) -> Sequence[tuple[object, bool]]:
    """(name, ignoredByScheduler) of each. Raises SchedulerConfigError."""
    resources = [
        read_object(each, f"{place}managedResources[{index}]")
        for index, each in enumerate(read_list(extender, "managedResources", place))
    ]
    return [(each.get("name"), each.get("ignoredByScheduler") is True) for each in resources]


def is_for_marked_pods(extender: Mapping[str, Any]) -> bool:
    """Whether it is asked about pods that carry the mark, and not about all."""
    return any(name == MARK for name, _ in managed_resources(extender))


def ignores_mark(extender: Mapping[str, Any]) -> bool:
    """Whether it takes the mark out of NodeResourcesFit."""
    return any(name == MARK and ignored for name, ignored in managed_resources(extender))


def schedulers_that_wait(document: Mapping[str, Any]) -> Mapping[str, bool]:
    """For each scheduler name of the configuration whether its marked pods fit no node.

    The resources that extenders have kube-scheduler ignore replace a profile's ignoredResources.
    """
    managed = [
        each
        for index, raw in enumerate(read_list(document, "extenders"))
        for each in managed_resources(
            read_object(raw, f"extenders[{index}]"), f"extenders[{index}]."
        )
    ]
    by_extenders = [name for name, ignored in managed if ignored]
    found = {}
    for place, profile in profiles_of(document):
        own, groups = _ignored(place, profile)
        is_ignored = MARK in (by_extenders or own) or MARK.partition("/")[0] in groups
        found[str(profile.get("schedulerName") or DEFAULT_SCHEDULER)] = not is_ignored
    return found


def _ignored(
    place: str, profile: Mapping[str, Any]
) -> tuple[Collection[object], Collection[object]]:
    """ignoredResources and ignoredResourceGroups of NodeResourcesFit."""
    for index, each in enumerate(read_list(profile, "pluginConfig", f"{place}.")):
        where = f"{place}.pluginConfig[{index}]"
        config = read_object(each, where)
        if config.get("name") == _FIT:
            args = read_object(config.get("args"), f"{where}.args")
            return (
                read_list(args, "ignoredResources", f"{where}.args."),
                read_list(args, "ignoredResourceGroups", f"{where}.args."),
            )
    return (), ()
