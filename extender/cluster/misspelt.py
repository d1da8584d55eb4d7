"""Finds misspelt kinds and fields in manifests, which would otherwise be ignored silently.

A newer Kubernetes may have kinds and fields that are not known here, and others have kinds of their
own. So only a word that resembles a known one is reported, as a warning, and nothing is refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Final

from extender.reasons import MAX_QUOTED, shown

#: The fields inside each field, by name; empty where these are not looked at.
Fields = Mapping[str, "Fields"]

#: Words with at least this similarity to a known one are taken for misspelt: of 12 letters two may
#: differ. `runtimeClass` and `runtimeClassName` are at 0.86.
_ALIKE: Final = 0.8

#: The number of objects that are checked: people write few by hand, and 65,000 nodes come from a
#: program.
MAX_LOOKED_AT: Final = 1000

#: The number of warnings, and of items checked in each list within an object.
MAX_TOLD: Final = 20
_MAX_ITEMS: Final = 100


def _fields(names: str, **inside: Fields) -> Fields:
    return {**{name: {} for name in names.split()}, **inside}


_METADATA: Final = _fields(
    "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers"
    " generateName generation labels managedFields name namespace ownerReferences resourceVersion"
    " selfLink uid"
)
_TOLERATIONS: Final = _fields("effect key operator tolerationSeconds value")
_TERM: Final = _fields(
    "",
    matchExpressions=_fields("key operator values"),
    matchFields=_fields("key operator values"),
)
_NODE_AFFINITY: Final = _fields(
    "preferredDuringSchedulingIgnoredDuringExecution",
    requiredDuringSchedulingIgnoredDuringExecution=_fields("", nodeSelectorTerms=_TERM),
)
_CONTAINER: Final = _fields(
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports"
    " readinessProbe resizePolicy resources restartPolicy restartPolicyRules securityContext"
    " startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty"
    " volumeDevices workingDir",
    volumeMounts=_fields(
        "mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr"
    ),
)
_POD_SPEC: Final = _fields(
    "activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks"
    " ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname"
    " hostnameOverride imagePullSecrets nodeName nodeSelector overhead preemptionPolicy priority"
    " priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName"
    " schedulerName schedulingGates schedulingGroup serviceAccount serviceAccountName"
    " setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds"
    " topologySpreadConstraints volumes",
    affinity=_fields("podAffinity podAntiAffinity", nodeAffinity=_NODE_AFFINITY),
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    os=_fields("name"),
    securityContext=_fields(
        "appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser"
        " seLinuxChangePolicy seLinuxOptions seccompProfile supplementalGroups"
        " supplementalGroupsPolicy sysctls windowsOptions"
    ),
    tolerations=_TOLERATIONS,
)
_NODE_SPEC: Final = _fields(
    "configSource externalID podCIDR podCIDRs providerID unschedulable",
    taints=_fields("effect key timeAdded value"),
)
_NODE_STATUS: Final = _fields(
    "addresses allocatable capacity conditions config daemonEndpoints declaredFeatures images"
    " phase volumesAttached volumesInUse",
    features=_fields("supplementalGroupsPolicy"),
    nodeInfo=_fields(
        "architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion kubeletVersion"
        " machineID operatingSystem osImage swap systemUUID"
    ),
    runtimeHandlers=_fields("name", features=_fields("recursiveReadOnlyMounts userNamespaces")),
)

#: The fields of Kubernetes 1.36 by kind, with those of earlier versions.
FIELDS: Final[Mapping[str, Fields]] = {
    "Namespace": _fields("apiVersion kind spec status", metadata=_METADATA),
    "Node": _fields("apiVersion kind", metadata=_METADATA, spec=_NODE_SPEC, status=_NODE_STATUS),
    "Pod": _fields("apiVersion kind status", metadata=_METADATA, spec=_POD_SPEC),
    "RuntimeClass": _fields(
        "apiVersion kind handler",
        metadata=_METADATA,
        overhead=_fields("podFixed"),
        scheduling=_fields("nodeSelector", tolerations=_TOLERATIONS),
    ),
}

_TEMPLATE: Final = _fields("", metadata=_METADATA, spec=_POD_SPEC)

#: Of a workload only the fields that lead to its pods; nothing else is read here.
_WORKLOAD: Final[Fields] = {"spec": {"template": _TEMPLATE}}
_WORKLOADS: Final[Mapping[str, Fields]] = {
    "CronJob": {"spec": {"jobTemplate": {"spec": {"template": _TEMPLATE}}}},
    "PodTemplate": {"template": _TEMPLATE},
}


class Misspelt:
    """Checks the first objects of some manifests, and remembers the warnings it has given."""

    def __init__(self) -> None:
        self._left = MAX_LOOKED_AT
        self._told: dict[str, None] = {}

    @property
    def first(self) -> str:
        """The first warning; empty without any."""
        return next(iter(self._told), "")

    def take_turn(self) -> bool:
        """Whether one more object is to be checked."""
        self._left -= 1
        return self._left >= 0

    def fields_of(self, document: object, kind: str, named: str) -> Iterator[str]:
        """A warning for each field of a document that looks like one that is known there."""
        known = FIELDS.get(kind) or _WORKLOADS.get(kind, _WORKLOAD)
        for place, field, others in _unknown(document, known, "", kind in FIELDS):
            # A comparison costs as much as a look at an object does.
            meant = _meant(field, others) if self.take_turn() else ""
            if meant:
                path = shown(f"{place}{field}")
                yield from self._once(
                    f'{named}: Kubernetes knows no {path}; did you mean "{meant}"?'
                )

    def kind(self, kind: str, known: Iterable[str]) -> Iterator[str]:
        """A warning for a kind that is left out and looks like one of those that are read."""
        meant = _meant(kind, known)
        if meant:
            yield from self._once(
                f'kind "{shown(kind)}" is left out; did you mean "{meant}"?',
            )

    def group(self, named: str, group: str, version: str) -> Iterator[str]:
        """A warning for an object of a known kind that is left out for its apiVersion.

        Another project's group may have a kind of the same name; such a group has a domain of its
        own.
        """
        if "." not in group or group.endswith(".k8s.io"):
            yield from self._once(
                f"{named} is left out for its apiVersion; did you mean {version}?"
            )

    def _once(self, text: str) -> Iterator[str]:
        if text in self._told or len(self._told) > MAX_TOLD:
            return
        self._told[text] = None
        yield text if len(self._told) <= MAX_TOLD else "more looks misspelt, and is not told"


_STEP: Final = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


@lru_cache(maxsize=1024)
def _compared(word: str, known: tuple[str, ...]) -> str:
    """As _meant; a misspelt field mostly stands in many objects."""
    return _meant(word, known)


def misspelt_fields(document: object, kind: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Each field of an object that looks like a known one: where it is, and what it may mean."""
    known = FIELDS.get(kind) or _WORKLOADS.get(kind, _WORKLOAD)
    for place, field, others in _unknown(document, known, "", kind in FIELDS):
        meant = _compared(field[: MAX_QUOTED + 1], tuple(others))
        if meant:
            steps = (int(index) if index else name for name, index in _STEP.findall(place))
            yield (*steps, field), meant


def misspelt_kind(kind: str, known: Iterable[str]) -> str:
    """The known kind that an unknown one resembles; empty without any."""
    return _compared(kind[: MAX_QUOTED + 1], tuple(known))


def _unknown(
    value: object, known: Fields, place: str, complete: bool
) -> Iterator[tuple[str, str, Fields]]:
    """(place, field, fields known there); complete: whether `known` has all fields there are."""
    if not isinstance(value, dict):
        return
    for field, inside in islice(value.items(), _MAX_ITEMS):
        if field not in known:
            if complete:
                yield place, field, known
            continue
        below = known[field]
        within = complete or below is _TEMPLATE
        if below and isinstance(inside, list):
            for index, item in enumerate(inside[:_MAX_ITEMS]):
                yield from _unknown(item, below, f"{place}{field}[{index}].", within)
        elif below:
            yield from _unknown(inside, below, f"{place}{field}.", within)


def _meant(word: str, known: Iterable[str]) -> str:
    """The known word that looks like this one, whatever its capitals; empty without any."""
    if len(word) > MAX_QUOTED:
        return ""
    by_small = {each.casefold(): each for each in known}
    small = word.casefold().replace("_", "").replace("-", "")
    return next((by_small[each] for each in get_close_matches(small, by_small, 1, _ALIKE)), "")
