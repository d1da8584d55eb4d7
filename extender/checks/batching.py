"""Whether an extender takes OpportunisticBatching from pods that profit by it.

Any extender switches it off for all profiles (framework/runtime/framework.go,
computeBatchablePlugins). That matters where pods have a signature to be compared by. They have none
while PodTopologySpread has default constraints (podtopologyspread/plugin.go, SignPod), which is so
unless the configuration removes them. All of v1.36.2.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from extender.checks.config_fields import Circumstances, plugin_args, profiles_of
from extender.checks.finding import Finding, Severity

#: The first version that batches by default.
_SINCE: Final = (1, 35)

_SPREAD: Final = "PodTopologySpread"


def check_batching(document: Mapping[str, Any], circumstances: Circumstances) -> Iterator[Finding]:
    """For a configuration that has extenders."""
    version = circumstances.kubernetes_version
    if version is not None and version < _SINCE:
        return
    for place, profile in profiles_of(document):
        _, args = plugin_args(place, profile, _SPREAD)
        if args.get("defaultingType") == "List" and not args.get("defaultConstraints"):
            yield Finding(
                Severity.ADVICE,
                "batching",
                f"{place} has no default topology spread constraints, with which kube-scheduler"
                " 1.35 and later places equal pods that get a node each in batches, and extenders"
                " is not empty",
                "any extender switches that off, for all profiles",
                "leave such pods to a kube-scheduler without extenders, and pods with a"
                " RuntimeClass to a second one (docs/scheduler-cost.md)",
            )
