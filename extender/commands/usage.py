"""Shared by pods, classes, can-delete and rollout: reads the users of the RuntimeClasses."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from extender.commands.arguments import source_of
from extender.commands.cluster_state import ClusterState, load_cluster
from extender.commands.progress import showing
from extender.flags import CommandParser, UsageError
from extender.objects import RuntimeClass
from extender.printing.similar import did_you_mean
from extender.reasons import shown

T = TypeVar("T")

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
    return load_cluster(command, source_of(flags), nodes=nodes, uses=True)


@contextmanager
def counted(found: Iterator[T], what: str = "pods") -> Iterator[Iterator[T]]:
    """The same, and while the block takes them, their number on the terminal."""
    count = 0

    def counting() -> Iterator[T]:
        nonlocal count
        for each in found:
            count += 1
            yield each

    with showing(lambda: f"{count:,} {what} read"):
        yield counting()


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
