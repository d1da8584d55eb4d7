"""The resources that the shipped manifests give the service, to compare measurements with."""

from typing import Final

from tests.config.shipped import containers, pod_specs

#: Suffixes of quantities; memory in bytes, CPU in thousandths of a core.
_UNITS: Final = {"Mi": 2**20, "m": 1}


def shipped(kind: str, resource: str) -> int:
    """The smallest amount in the manifests of the service.

    kind: requests or limits. resource: memory (bytes) or cpu (thousandths of a core).
    """
    return min(
        _number(each["resources"][kind][resource])
        for _, spec in pod_specs()
        for each in containers(spec)
        if each.get("args", [""])[0] == "serve"
    )


def _number(quantity: str) -> int:
    (factor,) = (factor for unit, factor in _UNITS.items() if quantity.endswith(unit))
    return factor * int(quantity.rstrip("Mim"))
