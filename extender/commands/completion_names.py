"""The names in a cluster that complete a command line.

Completion must answer at once or not at all: if the cluster does not answer within a second, or
anything else goes wrong, there are no candidates.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Final

from extender.cluster.cluster_config import ClusterConfig, ConfigError, context_names
from extender.cluster.reading_manifests import load_manifests
from extender.cluster.reading_once import ClusterReader
from extender.flags import UsageError
from extender.objects import Pod, RuntimeClass

Candidates = Sequence[tuple[str, str]]

_PATIENCE_SECONDS: Final = 1.0


def contexts(flags: argparse.Namespace) -> Candidates:
    """The contexts of the kubeconfig."""
    try:
        return [(name, "") for name in context_names(flags.kubeconfig)]
    except ConfigError:
        return ()


def runtime_classes(flags: argparse.Namespace) -> Candidates:
    """Every RuntimeClass and its handler."""
    try:
        found: Mapping[str, RuntimeClass]
        if flags.manifests:
            found = load_manifests(flags.manifests).runtime_classes
        else:
            found = _reader(flags).runtime_classes()
    except UsageError:
        return ()
    return [(each.name, f"handler {each.handler}") for _, each in sorted(found.items())]


def pods(flags: argparse.Namespace, last: str, *, plugin: bool) -> Candidates:
    """The pods, in a cluster only Pending ones, spelled as the program expects them.

    The plugin and -n expect names of one namespace, everything else NAMESPACE/NAME.
    """
    kind, slash, _ = last.partition("/")
    typed = f"{kind}/" if slash and kind in ("po", "pod", "pods") else ""
    try:
        found: Mapping[str, Pod]
        if flags.manifests:
            namespace = flags.namespace or ("default" if plugin else "")
            found = load_manifests(flags.manifests).pods
        else:
            config = ClusterConfig(flags.kubeconfig, flags.context)
            namespace = flags.namespace or (config.namespace if plugin else "")
            found = _reader(flags, config).pending_pods()
    except UsageError:
        return ()
    named = [(*key.split("/", 1), pod.runtime_class_name) for key, pod in sorted(found.items())]
    if not namespace or (slash and not typed):
        return [(f"{of}/{name}", class_name) for of, name, class_name in named]
    return [(f"{typed}{name}", class_name) for of, name, class_name in named if of == namespace]


def _reader(flags: argparse.Namespace, config: ClusterConfig | None = None) -> ClusterReader:
    config = config or ClusterConfig(flags.kubeconfig, flags.context)
    return ClusterReader(config, silence=_PATIENCE_SECONDS)
