"""fit: which RuntimeClasses could run a pod, best first."""

import argparse
from typing import Final

from extender.commands.arguments import (
    Command,
    add_policy_flags,
    add_printing_flags,
    policy_of,
)
from extender.commands.explaining import add_pod_flags, read_asked_pod
from extender.commands.output import EXIT_DOES_NOT_FIT, EXIT_FITS, print_answer
from extender.decoding.class_annotations import ISOLATION_ANNOTATION, ISOLATION_LEVELS
from extender.flags import CommandParser, UsageError
from extender.objects import Pod
from extender.printing.fit_answers import fit_document, fit_text
from extender.reasons import shown
from extender.verbs.fitting_classes import best, fit


def _add_flags(parser: CommandParser) -> None:
    add_printing_flags(parser)
    add_policy_flags(parser)
    add_pod_flags(parser)
    parser.add_argument(
        "--isolation",
        choices=ISOLATION_LEVELS,
        help="only classes that keep their pods apart at least so well, by their annotation;"
        " without it the level that the pod's own annotation asks for",
    )


def _fit(program: str, flags: argparse.Namespace) -> int:
    """Exit code 0 when a class fits, 1 when none does. Raises UsageError, also without a Node."""
    asked = read_asked_pod(program, "fit", flags)
    isolation = flags.isolation or _isolation_of(asked.pod)
    found = fit(asked.pod, asked.state.snapshot, policy_of(flags), asked.rules, isolation)
    document = fit_document(found)
    print_answer(flags.output, document, fit_text)
    return EXIT_FITS if best(found) else EXIT_DOES_NOT_FIT


def _isolation_of(pod: Pod) -> str:
    """The level that the pod asks for as `webhook --fit` reads it; "" for none."""
    level = pod.state.isolation
    if level and level not in ISOLATION_LEVELS:
        raise UsageError(
            f'annotation {ISOLATION_ANNOTATION} of the pod: "{shown(level)}" is none of'
            f" {', '.join(ISOLATION_LEVELS)}; --isolation LEVEL counts instead"
        )
    return level


FIT: Final = Command(
    "fit",
    "Which RuntimeClasses could run a pod, best first: most nodes, then least overhead, then by"
    " name. Exit code 1 when none could.",
    _add_flags,
    _fit,
)
