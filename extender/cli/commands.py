"""The commands, and the flags that several of them share."""

from collections.abc import Mapping
from typing import Final

import click

from extender.cli.flags import (
    PLUGIN,
    Command,
    Flag,
    Flags,
    Later,
    Name,
    Program,
    argument,
    boolean,
    choice,
    flag,
)
from extender.cli.streams import written_out
from extender.kubernetes.versions import NEWEST, Version, version_of, version_text
from extender.model.errors import UsageError
from extender.rules.kubelet_checks import KubeletCheck
from extender.rules.node_checks import HandlerCheck, Policy


def _by_name(*commands: Later) -> dict[str, Later]:
    return {str(each.name): each for each in commands}


PLUGIN_COMMANDS: Final[Mapping[str, Later]] = _by_name(
    Later("explain", "why a pod fits or does not, node by node", "explain.explain_command"),
    Later(
        "nodes", "which nodes match a RuntimeClass, or not, and why", "inventory.classes_command"
    ),
    Later("check", "lints classes, nodes, a configuration or, with -f, pods", "lint.check_command"),
    Later("pods", "which pods use which RuntimeClass on which node", "inventory.pods_command"),
    Later("classes", "each RuntimeClass, its nodes and pods", "inventory.classes_command"),
    Later("can-delete", "whether anything uses a RuntimeClass", "inventory.can_delete_command"),
    Later("impact", "what a change would break, before it is made", "inventory.impact_command"),
    Later("rollout", "how far a class's replacement has come", "inventory.rollout_command"),
    Later("render", "prints pods as admission would change them", "admission.render_command"),
    Later("fit", "which RuntimeClasses could run a pod, best first", "inventory.fit_command"),
    Later("completion", "prints a completion script for bash, zsh or fish", "cli.completion"),
    Later("help", "tells the flags of a command, with examples", "cli.commands"),
    Later("version", "prints the version", "cli.commands"),
)

COMMANDS: Final[Mapping[str, Later]] = {
    **_by_name(
        Later("serve", "runs the scheduler extender", "server.serve_command"),
        Later("webhook", "runs the RuntimeClass admission webhook", "server.webhook_command"),
    ),
    **PLUGIN_COMMANDS,
}


def program(name: str) -> Program:
    """name: PROGRAM or PLUGIN."""
    return Program(name, (PLUGIN_COMMANDS if name == PLUGIN else COMMANDS).values())


def _print(name: str, *words: str) -> int:
    """Print what click prints for the words, such as --help or --version. Returns 0."""
    root = program(name)
    with written_out(), root.make_context(name, [*words]) as context:
        root.invoke(context)
    return 0


_COMMAND: Final = argument(
    "command", "COMMAND", "all without it", required=False, type=click.Choice([*COMMANDS])
)
HELP: Final = Command(
    "help",
    "The flags of a command, with examples.",
    lambda name, flags: _print(name, *filter(None, [flags.command]), "--help"),
    [_COMMAND],
    examples=["", "explain"],
)
VERSION: Final = Command(
    "version",
    "The version of this program.",
    lambda name, _: _print(name, "--version"),
    examples=[""],
)


def source_flags() -> list[Flag]:
    """The flags that say where the state of the cluster comes from."""
    return [
        flag("-v, --verbose", "log more; repeatable (-vv)", count=True, type=None),
        flag(
            "--manifests PATH",
            "read Nodes, RuntimeClasses and Pods from this file or folder of YAML or JSON, and"
            " not from a cluster; repeatable",
            multiple=True,
        ),
        flag(
            "--kubeconfig FILE",
            "kubeconfig of the cluster (default: the pod's service account, else $KUBECONFIG,"
            " else ~/.kube/config)",
        ),
        flag("--context NAME", "context of the kubeconfig", type=Name("contexts")),
        boolean("--watch-list", "=false: read lists in pages, never as a stream", default=True),
    ]


def check_source(flags: Flags) -> None:
    """Raises UsageError for flags that exclude each other."""
    if flags.manifests and (flags.kubeconfig or flags.context):
        raise UsageError("--manifests can't be used with --kubeconfig or --context")


def reading_flags(*formats: str) -> list[Flag]:
    """The flags of a command that judges nodes. formats: those beside table, json and yaml."""
    return [*printing_flags(*formats), *policy_flags(), *cluster_flags()]


def cluster_flags() -> list[Flag]:
    """The flags of all commands that read a cluster once."""
    return [
        *source_flags(),
        flag(
            "--as USER",
            "user to impersonate, as with kubectl: whose rights would be enough?",
            name="as_user",
        ),
        flag("--as-group GROUP", "group of that user; repeatable", multiple=True),
    ]


def policy_flags() -> list[Flag]:
    return [
        choice(
            "--handler-check",
            "auto: reject nodes that report runtime handlers, but not the class's; strict: also"
            " nodes that report none; off: skip",
            values=HandlerCheck,
            default=HandlerCheck.AUTO,
        ),
        choice(
            "--kubelet-check",
            "auto: reject nodes whose kubelet is known to refuse the pod; strict: also, for"
            " hostUsers: false, kubelets 1.31 and 1.32; off: skip",
            values=KubeletCheck,
            default=KubeletCheck.AUTO,
        ),
        boolean(
            "--toleration-comparison-operators",
            "judge tolerations with operators Lt and Gt, as kube-scheduler does with the feature"
            " gate TaintTolerationComparisonOperators",
        ),
    ]


def policy_of(flags: Flags) -> Policy:
    return Policy(
        HandlerCheck(flags.handler_check),
        flags.toleration_comparison_operators,
        KubeletCheck(flags.kubelet_check),
    )


def printing_flags(*others: str) -> list[Flag]:
    """others: formats that the command has beside table, json and yaml."""
    formats = ["table", "json", "yaml", *others]
    return [
        choice("-o, --output", "output format", values=formats, default="table"),
        choice(
            "--color",
            "auto: on a terminal, unless NO_COLOR is set",
            values=["auto", "always", "never"],
            default="auto",
        ),
    ]


def pool_label_flag() -> Flag:
    return flag(
        "--pool-label KEY",
        "node label whose value names the node's pool; repeatable, the first that a node has"
        " counts. Nodes without it are grouped by the labels of cloud providers and autoscalers"
        " (docs/platforms.md), else by equal labels and taints",
        multiple=True,
    )


def server_flag() -> Flag:
    return flag(
        "--server URL",
        "ask a running service, which judges by its own flags: its URL, or NAMESPACE/SERVICE:PORT"
        " by the API server's proxy; for those who may not list nodes",
    )


def version_flag(unless_given: str = "") -> Flag:
    """unless_given: the end of the help, which tells the default version."""
    return flag(
        "--kubernetes-version VERSION",
        f"version of kube-scheduler, such as {version_text(NEWEST)}{unless_given}",
        type=_kubernetes_version,
    )


def _kubernetes_version(text: str) -> Version:
    version = version_of(text)
    if version is None:
        raise click.BadParameter(f"{text!r} is not a version such as {version_text(NEWEST)}")
    return version
