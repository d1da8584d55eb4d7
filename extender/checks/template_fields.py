"""The pod that an object of a file makes, and where in the object its fields are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from extender.checks.finding import Finding
from extender.validation.quantity import billionths, trimmed_quantity

#: Where a finding is: keys and indices within the object.
Place = tuple[str | int, ...]

Found = tuple[Finding, Place]


@dataclass(frozen=True, slots=True)
class Template:
    """The pod of an object: `pod` has metadata and spec, and stands at `place` of the object.

    namespace is the object's, or the one that it will be created in. exempt: the rules of its
    namespace do not apply to it (admission.policy_subjects).
    """

    kind: str
    namespace: str
    name: str
    place: Place
    pod: Mapping[str, Any]
    exempt: bool = False

    def spec(self, *path: str | int) -> Place:
        """A field of the pod's spec within the object."""
        return (*self.place, "spec", *path)

    def asking(self, resource: str) -> Place:
        """The container with the largest request for a resource, else the list of containers.

        The amounts are known to be readable.
        """
        most, found = -1, self.spec("containers")
        for place, container in self._containers():
            resources = container.get("resources") or {}
            for field in ("requests", "limits"):
                amounts = resources.get(field) or {}
                if resource in amounts:
                    amount = billionths(trimmed_quantity(str(amounts[resource])))
                    if amount > most:
                        most, found = amount, (*place, "resources", field, resource)
                    break
        return found

    def read_only_mount(self) -> Place:
        """The first mount that is to be read-only all the way down."""
        for place, container in self._containers():
            for index, mount in enumerate(container.get("volumeMounts") or ()):
                if isinstance(mount, dict) and mount.get("recursiveReadOnly") == "Enabled":
                    return (*place, "volumeMounts", index, "recursiveReadOnly")
        return self.spec("containers")

    def _containers(self) -> Iterator[tuple[Place, Mapping[str, Any]]]:
        spec = self.pod.get("spec") or {}
        for field in ("containers", "initContainers"):
            for index, each in enumerate(spec.get(field) or ()):
                if isinstance(each, dict):
                    yield self.spec(field, index), each
