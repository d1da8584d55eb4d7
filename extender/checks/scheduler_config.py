"""Lints of a KubeSchedulerConfiguration v1: what makes it not ask us, or act on half the answer.

Fields as in k8s.io/kube-scheduler/config/v1 types.go, their use as in pkg/scheduler/extender.go and
apis/config/validation, v1.36.2.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from extender.checks.batching import check_batching
from extender.checks.client_connection import check_client_connection
from extender.checks.config_fields import (
    Circumstances,
    SchedulerConfigError,
    read_object,
    read_objects,
)
from extender.checks.durations import parse_duration
from extender.checks.finding import Finding, Severity
from extender.checks.managed_resources import ignores_mark, is_for_marked_pods, managed_resources
from extender.checks.sampling import check_sampling
from extender.checks.strict_fields import check_strict_fields
from extender.objects import MARK
from extender.reasons import listed, number_of, shown

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

#: Versions that score nodes as if idle with nodeCacheCapable: false (kubernetes#141781).
_AFFECTED: Final = ((1, 33), (1, 36))

_LONGEST_SECONDS: Final = 5.0
_SHORTEST_SECONDS: Final = 0.1

_OUR_PORT: Final = re.compile(r":8888(?:/|$)")
_SCHEME: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://", re.IGNORECASE)
#: A path that ends with a verb, to which kube-scheduler adds the verb once more.
_PATH_TO_VERB: Final = re.compile(r"/(?:filter|prioritize|preempt)/*$")


def check_scheduler_config(
    document: Mapping[str, Any], circumstances: Circumstances
) -> list[Finding]:
    """Lint a decoded configuration. Raises SchedulerConfigError for what is none."""
    extenders = our_extenders(document)
    findings = list(check_strict_fields(document, circumstances))
    if not extenders:
        findings.append(_no_extender())
    for place, extender in extenders:
        findings += _check_url(place, extender)
        findings += _check_verbs(place, extender, circumstances)
        findings += _check_cache(place, extender, circumstances)
        findings += _check_scope(place, extender, circumstances)
        findings += _check_timeout(place, extender)
        findings += _check_tls(place, extender)
    if extenders:
        findings += check_batching(document, circumstances)
    findings += check_sampling(document, circumstances)
    findings += check_client_connection(document, circumstances)
    return findings


def our_extenders(document: Mapping[str, Any]) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """(place, extender) of those that are this program; of several unknown ones, all.

    Raises SchedulerConfigError.
    """
    version, kind = document.get("apiVersion"), document.get("kind")
    if version != API_VERSION or kind != KIND:
        raise SchedulerConfigError(
            f"expected {KIND} of {API_VERSION}, got kind {shown(str(kind))}"
            f" of {shown(str(version))}"
        )
    found = list(read_objects(document, "extenders"))
    ours = [each for each in found if _looks_like_ours(str(each[1].get("urlPrefix", "")))]
    return ours or found


def _looks_like_ours(url: str) -> bool:
    return "runtimeclass" in url.casefold() or _OUR_PORT.search(url) is not None


def _no_extender() -> Finding:
    return Finding(
        Severity.ERROR,
        "no-extender",
        "extenders is empty",
        "kube-scheduler asks nobody about RuntimeClasses",
        'extenders: [{urlPrefix: "http://127.0.0.1:8888", filterVerb: filter, preemptVerb:'
        " preempt, nodeCacheCapable: true}]",
    )


def _check_url(place: str, extender: Mapping[str, Any]) -> Iterator[Finding]:
    """kube-scheduler takes any text, and each call of it fails (HTTPExtender.send)."""
    url = extender.get("urlPrefix")
    if url is not None and not isinstance(url, str):
        return
    url = (url or "").strip()
    scheme = _SCHEME.match(url)
    fails = "each call fails, which leaves pods Pending or, with ignorable, unchecked"
    if not url:
        what, fix = "is missing", "http://127.0.0.1:8888"
    elif scheme is None:
        what, fix = f"{shown(url)!r} has no scheme", f"http://{shown(url)}"
    elif scheme["scheme"].lower() not in ("http", "https"):
        what = f"{shown(url)!r} has scheme {shown(scheme['scheme'])}, expected http or https"
        fix = f"http://{shown(url[scheme.end() :])}"
    elif verb := _PATH_TO_VERB.search(url):
        what = f"{shown(url)!r} ends with a verb, which is added to it for each call"
        fix = shown(url[: verb.start()])
    else:
        return
    yield Finding(
        Severity.ERROR, "url-prefix", f"{place}.urlPrefix {what}", fails, f"urlPrefix: {fix}"
    )


def _check_verbs(
    place: str, extender: Mapping[str, Any], circumstances: Circumstances
) -> Iterator[Finding]:
    yield from _check_verb(
        place, extender, "filterVerb", "filter", "nobody asks which nodes match a RuntimeClass"
    )
    untainted = circumstances.untainted
    if extender.get("prioritizeVerb"):
        yield from _check_verb(place, extender, "prioritizeVerb", "prioritize", "")
    elif untainted and not is_for_marked_pods(extender):
        serve = number_of(len(untainted), "node serves", "nodes serve")
        yield Finding(
            Severity.WARNING,
            "prioritize-verb",
            f"{place}.prioritizeVerb is missing, and {serve} RuntimeClasses without a taint:"
            f" {listed(untainted)}",
            "plain pods take them",
            "taint them, or (a second call for each pod): prioritizeVerb: prioritize, weight: 3",
        )
    yield from _check_verb(
        place,
        extender,
        "preemptVerb",
        "preempt",
        "pods are evicted from nodes that the extender then refuses",
    )
    if extender.get("prioritizeVerb") and not _is_positive(extender.get("weight")):
        yield Finding(
            Severity.ERROR,
            "weight",
            f"{place}.weight is not a positive number though prioritizeVerb is set",
            "kube-scheduler does not start",
            "weight: 3",
        )
    if extender.get("bindVerb"):
        yield Finding(
            Severity.ERROR,
            "bind-verb",
            f"{place}.bindVerb is {shown(str(extender['bindVerb']))}",
            "the extender binds no pods: every binding fails with 404",
            "remove bindVerb",
        )


def _is_positive(weight: object) -> bool:
    return isinstance(weight, int) and not isinstance(weight, bool) and weight > 0


def _check_verb(
    place: str, extender: Mapping[str, Any], key: str, verb: str, why_missing: str
) -> Iterator[Finding]:
    value = extender.get(key)
    if value == verb:
        return
    what, why = f"{place}.{key} is missing", why_missing
    if value:
        what = f"{place}.{key} is {shown(str(value))!r}, the extender answers {verb!r}"
        why = "each call ends with 404, which leaves pods Pending or, with ignorable, unchecked"
    yield Finding(Severity.ERROR, f"{verb}-verb", what, why, f"{key}: {verb}")


def _check_cache(
    place: str, extender: Mapping[str, Any], circumstances: Circumstances
) -> Iterator[Finding]:
    if extender.get("nodeCacheCapable") is True:
        return
    version = circumstances.kubernetes_version
    first, last = _AFFECTED
    if version is not None and not first <= version <= last:
        return
    sure = "" if version else f" in 1.{first[1]} to 1.{last[1]}; --kubernetes-version says which"
    yield Finding(
        Severity.ERROR if version else Severity.WARNING,
        "node-cache",
        f"{place}.nodeCacheCapable is not true",
        "kube-scheduler scores nodes as if they were idle and sends every Node whole"
        f" (kubernetes#141781{sure})",
        "nodeCacheCapable: true",
    )


def _check_scope(
    place: str, extender: Mapping[str, Any], circumstances: Circumstances
) -> Iterator[Finding]:
    yield from _check_managed(place, extender)
    if extender.get("ignorable") is True and not circumstances.admission_plugin:
        yield Finding(
            Severity.ERROR,
            "ignorable",
            f"{place}.ignorable is true and there is no RuntimeClass admission plugin",
            "while the extender is down nothing enforces RuntimeClasses: every node passes",
            "ignorable: false",
        )


def _check_managed(place: str, extender: Mapping[str, Any]) -> Iterator[Finding]:
    managed = managed_resources(extender, f"{place}.")
    if managed and not is_for_marked_pods(extender):
        yield Finding(
            Severity.ERROR,
            "managed-resources",
            f"{place}.managedResources has no {MARK}",
            "only pods that ask for those resources are checked; a RuntimeClass is no resource",
            "managedResources: []",
        )
    elif managed and not ignores_mark(extender):
        yield Finding(
            Severity.ERROR,
            "managed-resources",
            f"{place}.managedResources has {MARK} without ignoredByScheduler",
            f"no node has that resource: marked pods stay Pending with Insufficient {MARK}",
            f"managedResources: [{{name: {MARK}, ignoredByScheduler: true}}]",
        )


def _check_timeout(place: str, extender: Mapping[str, Any]) -> Iterator[Finding]:
    value = extender.get("httpTimeout")
    seconds = parse_duration(value) if isinstance(value, str) else None
    if seconds is None:
        return
    severity = Severity.WARNING
    if seconds < 0:
        severity, what = Severity.ERROR, "negative"
        why = "kube-scheduler then waits for ever for an answer that does not come"
    elif seconds > _LONGEST_SECONDS:
        what = "above 5s"
        why = "pods are scheduled one after the other: a silent extender stops all of them so long"
    elif 0 < seconds < _SHORTEST_SECONDS:
        what = "below 100ms"
        why = "a pause of the extender or the network fails pods, which then back off"
    else:
        return
    said = f"{place}.httpTimeout {shown(str(value))} is {what}"
    yield Finding(severity, "timeout", said, why, "httpTimeout: 5s")


def _check_tls(place: str, extender: Mapping[str, Any]) -> Iterator[Finding]:
    tls = read_object(extender.get("tlsConfig"), f"{place}.tlsConfig")
    if extender.get("enableHTTPS") is True and not (tls.get("caFile") or tls.get("caData")):
        yield Finding(
            Severity.ERROR,
            "no-ca",
            f"{place}.enableHTTPS is true and tlsConfig has no caFile or caData",
            "kube-scheduler then silently trusts any certificate",
            "tlsConfig: {caFile: /etc/kubernetes/pki/ca.crt}",
        )
    elif tls.get("insecure") is True:
        yield Finding(
            Severity.ERROR,
            "insecure",
            f"{place}.tlsConfig.insecure is true",
            "kube-scheduler trusts any certificate",
            "tlsConfig: {insecure: false, caFile: /etc/kubernetes/pki/ca.crt}",
        )
    if extender.get("enableHTTPS") is True and str(extender.get("urlPrefix")).startswith("http:"):
        yield Finding(
            Severity.WARNING,
            "plain-http",
            f"{place}.urlPrefix begins with http: though enableHTTPS is true",
            "the scheme of urlPrefix decides: nothing is encrypted",
            f"urlPrefix: https{shown(str(extender['urlPrefix'])).removeprefix('http')}",
        )
