"""The pod that a command line names: by POD, by -f FILE, or by both."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from extender.cluster.manifest_objects import Manifests
from extender.cluster.reading_manifests import load_manifests, read_manifest
from extender.commands.arguments import PLUGIN
from extender.flags import UsageError
from extender.input_files import MAX_FILE_BYTES
from extender.objects import Pod
from extender.reasons import listed, shown

POD: Final = "Pod"

#: The name that stands for standard input.
STDIN: Final = "-"

#: What kubectl calls the kinds, in small letters.
_KINDS: Final = {
    word: kind
    for kind, words in {
        POD: "po pod pods",
        "CronJob": "cj cronjob cronjobs",
        "DaemonSet": "ds daemonset daemonsets",
        "Deployment": "deploy deployment deployments",
        "Job": "job jobs",
        "PodTemplate": "podtemplate podtemplates",
        "ReplicaSet": "rs replicaset replicasets",
        "ReplicationController": "rc replicationcontroller replicationcontrollers",
        "StatefulSet": "sts statefulset statefulsets",
    }.items()
    for word in words.split()
}


@dataclass(frozen=True, slots=True)
class PodName:
    """POD, parsed; kind and namespace are empty where it has none."""

    kind: str
    namespace: str
    name: str

    def means(self, kind: str, key: str) -> bool:
        """Whether it names this object of a file; key is NAMESPACE/NAME."""
        namespace, _, name = key.partition("/")
        return name == self.name and self.kind in ("", kind) and self.namespace in ("", namespace)


def pod_name(text: str, namespace: str | None, program: str, *, of_file: bool) -> PodName:
    """Read POD. Raises UsageError.

    With the plugin or -n it is NAME, pod/NAME or NAMESPACE/NAME, otherwise NAMESPACE/NAME. of_file:
    it names an object of -f, for which NAME or KIND/NAME is enough.
    """
    first, slash, name = text.partition("/")
    if not slash:
        first, name = "", text
    kind = _KINDS.get(first.casefold(), "") if namespace or of_file or program == PLUGIN else ""
    if kind:
        first = ""
    if namespace and first and first != namespace:
        raise UsageError(f"POD {shown(text)} is not of --namespace {shown(namespace)}")
    short = bool(namespace) or of_file or program == PLUGIN
    if not name or "/" in name or (slash and not kind and not first) or not (first or short):
        forms = "NAME, pod/NAME or NAMESPACE/NAME" if short else "NAMESPACE/NAME"
        raise UsageError(f"POD {shown(text)!r}: expected {forms}")
    if not of_file and kind not in ("", POD):
        raise UsageError(
            f"POD {shown(text)}: only pods are looked up; for what a {kind} makes,"
            f" kubectl get {shown(text)} -o yaml | {program} explain -f -"
        )
    return PodName(kind, first or namespace or "", name)


def object_in_file(
    filename: str, wanted: PodName | None, namespace: str | None, warn: Callable[[str], None]
) -> tuple[str, Pod]:
    """(kind, pod) of the one Pod or workload of a file, or of several the one that is named.

    A workload stands for the pod that it makes; warn is called with what looks wrong in the file.
    Raises UsageError.
    """
    found = _objects(filename, warn)
    chosen, which = found, ""
    if wanted is not None:
        said = "/".join(filter(None, (wanted.kind, wanted.namespace, wanted.name)))
        which = f"not {shown(said)}"
        chosen = {
            (kind, key): pod
            for (kind, key), pod in found.items()
            if wanted.means(kind, key if pod.namespace else f"{wanted.namespace}/{pod.name}")
        }
    elif namespace:
        which = f"none of --namespace {shown(namespace)}"
        chosen = {key: pod for key, pod in found.items() if pod.namespace in ("", namespace)}
    if not chosen:
        raise UsageError(f"-f {filename}: has {_names(found)}, {which}")
    if len(chosen) > 1:
        kinds = {kind for kind, _ in chosen}
        what = f"{kinds.pop()}s" if len(kinds) == 1 else "objects"
        raise UsageError(
            f"-f {filename}: holds {len(chosen)} {what}, name one of them: {_names(chosen)}"
        )
    (((kind, _), pod),) = chosen.items()
    of_name = wanted.namespace if wanted else ""
    return kind, replace(pod, namespace=pod.namespace or of_name or namespace or "")


def _names(found: Mapping[tuple[str, str], Pod]) -> str:
    names = [key if kind == POD else f"{kind} {key}" for kind, key in found]
    return listed(names)


def _objects(filename: str, warn: Callable[[str], None]) -> Mapping[tuple[str, str], Pod]:
    """The Pods and workloads of a file, by kind and NAMESPACE/NAME. Raises UsageError."""
    loaded = Manifests(templates={})
    if filename == STDIN:
        read_manifest(read_stdin(), "stdin", loaded)
    elif Path(filename).is_dir():
        raise UsageError(f"-f {filename}: is a folder, expected a file with a Pod or workload")
    else:
        load_manifests([filename], loaded, pipes=True)
    found = {(POD, key): pod for key, pod in loaded.pods.items()} | (loaded.templates or {})
    if not found:
        why = f": {loaded.misspelt.first}" if loaded.misspelt.first else ""
        raise UsageError(f"-f {filename}: holds no Pod or workload{why}")
    for warning in loaded.warnings:
        warn(warning)
    return found


def read_stdin(limit: int = MAX_FILE_BYTES) -> bytes:
    """All of standard input. Raises UsageError."""
    try:
        text = sys.stdin.buffer.read(limit + 1)
    except OSError as error:
        raise UsageError(f"-f -: standard input: {error.strerror}") from None
    if len(text) > limit:
        raise UsageError(f"-f -: has more than {limit} bytes")
    return text
