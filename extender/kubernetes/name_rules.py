"""Syntax of names, labels and names of resources; lengths are in UTF-8 bytes.

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
    """Length as Go counts it; half of a surrogate pair counts as the U+FFFD that Go reads."""
    return len(text.encode("utf-8", "surrogatepass"))


def quoted(text: str) -> str:
    """A text in an error, printable and short."""
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
    """What is wrong with the metadata.name of a Node or RuntimeClass: a DNS subdomain."""
    if not name:
        return "metadata.name: is missing"
    if _is_subdomain(name):
        return ""
    return (
        f"metadata.name: {quoted(name)} is no DNS subdomain: at most {_SUBDOMAIN_MAX_BYTES} lower"
        " case letters, digits, - and ., with a letter or digit at both ends of each part"
    )


HUGE_PAGES_PREFIX: Final = "hugepages-"

#: Without a domain only these, and huge pages, are resources of a container.
_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def resource_name_fault(name: str) -> str:
    """What is wrong with a resource of a container (pkg/apis/core/helper/helpers.go, v1.36.2)."""
    if fault := label_key_fault(name):
        return fault
    if "/" not in name:
        is_known = name in _CONTAINER_RESOURCES or name.startswith(HUGE_PAGES_PREFIX)
    else:
        is_known = _is_native(name) or is_extended_resource(name)
    return "" if is_known else f"{quoted(name)} is no resource of a container"


def is_scalar_resource(name: str) -> bool:
    """Whether kube-scheduler counts a resource beside cpu, memory and ephemeral-storage.

    Upstream: pkg/scheduler/util/utils.go IsScalarResourceName, v1.36.2.
    """
    return (
        name.startswith((HUGE_PAGES_PREFIX, "attachable-volumes-"))
        or "kubernetes.io/" in name
        or is_extended_resource(name)
    )


def is_pod_resource(name: str) -> bool:
    """Whether a pod as a whole may have a resource; any other in spec.resources means nothing.

    Upstream: component-helpers/resource/helpers.go IsPodLevelResourcesSet, v1.36.2.
    """
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES_PREFIX)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource(name: str) -> bool:
    """Whether a resource is none of Kubernetes' own; it has whole numbers only."""
    if _is_native(name) or name.startswith("requests."):
        return False
    return not label_key_fault(f"requests.{name}")
