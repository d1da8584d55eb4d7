"""The pod that a command line names: by POD, by -f FILE, or by both."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import click

from extender.cli.cluster_state import ClusterState, config_of, if_allowed, load_cluster
from extender.cli.flags import PLUGIN, Flags, argument, flag
from extender.cli.streams import warn
from extender.cluster.input_files import STDIN, read_stdin
from extender.cluster.manifest_objects import Manifests, load_manifests, read_manifest
from extender.cluster.reading_once import ClusterReader, ReadError
from extender.cluster.running_service import RunningService
from extender.kubernetes.kinds import PODS
from extender.kubernetes.namespaces import NamespaceRules, rules_of
from extender.kubernetes.workloads import KINDS
from extender.model.errors import UsageError
from extender.model.objects import Pod
from extender.model.reasons import listed, shown
from extender.model.similar import did_you_mean

POD: Final = PODS.name

#: kubectl's names for the kinds, in lower case: the kind, its plural and its short name.
_KINDS: Final = {
    word: each.name
    for each in KINDS.values()
    for word in (each.name.lower(), each.plural, each.short)
    if word
}


@dataclass(frozen=True, slots=True)
class AskedPod:
    """kind: of the object that holds the pod. rules: of the pod's namespace, None if unknown."""

    pod: Pod
    kind: str
    state: ClusterState
    rules: NamespaceRules | None


#: The Pods and workloads of a file, by kind and NAMESPACE/NAME.
_Objects = Mapping[tuple[str, str], Pod]


class _Name(NamedTuple):
    """POD, parsed; a part that is not given is empty."""

    kind: str
    namespace: str
    name: str


def pod_flags() -> list[click.Parameter]:
    return [
        argument(
            "pod",
            "[POD]",
            "NAMESPACE/NAME; NAME or pod/NAME with -n or kubectl; KIND/NAME with -f",
            required=False,
        ),
        flag(
            "-f, --filename FILE",
            "YAML or JSON file with the pod, or with a workload whose pods are meant; - is stdin",
        ),
        flag(
            "-n, --namespace NAME",
            "namespace of a POD given by NAME alone; with kubectl the context's by default",
        ),
    ]


def read_asked_pod(program: str, command: str, flags: Flags) -> AskedPod:
    """The pod that the flags name. Raises UsageError, also if there is no Node."""
    say = partial(warn, f"{program} {command}")
    wanted = _parse(flags, program)
    found = _objects(flags.filename, say) if flags.filename else {}
    state = load_cluster(f"{program} {command}", flags)
    if not state.snapshot.nodes:
        raise UsageError("no Node is known: which nodes the pod fits on is unknown")
    if flags.filename:
        kind, pod = _pod_of_file(flags.filename, wanted, found, state.namespace)
    else:
        kind, pod = POD, _pod_of_cluster(state, wanted)
    if program == PLUGIN and not pod.namespace:
        pod = replace(pod, namespace=state.namespace)
    namespace, what = pod.namespace or "default", "whether the pod's namespace allows its class"
    read = partial(state.inventory.namespaces, namespace)
    there = (if_allowed(f"{program} {command}", what, read) or {}).get(namespace)
    rules = rules_of(namespace, there.annotations) if there else None
    return AskedPod(pod, kind, state, rules)


def pod_of_service(program: str, flags: Flags, service: RunningService) -> tuple[str, bytes | None]:
    """NAMESPACE/NAME, or the content of -f FILE. Raises UsageError."""
    if flags.filename:
        if flags.pod:
            raise UsageError("--server takes a file with one Pod or workload: leave POD out")
        if flags.filename == STDIN:
            return "", b"---\n" + read_stdin()
        try:
            # Sent as YAML, a superset of JSON: the service accepts workloads only in YAML.
            return "", b"---\n" + Path(flags.filename).read_bytes()
        except OSError as error:
            raise UsageError(f"-f {shown(flags.filename)}: {error.strerror}") from None
    wanted = _parse(flags, program)
    return f"{wanted.namespace or service.namespace or 'default'}/{wanted.name}", None


def pod_itself(program: str, flags: Flags) -> Pod | None:
    """The pod, for a user who may not read nodes; None if the pod can't be read either."""
    wanted, config = _parse(flags, program), config_of(flags)
    with suppress(ReadError):
        return ClusterReader(config).find_pod(wanted.namespace or config.namespace, wanted.name)
    return None


def _parse(flags: Flags, program: str) -> _Name:
    """Parse POD; the help in pod_flags lists its forms. Raises UsageError."""
    text, of_file = flags.pod, bool(flags.filename)
    if not text and not of_file:
        form = "NAME" if program == PLUGIN else "NAMESPACE/NAME"
        raise UsageError(f"POD is needed, {form}, or -f FILE that holds it")
    if not text:
        return _Name("", flags.namespace or "", "")
    is_short = bool(flags.namespace) or of_file or program == PLUGIN
    first, slash, name = text.rpartition("/")
    if not name or "/" in first or bool(slash) != bool(first) or not (slash or is_short):
        forms = "NAME, pod/NAME or NAMESPACE/NAME" if is_short else "NAMESPACE/NAME"
        raise UsageError(f"POD {shown(text)!r}: expected {forms}")
    kind = _KINDS.get(first.casefold(), "") if is_short else ""
    namespace = "" if kind else first
    if namespace and flags.namespace and namespace != flags.namespace:
        raise UsageError(f"POD {shown(text)} is not of --namespace {shown(flags.namespace)}")
    if not of_file and kind not in ("", POD):
        raise UsageError(
            f"POD {shown(text)}: only pods are looked up; for what a {kind} makes,"
            f" kubectl get {shown(text)} -o yaml | {program} explain -f -"
        )
    return _Name(kind, namespace or flags.namespace or "", name)


def _pod_of_file(filename: str, wanted: _Name, found: _Objects, context: str) -> tuple[str, Pod]:
    """(kind, pod) of the named object; of several the one in the context's namespace."""
    chosen = {
        (kind, key): pod
        for (kind, key), pod in found.items()
        if wanted.name in ("", pod.name, key.partition("/")[2])
        and wanted.kind in ("", kind)
        and (not wanted.namespace or pod.namespace in ("", wanted.namespace))
    }
    if len(chosen) > 1 and not wanted.namespace:
        within = {key: pod for key, pod in chosen.items() if pod.namespace in ("", context)}
        chosen = within if len(within) == 1 else chosen
    if len(chosen) != 1:
        objects = chosen or found
        names = listed([key if kind == POD else f"{kind} {key}" for kind, key in objects])
        if chosen:
            names = f"holds {len(chosen)} objects, name one of them: {names}"
        elif wanted.name:
            names = f"has {names}, not {shown('/'.join(filter(None, wanted)))}"
        else:
            names = f"has {names}, none of --namespace {shown(wanted.namespace)}"
        raise UsageError(f"-f {filename}: {names}")
    (((kind, _), pod),) = chosen.items()
    return kind, replace(pod, namespace=pod.namespace or wanted.namespace)


def _objects(filename: str, say: Callable[[str], None]) -> _Objects:
    """The Pods and workloads in the file. Raises UsageError, also if it has none."""
    loaded = Manifests(templates={})
    if filename == STDIN:
        read_manifest(read_stdin(), "stdin", loaded)
    elif Path(filename).is_dir():
        raise UsageError(f"-f {filename}: is a folder, expected a file with a Pod or workload")
    else:
        load_manifests([filename], loaded, pipes=True)
    found = {(POD, key): pod for key, pod in loaded.pods.items()} | (loaded.templates or {})
    if not found:
        raise UsageError(f"-f {filename}: holds no Pod or workload")
    for warning in loaded.warnings:
        say(warning)
    return found


def _pod_of_cluster(state: ClusterState, wanted: _Name) -> Pod:
    namespace = wanted.namespace or state.namespace
    pod = state.inventory.find_pod(namespace, wanted.name)
    if pod is None:
        asked, near = f"{namespace}/{wanted.name}", ""
        with suppress(UsageError):
            near = did_you_mean(asked, state.inventory.pending_pods())
        raise UsageError(f"Pod {shown(asked)} not found{near}")
    return pod
