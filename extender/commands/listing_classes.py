"""classes: what each RuntimeClass is used for: nodes, pods, overhead, findings."""

import argparse
from typing import Final

from extender.checks.classes_and_nodes import check_classes, check_tolerations
from extender.checks.finding import Severity, worst_first
from extender.commands.arguments import Command, add_policy_flags, add_printing_flags, policy_of
from extender.commands.output import EXIT_FITS, print_answer
from extender.commands.usage import add_pool_flags, counted, load_usage
from extender.flags import CommandParser
from extender.printing.usage_documents import ClassUse, usage_document
from extender.printing.usage_texts import usage_text
from extender.verbs.class_nodes import Support
from extender.verbs.class_usage import Usage, nodes_of_each
from extender.verbs.placement import Placement
from extender.verbs.pools import pools_of


def _add_flags(parser: CommandParser) -> None:
    add_printing_flags(parser)
    add_policy_flags(parser)
    parser.boolean_flag("--by-pool", help="a line for each pool of nodes too")
    add_pool_flags(parser)


def _classes(program: str, flags: argparse.Namespace) -> int:
    """Exit code 0. Raises UsageError."""
    state, policy = load_usage(f"{program} classes", flags), policy_of(flags)
    snapshot = state.snapshot
    pools = pools_of(snapshot, flags.pool_label) if flags.by_pool else None
    usage, placement = Usage(pools), Placement(snapshot, policy)
    with counted(state.inventory.pods()) as pods:
        for found in pods:
            if found.placed.runtime_class_name:
                usage.count(found.placed, placement.judge(found.placed)[0])
    classes = snapshot.classes_by_name
    findings = check_classes(snapshot, Support(policy.handler_check), policy)
    if snapshot.nodes:
        findings += check_tolerations(classes, state.taints)
    used = ClassUse(
        classes,
        nodes_of_each(classes, snapshot, state.not_ready, policy, pools),
        usage,
        [each for each in worst_first(findings) if each.severity is not Severity.ADVICE],
        pools,
    )
    document = usage_document(used)
    print_answer(flags.output, document, usage_text)
    return EXIT_FITS


CLASSES: Final = Command(
    "classes",
    "What each RuntimeClass is used for: the nodes that match it, and are ready, its pods, the"
    " overhead that the running ones reserve, findings.",
    _add_flags,
    _classes,
)
