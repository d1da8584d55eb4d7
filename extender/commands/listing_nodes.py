"""nodes: which nodes match a RuntimeClass, and why the others don't."""

import argparse
from typing import Final

from extender.commands.arguments import (
    Command,
    add_policy_flags,
    add_printing_flags,
    policy_of,
    source_of,
)
from extender.commands.cluster_state import load_cluster
from extender.commands.output import EXIT_DOES_NOT_FIT, EXIT_FITS, print_answer
from extender.commands.usage import class_named
from extender.flags import CommandParser, UsageError, whole_number
from extender.printing.debug_documents import class_nodes_document, states_of
from extender.printing.debug_texts import class_nodes_text
from extender.verbs.class_nodes import nodes_of_class


def _add_flags(parser: CommandParser) -> None:
    add_printing_flags(parser)
    add_policy_flags(parser)
    parser.add_argument("runtimeclass", metavar="CLASS", help="the name of a RuntimeClass")
    parser.add_argument(
        "--limit", type=whole_number(1, 10**9), metavar="N", help="names in each list"
    )


def _nodes(program: str, flags: argparse.Namespace) -> int:
    """Exit code 0 when some node matches, 1 when none does.

    Raises UsageError, also where no Node is known, which says nothing about the class.
    """
    state = load_cluster(f"{program} nodes", source_of(flags))
    runtime_class, snapshot = class_named(flags.runtimeclass, state), state.snapshot
    if not snapshot.nodes:
        raise UsageError("no Node is known: which nodes match the RuntimeClass is unknown")
    nodes = nodes_of_class(runtime_class, snapshot, policy_of(flags))
    states = states_of(nodes.matching[: flags.limit], snapshot)
    document = class_nodes_document(runtime_class.name, nodes, states, flags.limit)
    print_answer(flags.output, document, class_nodes_text)
    return EXIT_FITS if nodes.matching else EXIT_DOES_NOT_FIT


NODES: Final = Command(
    "nodes",
    "The nodes that match a RuntimeClass, and why the others don't.",
    _add_flags,
    _nodes,
)
