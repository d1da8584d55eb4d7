"""Which pods an extender is asked about, and which resources kube-scheduler leaves out.

As pkg/scheduler/extender.go (IsInterested) and scheduler.go (buildExtenders) read it, v1.36.2.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from extender.checks.config_fields import plugin_args, profiles_of, read_list, read_objects
from extender.objects import MARK

DEFAULT_SCHEDULER: Final = "default-scheduler"

_FIT: Final = "NodeResourcesFit"


def managed_resources(
    extender: Mapping[str, Any], place: str = ""
) -> Sequence[tuple[object, bool]]:
    """(name, ignoredByScheduler) of each. Raises SchedulerConfigError."""
    resources = read_objects(extender, "managedResources", place)
    return [(each.get("name"), each.get("ignoredByScheduler") is True) for _, each in resources]


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
        for place, extender in read_objects(document, "extenders")
        for each in managed_resources(extender, f"{place}.")
    ]
    by_extenders = [name for name, ignored in managed if ignored]
    found = {}
    for place, profile in profiles_of(document):
        where, args = plugin_args(place, profile, _FIT)
        own = read_list(args, "ignoredResources", f"{where}.")
        groups = read_list(args, "ignoredResourceGroups", f"{where}.")
        is_ignored = MARK in (by_extenders or own) or MARK.partition("/")[0] in groups
        found[str(profile.get("schedulerName") or DEFAULT_SCHEDULER)] = not is_ignored
    return found
