"""How serve and webhook begin: what is wrong is said at once, then gunicorn runs.

Everything is checked in the first process and read there once; the parts are put together in
gunicorn's worker, after the fork, since threads do not survive one.
"""

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from extender.cluster.cluster_config import ClusterConfig, ConfigError
from extender.cluster.manifests import (
    ManifestError,
    Manifests,
    Signature,
    load_manifests,
    signature,
)
from extender.flags import UsageError
from extender.serving import logs
from extender.serving.gunicorn_worker import Application, Running
from extender.serving.listeners import (
    ListenOptions,
    announce,
    check_tls_files,
    hears_all_addresses,
    listen_on,
)
from extender.streams import say

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Where the state of the cluster comes from: manifests, or an API server."""

    manifests: tuple[str, ...] = ()
    kubeconfig: str | None = None
    context: str | None = None
    watch_list: bool = True


#: The manifests' content, or how to reach the cluster.
Preloaded = tuple[Signature, Manifests] | ClusterConfig


def _preload(source: SourceOptions) -> Preloaded:
    """Raises UsageError."""
    if source.manifests and (source.kubeconfig or source.context):
        raise UsageError("--manifests and --kubeconfig or --context exclude each other")
    try:
        if source.manifests:
            return signature(source.manifests), load_manifests(source.manifests)
        config = ClusterConfig(source.kubeconfig, source.context)
    except (ManifestError, ConfigError) as error:
        raise UsageError(str(error)) from None
    for warning in config.warnings:
        _LOG.warning(warning)
    return config


def run(
    listen: ListenOptions,
    source: SourceOptions,
    line_to_try: Callable[[str, str, Preloaded], str],
    start: Callable[[Preloaded], Running],
) -> int:
    """Run until told to stop. Raises UsageError for what a person can mend.

    line_to_try makes a line from curl with its flags and the URL; start is called in the worker.
    """
    logs.configure(listen.log_format, listen.verbosity)
    check_tls_files(listen)
    preloaded = _preload(source)
    listener = listen_on(listen.bind, "--bind")
    ops_listener = listen_on(listen.ops_bind, "--ops-bind") if listen.ops_bind else None
    if not (listen.tls_cert_file or listen.bind.is_loopback):
        _LOG.warning(
            "--bind %s without TLS: whoever reaches this address may ask about nodes and"
            " RuntimeClasses; --tls-cert-file, --tls-private-key-file and --client-ca-file let in"
            " only those who have a certificate",
            listen.bind,
        )
    url = announce(listener, bool(listen.tls_cert_file))
    hints = [(listener, "listening on", url, line_to_try(_curl(listen), url, preloaded))]
    if ops_listener is not None:
        hints.append((ops_listener, "probes and metrics on", announce(ops_listener, tls=False), ""))
    for heard, what, url, line in hints:
        where = f"{url} and all other addresses" if hears_all_addresses(heard) else url
        if listen.log_format == "json":
            _LOG.info("%s %s", what, where, extra={"try": line} if line else {})
        else:
            say(f"{what} {where}" + (" (Ctrl-C stops); try:" if line else ""))
            say(*[f"  {line}"] if line else [])

    def start_worker(loaded: Preloaded | None) -> Running:
        # Only the first worker finds what was loaded; one that takes its place loads it again.
        return start(loaded or _preload(source))

    application = Application(listen, listener, ops_listener, start_worker, preloaded)
    # The application lets go of it once the worker has what it needs; so must this frame.
    del preloaded
    application.run()
    return 0


def _curl(listen: ListenOptions) -> str:
    """How to ask from this machine, by whose name no certificate may be."""
    if not listen.tls_cert_file:
        return "curl -sS"
    client = " --cert CLIENT.crt --key CLIENT.key" if listen.client_ca_file else ""
    return f"curl -sS --insecure{client}"


def readiness_line(curl: str, url: str) -> str:
    return f"{curl} '{url}/readyz?verbose'"


def freeze() -> None:
    """Take what lives as long as the process out of the garbage collector's sight.

    A full collection walks every container; with the nodes of a large cluster that is tens of
    milliseconds in the middle of a request.
    """
    gc.collect()
    gc.freeze()
