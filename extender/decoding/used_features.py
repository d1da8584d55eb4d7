"""What a pod uses that not every runtime can give it, in the words of class_annotations.FEATURES.

The pod's JSON is read a second time, and only when needed: few classes say what their pods can't
use, and the fields are many.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from extender.decoding.class_annotations import ISOLATION_ANNOTATION, RESOURCE
from extender.decoding.decoder import StringMap, decode
from extender.decoding.pods import is_pod_resource
from extender.decoding.resource_amounts import RawResources
from extender.validation.quantity import parse_quantity


class _Profile(Struct):
    type: str | None = None


class _SELinux(Struct):
    user: str | None = None
    role: str | None = None
    type: str | None = None
    level: str | None = None


class _SecurityContext(Struct, rename="camel"):
    privileged: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: _Profile | None = None
    app_armor_profile: _Profile | None = None
    se_linux_options: _SELinux | None = None
    sysctls: list[object] | None = None


class _Port(Struct, rename="camel"):
    host_port: int | None = None


class _Mount(Struct, rename="camel"):
    sub_path: str | None = None
    sub_path_expr: str | None = None


class _Container(Struct, rename="camel"):
    ports: list[_Port | None] | None = None
    security_context: _SecurityContext | None = None
    volume_devices: list[object] | None = None
    volume_mounts: list[_Mount | None] | None = None
    resources: RawResources | None = None


class _Volume(Struct, rename="camel"):
    host_path: object = None
    image: object = None


class _Spec(Struct, rename="camel"):
    host_network: bool | None = None
    host_pid: bool | None = msgspec.field(default=None, name="hostPID")
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")
    volumes: list[_Volume | None] | None = None
    containers: list[_Container | None] | None = None
    init_containers: list[_Container | None] | None = None
    ephemeral_containers: list[_Container | None] | None = None
    security_context: _SecurityContext | None = None
    resources: RawResources | None = None


class _Metadata(Struct):
    annotations: StringMap = None


class RawUsingPod(Struct):
    """A pod or a pod template, with the fields that show what it uses."""

    metadata: _Metadata | None = None
    spec: _Spec | None = None


#: The annotation that securityContext.appArmorProfile has replaced; older manifests still have it.
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_UNCONFINED: Final = ("unconfined", "Unconfined", "")


def uses_of(raw: RawUsingPod) -> frozenset[str]:
    """The words for all that the pod uses."""
    spec = raw.spec or _Spec()
    return frozenset((*_of_pod(spec), *_of_containers(spec), *_of_annotations(raw.metadata)))


def isolation_of(raw: RawUsingPod) -> str:
    """What its annotation asks for, a level or not; "" where it has none."""
    annotations = (raw.metadata.annotations if raw.metadata else None) or {}
    return annotations.get(ISOLATION_ANNOTATION) or ""


def uses_in(pod: bytes | Raw) -> frozenset[str]:
    """As uses_of, for a pod as JSON. Raises DecodeError."""
    return uses_of(decode(pod, RawUsingPod, "Pod"))


def _of_pod(spec: _Spec) -> Iterator[str]:
    if spec.host_network:
        yield "hostNetwork"
    if spec.host_pid:
        yield "hostPID"
    if spec.host_ipc:
        yield "hostIPC"
    for volume in spec.volumes or ():
        if volume is not None and volume.host_path is not None:
            yield "hostPath"
        if volume is not None and volume.image is not None:
            yield "imageVolumes"
    if spec.ephemeral_containers:
        yield "ephemeralContainers"
    if spec.security_context is not None:
        yield from _of_context(spec.security_context)
    if any(map(is_pod_resource, _asked(spec.resources))):
        yield "podLevelResources"


def _of_containers(spec: _Spec) -> Iterator[str]:
    several = (spec.containers, spec.init_containers, spec.ephemeral_containers)
    for container in (each for containers in several for each in containers or ()):
        if container is None:
            continue
        if any(port is not None and port.host_port for port in container.ports or ()):
            yield "hostPorts"
        if container.volume_devices:
            yield "blockDevices"
        if any(
            mount is not None and (mount.sub_path or mount.sub_path_expr)
            for mount in container.volume_mounts or ()
        ):
            yield "subPath"
        if container.security_context is not None:
            yield from _of_context(container.security_context)
        yield from (f"{RESOURCE}{name}" for name in _asked(container.resources))


def _of_context(context: _SecurityContext) -> Iterator[str]:
    """Of a pod's or a container's; each field means the same in both that have it."""
    if context.privileged:
        yield "privileged"
    if context.proc_mount == "Unmasked":
        yield "procMountUnmasked"
    if context.sysctls:
        yield "sysctls"
    if context.seccomp_profile is not None and context.seccomp_profile.type == "Localhost":
        yield "localhostSeccomp"
    profile = context.app_armor_profile
    if profile is not None and (profile.type or "") not in _UNCONFINED:
        yield "appArmor"
    labels = context.se_linux_options
    if labels is not None and (labels.user or labels.role or labels.type or labels.level):
        yield "seLinux"


def _of_annotations(metadata: _Metadata | None) -> Iterator[str]:
    for key, value in ((metadata.annotations if metadata else None) or {}).items():
        if key.startswith(_APP_ARMOR) and value not in (None, *_UNCONFINED):
            yield "appArmor"


def _asked(resources: RawResources | None) -> Iterator[str]:
    """The resources of which more than nothing is asked for."""
    if resources is None:
        return
    for amounts in (resources.requests, resources.limits):
        for name, amount in (amounts or {}).items():
            if _is_something(amount):
                yield name


#: A digit other than 0 before any exponent: more than none, whatever follows.
_SOMETHING: Final = re.compile(r"[^eE]*[1-9]")


def _is_something(amount: str | int | float | None) -> bool:
    if amount is None:
        return False
    text = str(amount)
    try:
        # The regular expression decides nearly all; parsing a quantity takes ten times as long.
        return _SOMETHING.match(text) is not None or parse_quantity(text) != 0
    except ValueError:
        return True
