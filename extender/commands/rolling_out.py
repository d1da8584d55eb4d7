"""rollout: how far the replacement of one RuntimeClass by another has come."""

import argparse
from typing import Final

from extender.commands.arguments import Command, add_policy_flags, add_printing_flags, policy_of
from extender.commands.output import EXIT_DOES_NOT_FIT, EXIT_FITS, print_answer, warn
from extender.commands.usage import add_pool_flags, class_named, counted, load_usage
from extender.flags import CommandParser, UsageError
from extender.printing.similar import did_you_mean
from extender.printing.usage_documents import rollout_document
from extender.printing.usage_texts import rollout_text
from extender.reasons import shown
from extender.verbs.pools import pools_of
from extender.verbs.rollout import Objects, rollout_of


def _add_flags(parser: CommandParser) -> None:
    add_printing_flags(parser)
    add_policy_flags(parser)
    parser.add_argument("old", metavar="OLD", help="the RuntimeClass that is replaced")
    parser.add_argument("new", metavar="NEW", help="the one that takes its place")
    add_pool_flags(parser)


def _rollout(program: str, flags: argparse.Namespace) -> int:
    """Exit code 0 when the replacement is done, 1 when it is not. Raises UsageError.

    OLD may be gone already: it is looked for where it is still named.
    """
    if flags.old == flags.new:
        raise UsageError(f"OLD and NEW are both {shown(flags.old)}")
    state, policy = load_usage(f"{program} rollout", flags), policy_of(flags)
    new, snapshot, inventory = class_named(flags.new, state), state.snapshot, state.inventory
    if not snapshot.nodes:
        raise UsageError("no Node is known: which nodes run the class is unknown")
    if flags.old not in snapshot.runtime_classes:
        near = did_you_mean(flags.old, snapshot.runtime_classes)
        warn(f"{program} rollout", f'RuntimeClass "{shown(flags.old)}" not found{near}')
    with counted(inventory.pods()) as found:
        pods = (each.placed for each in found)
        objects = Objects(pods, inventory.workloads(), inventory.namespaces(), state.not_ready)
        pools = pools_of(snapshot, flags.pool_label)
        rollout = rollout_of(flags.old, new, snapshot, pools, objects, policy)
    document = rollout_document(flags.old, new.name, rollout)
    print_answer(flags.output, document, rollout_text)
    return EXIT_FITS if rollout.is_done else EXIT_DOES_NOT_FIT


ROLLOUT: Final = Command(
    "rollout",
    "How far the replacement of one RuntimeClass by another has come: pool by pool the nodes that"
    " run the new one and why the others don't, what still names the old one, what to do next."
    " Exit code 0 when it is done, 1 when it is not.",
    _add_flags,
    _rollout,
)
