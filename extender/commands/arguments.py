"""Flags that commands have in common."""

import argparse
import os
from collections.abc import Sequence

from extender import __version__
from extender.commands.cluster_state import Source
from extender.flags import PROGRAM, CommandParser, with_environment
from extender.predicates.runtimeclass import HandlerCheck
from extender.verbs.matching import Policy


def base_parser(program: str, command: str, description: str) -> CommandParser:
    """A parser with the flags that every command has; program is how it was called."""
    parser = CommandParser(prog=f"{program} {command}", description=description)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more; repeatable")
    group = parser.add_argument_group("where the state of the cluster comes from")
    group.add_argument(
        "--manifests",
        action="append",
        default=[],
        metavar="PATH",
        help="file or folder of YAML or JSON with Nodes, RuntimeClasses and Pods; repeatable",
    )
    group.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="of the cluster; without: the service account, else the default file",
    )
    group.add_argument("--context", metavar="NAME", help="of the kubeconfig")
    parser.boolean_flag(
        "--watch-list", default=True, help="=false: lists in pages only, no streamed lists"
    )
    return parser


def add_policy_flags(parser: CommandParser) -> None:
    """What matching means."""
    parser.add_argument(
        "--handler-check",
        choices=[each.value for each in HandlerCheck],
        default=HandlerCheck.AUTO.value,
        help="auto: a node that reports no runtime handlers passes; strict: it fails; off",
    )
    parser.boolean_flag(
        "--toleration-comparison-operators",
        default=False,
        help="tolerations with Lt and Gt (gate TaintTolerationComparisonOperators)",
    )


def command_parser(program: str, command: str, description: str) -> CommandParser:
    """A parser for a command that prints something and ends."""
    parser = base_parser(program, command, description)
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="what is printed"
    )
    add_policy_flags(parser)
    return parser


def parse(parser: CommandParser, command: str, argv: Sequence[str]) -> argparse.Namespace:
    return parser.parse_args(with_environment(parser, command, argv, os.environ))


def source_of(flags: argparse.Namespace) -> Source:
    return Source(tuple(flags.manifests), flags.kubeconfig, flags.context)


def policy_of(flags: argparse.Namespace) -> Policy:
    return Policy(HandlerCheck(flags.handler_check), flags.toleration_comparison_operators)
