"""The command line: runtimeclass-extender COMMAND [flags]."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from extender import __version__
from extender.admission.merging import Merge
from extender.commands.arguments import add_policy_flags, base_parser, parse, policy_of
from extender.commands.checking import check_command
from extender.commands.explaining import explain_command
from extender.commands.listing_nodes import nodes_command
from extender.flags import (
    EXIT_USAGE,
    PROGRAM,
    CommandParser,
    UsageError,
    address,
    whole_number,
)
from extender.http.service import DEFAULT_MAX_BODY_BYTES
from extender.http.webhook import DEFAULT_MAX_REVIEW_BYTES
from extender.server import ListenOptions
from extender.serving import ServeOptions, serve
from extender.starting import SourceOptions
from extender.webhook_serving import WebhookOptions, serve_webhook

#: The compiled part counts places in a body with 32 bits.
_MAX_BODY_LIMIT: Final = 2**32 - 1

#: 128 + SIGINT, as a shell tells it.
EXIT_INTERRUPTED: Final = 130

#: What each command is about, and what runs it.
Commands = dict[str, tuple[str, Callable[[Sequence[str]], int]]]


def _add_listener_flags(parser: CommandParser, bind: str, max_body_bytes: int) -> None:
    group = parser.add_argument_group("listening")
    group.add_argument(
        "--bind", type=address, default=bind, metavar="HOST:PORT", help="where to listen"
    )
    group.add_argument(
        "--ops-bind",
        type=address,
        metavar="HOST:PORT",
        help="plain-HTTP listener for /livez, /readyz and /metrics",
    )
    group.add_argument(
        "--threads", type=whole_number(1, 1024), default=8, metavar="N", help="requests at a time"
    )
    group.add_argument("--tls-cert-file", metavar="FILE", help="certificate, PEM")
    group.add_argument("--tls-private-key-file", metavar="FILE", help="its key, PEM")
    group.add_argument(
        "--client-ca-file", metavar="FILE", help="require client certificates of this CA, PEM"
    )
    group.add_argument(
        "--max-body-bytes",
        type=whole_number(1, _MAX_BODY_LIMIT),
        default=max_body_bytes,
        metavar="N",
        help="larger request bodies are refused with 413",
    )
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="of the log")


def _source_options(flags: argparse.Namespace) -> SourceOptions:
    return SourceOptions(tuple(flags.manifests), flags.kubeconfig, flags.context, flags.watch_list)


def _serve(argv: Sequence[str]) -> int:
    about = "The scheduler extender: answers kube-scheduler over HTTP."
    parser = base_parser(PROGRAM, "serve", about)
    _add_listener_flags(parser, "127.0.0.1:8888", DEFAULT_MAX_BODY_BYTES)
    add_policy_flags(parser)
    parser.boolean_flag(
        "--requeue-pods",
        default=False,
        help="annotate Pending pods that would now pass, so that kube-scheduler tries them again",
    )
    flags = parse(parser, "serve", argv)
    return serve(
        ServeOptions(
            listen=_listen_options(flags),
            source=_source_options(flags),
            requeue_pods=flags.requeue_pods,
            policy=policy_of(flags),
        )
    )


def _webhook(argv: Sequence[str]) -> int:
    about = "The RuntimeClass admission webhook: answers kube-apiserver."
    parser = base_parser(PROGRAM, "webhook", about)
    _add_listener_flags(parser, "127.0.0.1:8443", DEFAULT_MAX_REVIEW_BYTES)
    parser.add_argument(
        "--merge",
        choices=[each.value for each in Merge],
        default=Merge.ALL.value,
        help="tolerations: overhead and tolerations only, the nodeSelector is left to the filter",
    )
    parser.boolean_flag(
        "--default-class",
        default=False,
        help="give pods that name no RuntimeClass the default one of their namespace or cluster",
    )
    flags = parse(parser, "webhook", argv)
    return serve_webhook(
        WebhookOptions(
            listen=_listen_options(flags),
            source=_source_options(flags),
            merge=Merge(flags.merge),
            default_class=flags.default_class,
        )
    )


def _listen_options(flags: argparse.Namespace) -> ListenOptions:
    return ListenOptions(
        bind=flags.bind,
        ops_bind=flags.ops_bind,
        threads=flags.threads,
        tls_cert_file=flags.tls_cert_file,
        tls_private_key_file=flags.tls_private_key_file,
        client_ca_file=flags.client_ca_file,
        max_body_bytes=flags.max_body_bytes,
        log_format=flags.log_format,
        verbosity=flags.verbose,
    )


_ASKING: Final = {
    "explain": ("why a pod fits or does not, node by node", explain_command),
    "nodes": ("which nodes match a RuntimeClass", nodes_command),
    "check": ("lints RuntimeClasses, nodes and a scheduler configuration", check_command),
}

_COMMANDS: Final[Commands] = {
    "serve": ("the scheduler extender", _serve),
    "webhook": ("the RuntimeClass admission webhook", _webhook),
    **{name: (about, partial(run, PROGRAM)) for name, (about, run) in _ASKING.items()},
}

_PLUGIN: Final = "kubectl runtimeclass"
_PLUGIN_COMMANDS: Final[Commands] = {
    name: (about, partial(run, _PLUGIN)) for name, (about, run) in _ASKING.items()
}


def _usage(program: str, known: Commands) -> str:
    width = max(map(len, known))
    commands = "\n".join(f"  {name:<{width}}  {about}" for name, (about, _) in known.items())
    return (
        f"usage: {program} COMMAND [flags]\n\ncommands:\n{commands}\n\n"
        f"{program} COMMAND --help lists the flags of a command; --version prints the version."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    return _run(PROGRAM, _COMMANDS, sys.argv[1:] if argv is None else argv)


def kubectl_main(argv: Sequence[str] | None = None) -> int:
    """The same for `kubectl runtimeclass`, which kubectl finds by the script's name."""
    return _run(_PLUGIN, _PLUGIN_COMMANDS, sys.argv[1:] if argv is None else argv)


def _run(program: str, known: Commands, argv: Sequence[str]) -> int:
    words = list(argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage(program, known))
        return 0 if words else EXIT_USAGE
    if words[0] == "--version":
        print(f"{PROGRAM} {__version__}")
        return 0
    if words[0] not in known:
        print(f"{program}: unknown command {words[0]!r}; see {program} --help", file=sys.stderr)
        return EXIT_USAGE
    try:
        return known[words[0]][1](words[1:])
    except UsageError as error:
        print(f"{program} {words[0]}: {error}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        print(f"{program} {words[0]}: {error.strerror or error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
