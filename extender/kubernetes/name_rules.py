"""The syntax of object names, labels and resource names. Lengths are in UTF-8 bytes.

Upstream: k8s.io/apimachinery v0.36.2, pkg/util/validation and pkg/api/validate/content.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from extender.model.reasons import shown

_PART_MAX_BYTES: Final = 63
_SUBDOMAIN_MAX_BYTES: Final = 253

# Used with fullmatch only: "$" would accept a trailing newline.
_DNS_LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_DNS_LABEL.pattern}(\.{_DNS_LABEL.pattern})*")
_PART: Final = re.compile("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

_PART_RULE: Final = (
    f"at most {_PART_MAX_BYTES} letters, digits, -, _ and ., with a letter or digit at both ends"
)


def byte_length(text: str) -> int:
    """The length as Go counts it. A lone surrogate counts 3 bytes, like the U+FFFD of Go."""
    return len(text.encode("utf-8", "surrogatepass"))


def quoted(text: str) -> str:
    """A text in quotes for an error message, printable and shortened."""
    return f'"{shown(text)}"'


def dns_label_fault(text: str) -> str:
    if byte_length(text) <= _PART_MAX_BYTES and _DNS_LABEL.fullmatch(text):
        return ""
    return (
        f"{quoted(text)} is no DNS label: at most {_PART_MAX_BYTES} lower case letters, digits"
        " and -, with a letter or digit at both ends"
    )


def label_key_fault(text: str) -> str:
    prefix, slash, name = text.rpartition("/")
    if _is_name_part(name) and (not slash or _is_subdomain(prefix)):
        return ""
    return f"{quoted(text)} is no label key: {_PART_RULE}, perhaps behind a DNS subdomain and /"


def label_value_fault(text: str) -> str:
    if not text or _is_name_part(text):
        return ""
    return f"{quoted(text)} is no label value: {_PART_RULE}"


def _is_subdomain(text: str) -> bool:
    return byte_length(text) <= _SUBDOMAIN_MAX_BYTES and bool(_SUBDOMAIN.fullmatch(text))


def _is_name_part(text: str) -> bool:
    return byte_length(text) <= _PART_MAX_BYTES and bool(_PART.fullmatch(text))


def label_faults(labels: Mapping[str, str | None], field: str) -> Iterator[str]:
    for key, value in labels.items():
        for fault in (label_key_fault(key), label_value_fault(value or "")):
            if fault:
                yield f"{field}: {fault}"


def node_name_fault(name: str | None) -> str:
    """Why the name of a Node or RuntimeClass is no DNS subdomain; "" if it is one."""
    if not name:
        return "metadata.name: is missing"
    if _is_subdomain(name):
        return ""
    return (
        f"metadata.name: {quoted(name)} is no DNS subdomain: at most {_SUBDOMAIN_MAX_BYTES} lower"
        " case letters, digits, - and ., with a letter or digit at both ends of each part"
    )


HUGE_PAGES_PREFIX: Final = "hugepages-"

#: The resources of a container that need no domain in their name, besides huge pages.
_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def resource_name_fault(name: str) -> str:
    """Why a container can't have a resource (pkg/apis/core/helper/helpers.go, v1.36.2), or ""."""
    if fault := label_key_fault(name):
        return fault
    if "/" not in name:
        is_known = name in _CONTAINER_RESOURCES or name.startswith(HUGE_PAGES_PREFIX)
    else:
        is_known = _is_native(name) or is_extended_resource(name)
    return "" if is_known else f"{quoted(name)} is no resource of a container"


def is_scalar_resource(name: str) -> bool:
    """Whether kube-scheduler counts this resource, besides cpu, memory and ephemeral-storage.

    Upstream: pkg/scheduler/util/utils.go IsScalarResourceName, v1.36.2.
    """
    return (
        name.startswith((HUGE_PAGES_PREFIX, "attachable-volumes-"))
        or "kubernetes.io/" in name
        or is_extended_resource(name)
    )


def is_pod_resource(name: str) -> bool:
    """Whether a resource is supported at pod level. Others in spec.resources have no effect.

    Upstream: component-helpers/resource/helpers.go IsPodLevelResourcesSet, v1.36.2.
    """
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES_PREFIX)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource(name: str) -> bool:
    """Whether a resource is not one of Kubernetes' own. Its amounts are whole numbers."""
    if _is_native(name) or name.startswith("requests."):
        return False
    return not label_key_fault(f"requests.{name}")
