"""Shared by pods, classes, can-delete and rollout: reads the users of the RuntimeClasses."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from extender.cluster.pods_and_workloads import FoundPod
from extender.cluster.reading_once import ReadError
from extender.commands.arguments import source_of
from extender.commands.cluster_state import ClusterState, load_cluster
from extender.commands.output import warn
from extender.commands.progress import Progress
from extender.flags import CommandParser, UsageError
from extender.objects import RuntimeClass
from extender.printing.similar import did_you_mean
from extender.reasons import shown

#: The number of existing classes that a message names.
_MAX_NAMES: Final = 1000


def add_pool_flags(parser: CommandParser) -> None:
    parser.add_argument(
        "--pool-label",
        action="append",
        default=[],
        metavar="KEY",
        help="label whose value names a node's pool; repeatable, the first that a node has counts."
        " Without one, or on nodes that have none: GKE's, Karpenter's, EKS', AKS' and kops'; else"
        " nodes alike are a pool",
    )


def load_usage(command: str, flags: argparse.Namespace, *, nodes: bool = True) -> ClusterState:
    """The cluster with the users of its classes. Raises UsageError."""
    state = load_cluster(source_of(flags), Progress(), nodes=nodes, uses=True)
    for warning in state.warnings:
        warn(command, warning)
    return state


@contextmanager
def reading(what: str) -> Iterator[Callable[[], None]]:
    """While pods are read, show their number; a failure becomes a UsageError.

    The block calls the given function for each pod.
    """
    count = 0

    def read_one() -> None:
        nonlocal count
        count += 1

    with Progress().showing(lambda: f"{count:,} {what} read"):
        try:
            yield read_one
        except ReadError as error:
            raise UsageError(str(error)) from None


def counted(found: Iterator[FoundPod], read_one: Callable[[], None]) -> Iterator[FoundPod]:
    """The same pods; read_one is called for each."""
    for each in found:
        read_one()
        yield each


def class_named(name: str, state: ClusterState) -> RuntimeClass:
    """Raises UsageError where there is none of that name."""
    classes = state.snapshot.runtime_classes
    if name in classes:
        return classes[name]
    near = did_you_mean(name, classes)
    there_are = ", ".join(map(shown, sorted(classes))) or "none"
    raise UsageError(
        f'RuntimeClass "{shown(name)}" not found{near or f"; there are: {there_are[:_MAX_NAMES]}"}'
    )
