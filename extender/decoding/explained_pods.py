"""A pod with all that explain needs: what the verbs read, affinity, state, resources."""

import contextlib
from dataclasses import replace

from msgspec import Raw

from extender.decoding.decoder import DecodeError, decode
from extender.decoding.pods import RawPod, explained_pod_of
from extender.decoding.resource_amounts import RawResourcesPod, resources_of
from extender.decoding.used_features import RawUsingPod, isolation_of, uses_of
from extender.objects import Pod


def explained_pod(raw: bytes | Raw, place: str = "Pod") -> Pod:
    """Read a Pod, or a template. Raises DecodeError.

    Resources, and what the pod uses, are decoded apart, so that the verbs don't pay for them.
    """
    pod = explained_pod_of(decode(raw, RawPod, place), place)
    resources = resources_of(decode(raw, RawResourcesPod, place), place)
    pod = replace(pod, resources=resources)
    # Unreadable values stay None: no API server has seen such a pod.
    with contextlib.suppress(DecodeError):
        using = decode(raw, RawUsingPod, place)
        pod.uses = uses_of(using)
        pod.state = pod.state._replace(isolation=isolation_of(using))
    return pod
