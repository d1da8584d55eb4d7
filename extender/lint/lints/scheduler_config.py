"""Lints of a KubeSchedulerConfiguration v1: its extenders, its profiles and its client.

Errors that prevent kube-scheduler from starting are left out, because it reports them itself.
Upstream: k8s.io/kube-scheduler/config/v1 types.go for the fields, pkg/scheduler/extender.go and
apis/config/validation for their use, v1.37.1.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from extender.explain.document import Document
from extender.kubernetes.versions import NEWEST, SCORES_AS_IF_IDLE, version_text
from extender.lint.facts import Circumstances
from extender.model.finding import Finding, Severity, error, warning
from extender.model.objects import MARK
from extender.model.reasons import listed, number_of, shown

_LONGEST_SECONDS: Final = 5.0
_UNCHECKED: Final = "pods stay Pending or, with ignorable: true, are placed unchecked"

_OURS: Final = re.compile(r"(?i)runtimeclass|:8888(?:/|$)")
#: A URL that ends with a verb. kube-scheduler would append the verb a second time.
_PATH_TO_VERB: Final = re.compile(r"/(?:filter|prioritize|preempt)/*$")


def object_in(document: Document, key: str) -> Document:
    """The object in a field, else {}: kube-scheduler itself rejects values of other types."""
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def objects_in(document: Document, key: str) -> Sequence[tuple[str, Document]]:
    """(place, object) of each object in a list field."""
    value = document.get(key)
    values = enumerate(value if isinstance(value, list) else ())
    return [(f"{key}[{index}]", each) for index, each in values if isinstance(each, dict)]


def profiles_of(document: Document) -> Sequence[tuple[str, Document]]:
    """Pairs of place and profile; a file without profiles has the default one."""
    return objects_in(document, "profiles") or [("the default profile", {})]


def plugin_args(profile: Document, plugin: str) -> Document:
    configs = (each for _, each in objects_in(profile, "pluginConfig"))
    return next((object_in(each, "args") for each in configs if each.get("name") == plugin), {})


def our_extenders(document: Document) -> Sequence[tuple[str, Document]]:
    """(place, extender) of the extenders that look like ours; if none does, of all."""
    found = objects_in(document, "extenders")
    return [each for each in found if _OURS.search(str(each[1].get("urlPrefix")))] or found


def managed_by(extender: Document) -> Sequence[tuple[object, bool]]:
    """(name, ignoredByScheduler) of each of the extender's managedResources."""
    resources = objects_in(extender, "managedResources")
    return [(each.get("name"), each.get("ignoredByScheduler") is True) for _, each in resources]


def is_for_marked_pods(extender: Document) -> bool:
    """Whether kube-scheduler asks the extender only about marked pods."""
    return any(name == MARK for name, _ in managed_by(extender))


def no_extender(document: Document, _: Circumstances) -> Iterator[Finding]:
    if not our_extenders(document):
        yield error(
            "no-extender",
            "extenders is empty",
            "kube-scheduler calls no extender",
            'extenders: [{urlPrefix: "http://127.0.0.1:8888", filterVerb: filter, preemptVerb:'
            " preempt, nodeCacheCapable: true}]",
        )


def url(place: str, extender: Document, _: Circumstances) -> Iterator[Finding]:
    """kube-scheduler accepts a wrong URL, but then each call fails (HTTPExtender.send)."""
    url = extender.get("urlPrefix")
    if url is not None and not isinstance(url, str):
        return
    url = (url or "").strip()
    scheme, separator, rest = url.partition("://")
    if not url:
        what, fix = "is missing", "http://127.0.0.1:8888"
    elif not separator:
        what, fix = f"{shown(url)!r} has no scheme", f"http://{shown(url)}"
    elif scheme.lower() not in ("http", "https"):
        what = f"{shown(url)!r} has scheme {shown(scheme)}, expected http or https"
        fix = f"http://{shown(rest)}"
    elif verb := _PATH_TO_VERB.search(url):
        what = f"{shown(url)!r} ends with a verb, which kube-scheduler appends again"
        fix = shown(url[: verb.start()])
    else:
        return
    why = f"each call fails: {_UNCHECKED}"
    yield error("url-prefix", f"{place}.urlPrefix {what}", why, f"urlPrefix: {fix}")


#: By verb: the field that enables it, and what goes wrong without it.
_VERBS: Final = {
    "filter": ("filterVerb", "kube-scheduler never asks which nodes match a RuntimeClass"),
    "prioritize": ("prioritizeVerb", ""),
    "preempt": ("preemptVerb", "preemption evicts pods from nodes that the extender then refuses"),
}


def verbs(place: str, extender: Document, circumstances: Circumstances) -> Iterator[Finding]:
    for verb, (key, why) in _VERBS.items():
        value = extender.get(key)
        what = f"{place}.{key} is missing"
        if value:
            what = f"{place}.{key} is {shown(str(value))!r}, the extender answers {verb!r}"
            why = f"each call gets a 404: {_UNCHECKED}"
        if value != verb and why:
            yield error(f"{verb}-verb", what, why, f"{key}: {verb}")
    untainted = circumstances.untainted
    if untainted and not extender.get("prioritizeVerb") and not is_for_marked_pods(extender):
        serve = number_of(len(untainted), "untainted node serves", "untainted nodes serve")
        yield warning(
            "prioritize-verb",
            f"{place}.prioritizeVerb is missing, and {serve} RuntimeClasses: {listed(untainted)}",
            "pods without a class take up these nodes",
            "taint these nodes, or add a second call for each pod: prioritizeVerb: prioritize,"
            " weight: 3",
        )
    if extender.get("bindVerb"):
        yield error(
            "bind-verb",
            f"{place}.bindVerb is {shown(str(extender['bindVerb']))}",
            "the extender binds no pods: every binding fails with 404",
            "remove bindVerb",
        )


def node_cache(place: str, extender: Document, circumstances: Circumstances) -> Iterator[Finding]:
    if extender.get("nodeCacheCapable") is True:
        return
    version = circumstances.kubernetes_version
    if version is not None and not SCORES_AS_IF_IDLE.holds(version):
        return
    is_known = version is not None and version <= NEWEST
    first, last = version_text(SCORES_AS_IF_IDLE.first), version_text(NEWEST)
    sure = "" if is_known else f" in {first} to {last}, and perhaps later"
    if version is None:
        sure += "; say yours with --kubernetes-version"
    yield Finding(
        Severity.ERROR if is_known else Severity.WARNING,
        "node-cache",
        f"{place}.nodeCacheCapable is not true",
        "kube-scheduler scores nodes as if they were idle and sends every Node whole"
        f" (kubernetes#141781{sure})",
        "nodeCacheCapable: true",
    )


def managed_resources(place: str, extender: Document, _: Circumstances) -> Iterator[Finding]:
    managed = managed_by(extender)
    if managed and not is_for_marked_pods(extender):
        yield error(
            "managed-resources",
            f"{place}.managedResources has no {MARK}",
            "kube-scheduler asks only about pods that request those resources; a RuntimeClass is"
            " no resource",
            "managedResources: []",
        )
    elif managed and (MARK, True) not in managed:
        yield error(
            "managed-resources",
            f"{place}.managedResources has {MARK} without ignoredByScheduler",
            f"no node has that resource: marked pods stay Pending with Insufficient {MARK}",
            f"managedResources: [{{name: {MARK}, ignoredByScheduler: true}}]",
        )


def ignorable(place: str, extender: Document, circumstances: Circumstances) -> Iterator[Finding]:
    if extender.get("ignorable") is True and not circumstances.admission_plugin:
        yield error(
            "ignorable",
            f"{place}.ignorable is true and there is no RuntimeClass admission plugin",
            "while the extender is down nothing enforces RuntimeClasses: every node passes",
            "ignorable: false",
        )


def timeout(place: str, extender: Document, _: Circumstances) -> Iterator[Finding]:
    value = extender.get("httpTimeout")
    seconds = _seconds(value) if isinstance(value, str) else 0
    if seconds < 0 or seconds > _LONGEST_SECONDS:
        what, why = "negative", "kube-scheduler waits without limit for an answer"
        if seconds > 0:
            what, why = "above 5s", "pods wait, one after the other, while the extender is silent"
        said = f"{place}.httpTimeout {shown(str(value))} is {what}"
        yield warning("timeout", said, why, "httpTimeout: 2s")


def tls(place: str, extender: Document, _: Circumstances) -> Iterator[Finding]:
    config = object_in(extender, "tlsConfig")
    if extender.get("enableHTTPS") is True and not (config.get("caFile") or config.get("caData")):
        yield error(
            "no-ca",
            f"{place}.enableHTTPS is true and tlsConfig has no caFile or caData",
            "kube-scheduler then silently trusts any certificate",
            "tlsConfig: {caFile: /etc/kubernetes/pki/ca.crt}",
        )
    elif config.get("insecure") is True:
        yield error(
            "insecure",
            f"{place}.tlsConfig.insecure is true",
            "kube-scheduler trusts any certificate",
            "tlsConfig: {insecure: false, caFile: /etc/kubernetes/pki/ca.crt}",
        )
    if extender.get("enableHTTPS") is True and str(extender.get("urlPrefix")).startswith("http:"):
        yield warning(
            "plain-http",
            f"{place}.urlPrefix begins with http: though enableHTTPS is true",
            "the scheme of urlPrefix decides: nothing is encrypted",
            f"urlPrefix: https{shown(str(extender['urlPrefix'])).removeprefix('http')}",
        )


_UNITS: Final = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0,
}  # fmt: skip
_PART: Final = re.compile(rf"([0-9]{{0,20}}\.?[0-9]{{1,20}})({'|'.join(_UNITS)})")


def _seconds(text: str) -> float:
    """A Go duration such as 1m30s in seconds; 0 for other texts, which kube-scheduler refuses."""
    if _PART.sub("", text).strip("+-"):
        return 0
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return -seconds if text.startswith("-") else seconds


def client_connection(document: Document, circumstances: Circumstances) -> Iterator[Finding]:
    is_sure = circumstances.in_pod is False
    unless = "" if is_sure else ", unless it runs in a pod with a service account: say --in-pod"
    if not object_in(document, "clientConnection").get("kubeconfig") and not circumstances.in_pod:
        yield Finding(
            Severity.ERROR if is_sure else Severity.WARNING,
            "kubeconfig",
            "clientConnection.kubeconfig is missing",
            "kube-scheduler ends with: invalid configuration: no configuration has been provided"
            f" (its own --kubeconfig is not read beside --config){unless}",
            "clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}",
        )


def sampling(document: Document, circumstances: Circumstances) -> Iterator[Finding]:
    if circumstances.admission_plugin:
        return
    everywhere = document.get("percentageOfNodesToScore")
    for place, profile in profiles_of(document):
        own = profile.get("percentageOfNodesToScore")
        score = everywhere if own is None else own
        if score != 100:
            said = "not set" if score is None else shown(str(score))
            yield error(
                "node-sampling",
                f"{place}: percentageOfNodesToScore is {said}",
                "with 100 nodes or more kube-scheduler stops looking once enough nodes fit, before"
                " it asks the extender: a pod stays Pending though another node fits",
                "percentageOfNodesToScore: 100",
            )
        args = plugin_args(profile, "DefaultPreemption")
        if args.get("minCandidateNodesPercentage") != 100:
            yield error(
                "min-candidate-nodes",
                f"{place}: minCandidateNodesPercentage of DefaultPreemption is not 100",
                "preemption tries a sample of the nodes, perhaps none that the class matches",
                "pluginConfig: [{name: DefaultPreemption, args:"
                " {minCandidateNodesPercentage: 100}}]",
            )
