"""serve and webhook: their flags."""

import argparse
from dataclasses import replace
from typing import Final

from extender.admission.merging import Merge
from extender.commands.arguments import Command, add_policy_flags, policy_of, source_of
from extender.commands.usage import add_pool_flags
from extender.flags import CommandParser, address, whole_number
from extender.http.review_routes import DEFAULT_MAX_REVIEW_BYTES
from extender.http.service import DEFAULT_MAX_BODY_BYTES
from extender.objects import MARK
from extender.serving.listeners import ListenOptions
from extender.serving.serve import ServeOptions, serve
from extender.serving.webhook import WebhookOptions, serve_webhook
from extender.verbs.review import Unsupported

#: The compiled part stores positions in a body in 32 bits.
_MAX_BODY_LIMIT: Final = 2**32 - 1


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


def _add_serve_flags(parser: CommandParser) -> None:
    _add_listener_flags(parser, "127.0.0.1:8888", DEFAULT_MAX_BODY_BYTES)
    add_policy_flags(parser)
    parser.boolean_flag(
        "--requeue-pods",
        help="annotate Pending pods that would now pass, so that kube-scheduler tries them again",
    )
    parser.boolean_flag("--pages", default=True, help="answer browsers with pages, also at /")
    add_pool_flags(parser)
    parser.boolean_flag(
        "--watch-pods",
        help="follow pods, for the gauges pods and overhead: how many of each class run, wait, are"
        " stranded or have drifted, and what they cost",
    )


def _serve(_: str, flags: argparse.Namespace) -> int:
    return serve(
        ServeOptions(
            listen=_listen_options(flags),
            source=replace(source_of(flags), uses=flags.watch_pods),
            requeue_pods=flags.requeue_pods,
            policy=policy_of(flags),
            pages=flags.pages,
            pool_labels=tuple(flags.pool_label),
        )
    )


def _add_webhook_flags(parser: CommandParser) -> None:
    _add_listener_flags(parser, "127.0.0.1:8443", DEFAULT_MAX_REVIEW_BYTES)
    parser.choice_flag(
        "--merge",
        Merge.ALL,
        help="tolerations: overhead and tolerations only, the nodeSelector is left to the filter",
    )
    parser.boolean_flag(
        "--default-class",
        help="give pods that name no RuntimeClass the default one of their namespace or cluster",
    )
    parser.boolean_flag(
        "--mark-pods",
        help=f"have pods with a RuntimeClass ask for {MARK}, for an extender's managedResources",
    )

    parser.choice_flag(
        "--unsupported",
        Unsupported.WARN,
        help="a pod that uses a feature that its class does not support: its author is warned, or"
        " it is refused",
    )
    parser.boolean_flag(
        "--fit",
        help="give a pod that asks for an isolation by annotation and names no RuntimeClass the one"
        " that fits best; follows Nodes and Namespaces",
    )


def _webhook(_: str, flags: argparse.Namespace) -> int:
    return serve_webhook(
        WebhookOptions(
            listen=_listen_options(flags),
            source=source_of(flags),
            merge=Merge(flags.merge),
            default_class=flags.default_class,
            mark_pods=flags.mark_pods,
            unsupported=Unsupported(flags.unsupported),
            fit=flags.fit,
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


SERVE: Final = Command(
    "serve",
    "The scheduler extender: answers kube-scheduler over HTTP.",
    _add_serve_flags,
    _serve,
)

WEBHOOK: Final = Command(
    "webhook",
    "The RuntimeClass admission webhook: answers kube-apiserver.",
    _add_webhook_flags,
    _webhook,
)
