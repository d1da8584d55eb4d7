"""Raw JSON → objects: only the fields this service reads, with Go's reading of null as absent.

msgspec decodes straight into these structs, skips what they don't name and says which place is
of a wrong type. A null decodes to Go's zero value, as encoding/json does.
"""

from extender.decoding.common_parts import (
    RawHandler,
    RawTaint,
    RawTimedToleration,
    RawToleration,
    handlers_of,
    quantities_of,
    taints_of,
    timed_tolerations_of,
    tolerations_of,
)
from extender.decoding.decoder import (
    DecodeError,
    StringList,
    StringMap,
    convert,
    decode,
    strings,
)
from extender.decoding.explained_pods import explained_pod
from extender.decoding.nodes import (
    NodeReader,
    NodeTraits,
    RawNode,
    SharedTexts,
    labels_of,
    node_of,
    traits_of,
)
from extender.decoding.pods import (
    RawMetadata,
    RawPod,
    explained_pod_of,
    pod_of,
    required_terms_of,
)
from extender.decoding.runtime_classes import (
    RawNamespace,
    RawRuntimeClass,
    namespace_of,
    runtime_class_of,
)
from extender.decoding.used_features import RawUsingPod, uses_in, uses_of
from extender.decoding.workloads import (
    WORKLOAD_GROUPS,
    RawDaemonSet,
    RawWorkload,
    template_pod_of,
    with_daemon_tolerations,
)

__all__ = [
    "WORKLOAD_GROUPS",
    "DecodeError",
    "NodeReader",
    "NodeTraits",
    "RawDaemonSet",
    "RawHandler",
    "RawMetadata",
    "RawNamespace",
    "RawNode",
    "RawPod",
    "RawRuntimeClass",
    "RawTaint",
    "RawTimedToleration",
    "RawToleration",
    "RawUsingPod",
    "RawWorkload",
    "SharedTexts",
    "StringList",
    "StringMap",
    "convert",
    "decode",
    "explained_pod",
    "explained_pod_of",
    "handlers_of",
    "labels_of",
    "namespace_of",
    "node_of",
    "pod_of",
    "quantities_of",
    "required_terms_of",
    "runtime_class_of",
    "strings",
    "taints_of",
    "template_pod_of",
    "timed_tolerations_of",
    "tolerations_of",
    "traits_of",
    "uses_in",
    "uses_of",
    "with_daemon_tolerations",
]
