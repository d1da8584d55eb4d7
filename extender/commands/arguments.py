"""A command of the command line, and the flags that commands share."""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from extender import __version__
from extender.cluster.source_options import SourceOptions
from extender.environment import flag_variable, with_environment
from extender.flags import PROGRAM, CommandParser
from extender.predicates.kubelet import KubeletCheck
from extender.predicates.node_checks import HandlerCheck, Policy

#: The name of the program as a kubectl plugin, instead of PROGRAM.
PLUGIN: Final = "kubectl runtimeclass"


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its flags, and what runs it.

    run takes the program's name as it was called and the flags, and returns the exit code. It
    raises UsageError. reads_cluster: whether it has the flags that say where the state of the
    cluster comes from.
    """

    name: str
    description: str
    add_flags: Callable[[CommandParser], None]
    run: Callable[[str, argparse.Namespace], int]
    reads_cluster: bool = True

    def parser(self, program: str) -> CommandParser:
        """program is the name it was called by: PROGRAM or PLUGIN."""
        prog = f"{program} {self.name}"
        parser = CommandParser(prog, self.description, command=self.name)
        parser.add_argument("-h", "--help", action="help", help="print this")
        version = f"{PROGRAM} {__version__}"
        parser.add_argument("--version", action="version", version=version, help="print it")
        parser.add_argument(
            "-v", "--verbose", action="count", default=0, help="say more; repeatable"
        )
        self.add_flags(parser)
        if self.reads_cluster:
            _add_source_flags(parser)
            parser.epilog = _about_variables(parser)
        return parser

    def parse(self, program: str, argv: Sequence[str]) -> argparse.Namespace:
        """The flags of a command line and of the environment; a wrong one ends the program."""
        parser = self.parser(program)
        return parser.read(with_environment(parser, argv, os.environ))


@dataclass(frozen=True, slots=True)
class Entry:
    """One command in the list of them; place is its module and its name in there."""

    about: str
    place: str

    def load(self) -> Command:
        """Import it, which for serve takes 0.2 s."""
        module, _, name = self.place.partition(".")
        command = getattr(import_module(f"extender.commands.{module}"), name)
        assert isinstance(command, Command)
        return command


def _about_variables(parser: CommandParser) -> str:
    example = next(each for each in parser.flags() if each != "--verbose")
    return (
        f"Every flag is also read from the environment, {example} from"
        f" {flag_variable(parser.command, example)}; one that may be repeated with colons between"
        " its values. What stands on the command line wins."
    )


def _add_source_flags(parser: CommandParser) -> None:
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
        help="of the cluster; without it the service account, else $KUBECONFIG, else"
        " ~/.kube/config",
    )
    group.add_argument("--context", metavar="NAME", help="of the kubeconfig")
    parser.boolean_flag(
        "--watch-list", default=True, help="=false: lists in pages only, no streamed lists"
    )


def add_policy_flags(parser: CommandParser) -> None:
    """The flags of matching."""
    parser.choice_flag(
        "--handler-check",
        HandlerCheck.AUTO,
        help="auto: a node that reports no runtime handlers passes; strict: it fails; off",
    )
    parser.choice_flag(
        "--kubelet-check",
        KubeletCheck.AUTO,
        help="auto: what a node's kubelet is known to reject fails; strict: what kubelets 1.31 and"
        " 1.32 reject by default too; off",
    )
    parser.boolean_flag(
        "--toleration-comparison-operators",
        help="tolerations with Lt and Gt (gate TaintTolerationComparisonOperators)",
    )


def add_printing_flags(parser: CommandParser, others: Sequence[str] = ()) -> None:
    """The flags of a command that prints something and ends.

    others: formats that it has beside table and json.
    """
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", *others),
        default="table",
        help="what is printed",
    )


def source_of(flags: argparse.Namespace) -> SourceOptions:
    """Raises UsageError when they exclude each other."""
    return SourceOptions(tuple(flags.manifests), flags.kubeconfig, flags.context, flags.watch_list)


def policy_of(flags: argparse.Namespace) -> Policy:
    return Policy(
        HandlerCheck(flags.handler_check),
        flags.toleration_comparison_operators,
        KubeletCheck(flags.kubelet_check),
    )
