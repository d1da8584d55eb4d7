"""What the manifests under scheduler-config give the containers: measurements are held to it."""

from typing import Any, Final

import yaml

from loadtest.processes import ROOT

_SERVICE: Final = (
    "remote/base/deployment.yaml",
    "second-scheduler/base/deployment.yaml",
    "control-plane/node/runtimeclass-extender.yaml",
)
_WEBHOOK: Final = ("webhook/base/deployment.yaml",)

_IMAGE: Final = "/runtimeclass-extender:"

#: Suffixes of quantities; memory in bytes, CPU in thousandths of a core.
_UNITS: Final = {"Mi": 2**20, "m": 1}


def shipped(kind: str, resource: str, *, review: bool) -> int:
    """The least of the manifests of the service, or with review of the webhook.

    kind: requests or limits. resource: memory (bytes) or cpu (thousandths of a core).
    """
    found = []
    for file in _WEBHOOK if review else _SERVICE:
        for document in yaml.safe_load_all((ROOT / "scheduler-config" / file).read_text()):
            found += [
                _number(each["resources"][kind][resource])
                for each in _containers(document["spec"])
                if _IMAGE in each["image"] and resource in each["resources"].get(kind, {})
            ]
    return min(found)


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    pod = spec.get("template", {}).get("spec", spec)
    return [*pod.get("initContainers", ()), *pod.get("containers", ())]


def _number(quantity: str) -> int:
    (factor,) = (factor for unit, factor in _UNITS.items() if quantity.endswith(unit))
    return factor * int(quantity.rstrip("Mim"))
