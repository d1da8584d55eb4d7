"""The chart as Helm renders it, for releases that are not in install/."""

import functools
import os
from typing import Final

import pytest
import yaml

from release.manifests import helm, rendered
from tests.cases_file import tables
from tests.config.shipped import Json

# Where all tests have to run, a test without Helm fails.
needs_helm = pytest.mark.skipif(
    not helm() and not os.environ.get("CI"), reason="there is no Helm: make helm"
)

#: name → the values of a release
RELEASES: Final = {name: tuple(values) for name, values in tables("releases").items()}


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
