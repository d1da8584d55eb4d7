"""How serve and webhook begin: what is wrong is said at once, then gunicorn runs.

Everything is checked in the first process and read there once; the parts are put together in
gunicorn's worker, after the fork, since threads do not survive one.
"""

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass

from extender import logs
from extender.cluster.cluster_config import ClusterConfig, ConfigError
from extender.cluster.manifests import (
    ManifestError,
    Manifests,
    Signature,
    load_manifests,
    signature,
)
from extender.flags import UsageError
from extender.server import (
    Application,
    ListenOptions,
    Running,
    announce,
    check_tls_files,
    listen_on,
)


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
        return ClusterConfig(source.kubeconfig, source.context)
    except (ManifestError, ConfigError) as error:
        raise UsageError(str(error)) from None


def run(
    listen: ListenOptions,
    source: SourceOptions,
    line_to_try: Callable[[str, Preloaded], str],
    start: Callable[[Preloaded], Running],
) -> int:
    """Run until told to stop. Raises UsageError for what a person can mend.

    line_to_try makes a curl line from the URL; start is called in the worker.
    """
    logs.configure(listen.log_format, listen.verbosity)
    check_tls_files(listen)
    preloaded = _preload(source)
    listener = listen_on(listen.bind, "--bind")
    ops_listener = listen_on(listen.ops_bind, "--ops-bind") if listen.ops_bind else None
    url = announce(listener, bool(listen.tls_cert_file))
    line = line_to_try(url, preloaded)
    print(f"listening on {url} (Ctrl-C stops); try:\n  {line}", file=sys.stderr, flush=True)
    if ops_listener is not None:
        ops_url = announce(ops_listener, tls=False)
        print(f"probes and metrics on {ops_url}", file=sys.stderr, flush=True)

    def start_worker(loaded: Preloaded | None) -> Running:
        # Only the first worker finds what was loaded; one that takes its place loads it again.
        return start(loaded or _preload(source))

    application = Application(listen, listener, ops_listener, start_worker, preloaded)
    # The application lets go of it once the worker has what it needs; so must this frame.
    del preloaded
    application.run()
    return 0


def readiness_line(url: str) -> str:
    return f"curl -s '{url}/readyz?verbose'"


def freeze() -> None:
    """Take what lives as long as the process out of the garbage collector's sight.

    A full collection walks every container; with the nodes of a large cluster that is tens of
    milliseconds in the middle of a request.
    """
    gc.collect()
    gc.freeze()
