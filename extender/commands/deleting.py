"""can-delete: whether anything uses a RuntimeClass."""

import argparse
from typing import Final

from extender.commands.arguments import Command, add_printing_flags
from extender.commands.output import EXIT_DOES_NOT_FIT, EXIT_FITS, print_answer
from extender.commands.usage import class_named, counted, load_usage
from extender.flags import CommandParser
from extender.printing.usage_documents import can_delete_document
from extender.printing.usage_texts import can_delete_text
from extender.verbs.class_users import users_of


def _add_flags(parser: CommandParser) -> None:
    add_printing_flags(parser)
    parser.add_argument("runtimeclass", metavar="CLASS", help="the name of a RuntimeClass")


def _can_delete(program: str, flags: argparse.Namespace) -> int:
    """Exit code 0 when nothing uses the class, 1 when something does. Raises UsageError."""
    state = load_usage(f"{program} can-delete", flags, nodes=False)
    runtime_class = class_named(flags.runtimeclass, state)
    inventory = state.inventory
    with counted(inventory.pods()) as pods:
        users = list(
            users_of(
                runtime_class.name,
                runtime_class,
                (each.placed for each in pods),
                inventory.workloads(),
                inventory.namespaces(),
            )
        )
    document = can_delete_document(runtime_class.name, users)
    print_answer(flags.output, document, can_delete_text)
    return EXIT_DOES_NOT_FIT if users else EXIT_FITS


CAN_DELETE: Final = Command(
    "can-delete",
    "Whether a RuntimeClass may be deleted: exit code 0 when no pod, template or default uses it,"
    " 1 with a list of what does.",
    _add_flags,
    _can_delete,
)
