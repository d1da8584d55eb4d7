"""The chart as Helm renders it, for what is in no file."""

import functools
import os
from typing import Final

import pytest
import yaml

from release.manifests import helm, rendered
from tests.config.shipped import Json

# Where all tests have to run, a test without Helm fails.
needs_helm = pytest.mark.skipif(
    not helm() and not os.environ.get("CI"), reason="there is no Helm: make helm"
)

#: name → the values of a release, as an operator gives them; between them every switch.
RELEASES: Final = {
    "second-scheduler": ("secondScheduler.enabled=true", "pages=true", "viewer.tenants=true"),
    "second-scheduler instead of the plugin": ("secondScheduler.enabled=true", "plugin=instead"),
    "second-scheduler marked": (
        "secondScheduler.enabled=true",
        "secondScheduler.marked=true",
        "secondScheduler.replicas=1",
    ),
    "remote": (
        "remote.enabled=true",
        "remote.schedulers={10.0.0.0/24}",
        "networkPolicy.apiServer={10.0.0.1/32,fd00::/64}",
    ),
    "remote cert-manager": ("remote.enabled=true", "certificates=cert-manager"),
    "webhook": ("webhook.enabled=true", "networkPolicy.apiServer={10.0.0.1/32}"),
    "webhook default class instead of the plugin": (
        "webhook.enabled=true",
        "webhook.defaultClass=true",
        "plugin=instead",
    ),
    "webhook fit cert-manager": (
        "webhook.enabled=true",
        "webhook.fit=true",
        "webhook.markPods=true",
        "certificates=cert-manager",
    ),
    "webhook existing": ("webhook.enabled=true", "certificates=existing", "caBundle=Y2E="),
    "policies": tuple(
        f"policies.{each}=true" for each in ("allowedClasses", "requiredClass", "guard")
    ),
    "mutating policies": ("policies.defaultClass=true", "policies.mark=true"),
    "monitoring": tuple(
        f"monitoring.{each}=true" for each in ("serviceMonitor", "podMonitor", "rules", "dashboard")
    ),
    "viewer": ("viewer.enabled=true",),
    "control-plane": ("controlPlane.enabled=true",),
    "all in one namespace": (
        "secondScheduler.enabled=true",
        "webhook.enabled=true",
        "remote.enabled=true",
        "imagePullSecrets={mine}",
        "tolerations[0].operator=Exists",
        "image.digest=sha256:" + "a" * 64,
    ),
}


@functools.cache
def text(*values: str, flags: tuple[str, ...] = ("--skip-tests",)) -> str:
    return rendered("release", *values, flags=flags)


def objects_of_chart(*values: str, flags: tuple[str, ...] = ("--skip-tests",)) -> list[Json]:
    """The objects of a release, in the namespace `release`."""
    return [each for each in yaml.safe_load_all(text(*values, flags=flags)) if each]


def named(kind: str, name: str, objects: list[Json]) -> Json:
    (found,) = (
        each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found
