"""A pod that was pasted into a form: YAML or JSON of a Pod, or of a workload."""

from typing import Final

from extender.cluster.manifest_files import ManifestError
from extender.cluster.manifest_objects import Manifests
from extender.cluster.reading_manifests import read_manifest
from extender.objects import Pod
from extender.wire.bodies import BadRequestError

#: Longer texts are no pod: etcd keeps objects up to 1.5 MB.
MAX_PASTED: Final = 1_500_000


def pasted_pod(text: bytes) -> Pod:
    """The first Pod of a text, else the pod that its first workload makes.

    Raises BadRequestError.
    """
    if len(text) > MAX_PASTED:
        raise BadRequestError(f"the text is over the limit of {MAX_PASTED:,} bytes")
    loaded = Manifests(templates={})
    try:
        read_manifest(text, "the text", loaded)
    except ManifestError as error:
        raise BadRequestError(str(error)) from None
    pods = [*loaded.pods.values(), *(loaded.templates or {}).values()]
    if not pods:
        why = f": {loaded.misspelt.first}" if loaded.misspelt.first else ""
        raise BadRequestError(f"the text holds no Pod or workload{why}")
    return pods[0]
