"""The three verbs as one would write them first: JSON documents, and a loop over the nodes.

Written from the specification alone, not from extender/, so that it can serve as the reference
of correctness. It knows no shapes, no tables and no wire tricks.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final

Json = dict[str, Any]

_OS_LABEL: Final = "kubernetes.io/os"
_HARD: Final = ("NoSchedule", "NoExecute")
_CONDITION_PREFIXES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_CONDITION_KEYS: Final = (
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
)
_MAX_DETAILS: Final = 8
_MAX_SCORE: Final = 10

_UNKNOWN_NODE: Final = "nodes not yet known to the RuntimeClass extender"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason's text, and what of it stays when details are too many."""

    text: str
    plain: str


@dataclass(slots=True)
class PlainCluster:
    """Objects by name, as they were read."""

    nodes: dict[str, Json] = field(default_factory=dict)
    runtime_classes: dict[str, Json] = field(default_factory=dict)

    @classmethod
    def of(cls, objects: Iterable[Json]) -> "PlainCluster":
        cluster = cls()
        for each in objects:
            if each.get("kind") == "Node":
                cluster.nodes[each["metadata"]["name"]] = each
            elif each.get("kind") == "RuntimeClass":
                cluster.runtime_classes[each["metadata"]["name"]] = each
        return cluster


def _is_bound_to(pod: Json, name: str) -> bool:
    """A pod that is resized is asked about where it is (KEP-5836): its node passes."""
    own = pod.get("spec", {}).get("nodeName")
    return bool(own) and own == name


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect", ""):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key", ""):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")


def _untolerated(node: Json, tolerations: list[Json], conditions: bool) -> Json | None:
    for taint in node.get("spec", {}).get("taints") or ():
        if taint.get("effect") not in _HARD or (not conditions and _is_condition(taint)):
            continue
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return dict(taint)
    return None


def _is_condition(taint: Json) -> bool:
    key = taint.get("key", "")
    return key.startswith(_CONDITION_PREFIXES) or key in _CONDITION_KEYS


def _selector_of(runtime_class: Json) -> Json:
    return (runtime_class.get("scheduling") or {}).get("nodeSelector") or {}


def _tolerations_of(runtime_class: Json) -> list[Json]:
    return (runtime_class.get("scheduling") or {}).get("tolerations") or []


def _handlers(node: Json) -> list[Json]:
    return node.get("status", {}).get("runtimeHandlers") or []


def _handler_detail(node: Json, handler: str, check: str) -> str | None:
    """What is wrong with the node's handlers, by --handler-check."""
    handlers = _handlers(node)
    version = node.get("status", {}).get("nodeInfo", {}).get("containerRuntimeVersion", "")
    if check == "off" or (handler == "docker" and version.startswith("docker://")):
        return None
    if not handlers:
        return "runtime handlers not reported" if check == "strict" else None
    if any(each.get("name", "") == handler for each in handlers):
        return None
    return f'no runtime handler "{handler}"'


def _needed_features(pod: Json) -> list[tuple[str, str]]:
    """What the pod needs: (field of features, words for it)."""
    spec, needed = pod.get("spec", {}), []
    if spec.get("hostUsers") is False:
        needed.append(("userNamespaces", "user namespaces"))
    for container in (spec.get("containers") or []) + (spec.get("initContainers") or []):
        for mount in container.get("volumeMounts") or ():
            if mount.get("recursiveReadOnly") == "Enabled":
                needed.append(("recursiveReadOnlyMounts", "recursive read-only mounts"))
                return needed
    return needed


def _os(node: Json) -> str:
    told = node.get("status", {}).get("nodeInfo", {}).get("operatingSystem")
    labels = node.get("metadata", {}).get("labels") or {}
    return str(told or labels.get(_OS_LABEL, ""))


def _minor(node: Json) -> int | None:
    """The kubelet's minor version of Kubernetes 1; None where it can't be read."""
    version = str(node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion") or "")
    parts = version.removeprefix("v").split(".")
    digits = "".join(takewhile(str.isdigit, parts[1])) if len(parts) > 1 else ""
    return int(digits) if parts[0] == "1" and digits else None


def _needs_of_kubelet(pod: Json) -> Json:
    """What a kubelet may reject the pod for; nothing of most pods."""
    spec, labels = pod.get("spec", {}), pod.get("metadata", {}).get("labels") or {}
    needs: Json = {}
    if spec.get("os"):
        needs["os"] = spec["os"].get("name", "")
    if _OS_LABEL in labels:
        needs["label"] = labels[_OS_LABEL]
    if (spec.get("securityContext") or {}).get("supplementalGroupsPolicy") == "Strict":
        needs["strict"] = True
    if spec.get("hostUsers") is False:
        needs["users"] = True
    resources = spec.get("resources") or {}
    if any(
        name in ("cpu", "memory") or name.startswith("hugepages-")
        for kind in ("requests", "limits")
        for name in resources.get(kind) or {}
    ):
        needs["resources"] = True
    return needs


def _rejected_by_kubelet(node: Json, needs: Json, check: str) -> str | None:
    """Why the kubelet would reject the pod once it is bound, by --kubelet-check."""
    system, minor = _os(node), _minor(node)
    if check == "off":
        return None
    if "os" in needs and system not in ("", needs["os"]):
        return f'nodes don\'t match pod OS "{needs["os"]}"'
    if "label" in needs and system not in ("", needs["label"]):
        return f"nodes don't match pod label {_OS_LABEL}={needs['label']}"
    knows_strict = (node.get("status", {}).get("features") or {}).get("supplementalGroupsPolicy")
    if "strict" in needs and minor is not None and minor >= 33 and not knows_strict:
        return "nodes' kubelet lacks supplementalGroupsPolicy Strict"
    if "users" in needs and check == "strict" and minor in (31, 32) and system != "windows":
        return f"nodes' kubelet v1.{minor} lacks user namespaces"
    if "resources" in needs and system == "windows":
        return "Windows nodes lack pod-level resources"
    return None


def _lacking_feature(node: Json, handler: str, needed: list[tuple[str, str]]) -> str | None:
    for name, words in needed:
        if name == "userNamespaces" and _os(node) == "windows":
            continue  # its kubelet ignores hostUsers
        # Of one that is listed twice the first counts.
        listed = [each for each in _handlers(node) if each.get("name", "") == handler][:1]
        if not any((each.get("features") or {}).get(name) for each in listed):
            return words
    return None


def _missing_labels(node: Json, runtime_class: Json) -> list[str]:
    labels = node.get("metadata", {}).get("labels") or {}
    wanted = _selector_of(runtime_class)
    return [f"{key}={wanted[key]}" for key in sorted(wanted) if labels.get(key) != wanted[key]]


def _printed(taint: Json) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


class PlainExtender:
    """The verbs over a cluster, each a decoded request in and a document out."""

    def __init__(
        self, cluster: PlainCluster, handler_check: str = "auto", kubelet_check: str = "auto"
    ) -> None:
        """Each check is auto, strict or off, as --handler-check and --kubelet-check have it."""
        self._check = handler_check
        self._kubelet_check = kubelet_check
        self._nodes = cluster.nodes
        self._classes = cluster.runtime_classes

    def filter(self, args: Json) -> Json:
        pod, nodes = args["Pod"], self._asked(args)
        refused: dict[str, str] = {}
        passing = []
        texts = self.reasons(pod, [node for _, node in nodes], [name for name, _ in nodes])
        for (name, node), text in zip(nodes, texts, strict=True):
            if text is None:
                passing.append(node if args.get("NodeNames") is None else name)
            else:
                refused[name] = text
        answer: Json = {"Nodes": None, "NodeNames": None, "FailedNodes": {}}
        if args.get("NodeNames") is None:
            answer["Nodes"] = {"metadata": {}, "items": passing}
        else:
            answer["NodeNames"] = passing
        answer["FailedAndUnresolvableNodes"] = refused
        answer["Error"] = ""
        return answer

    def reasons(
        self, pod: Json, nodes: Sequence[Json | None], names: Sequence[str] = ()
    ) -> list[str | None]:
        """Why each node is refused, None for one that passes; a node that is None is not known.

        Only the most frequent details are told. names: to find the node that the pod is bound to.
        """
        refusals = [self._refusal(pod, node) for node in nodes]
        for place in (place for place, name in enumerate(names) if _is_bound_to(pod, name)):
            refusals[place] = None
        counts = Counter(each.text for each in refusals if each and each.text != each.plain)
        told = sorted(counts, key=lambda text: (-counts[text], text))[:_MAX_DETAILS]
        return [
            (each.text if each.text in told else each.plain) if each else None for each in refusals
        ]

    def prioritize(self, args: Json) -> list[Json]:
        nodes = self._asked(args)
        own = self._classes.get(args["Pod"].get("spec", {}).get("runtimeClassName") or "")
        costs = [None if node is None else self._cost(node, own) for _, node in nodes]
        smallest = min((cost for cost in costs if cost is not None), default=0)
        scores = [0 if cost is None else _MAX_SCORE // (1 + cost - smallest) for cost in costs]
        # kube-scheduler takes nothing for zero, so what all have can be left away.
        lowest = min(scores, default=0)
        return [
            {"Host": name, "Score": score - lowest}
            for (name, _), score in zip(nodes, scores, strict=True)
            if score > lowest
        ]

    def preempt(self, args: Json) -> Json:
        by_uid = args.get("NodeNameToMetaVictims")
        whole = args.get("NodeNameToVictims") or {}
        if by_uid is None:
            by_uid = {
                name: {
                    "Pods": [{"UID": each["metadata"]["uid"]} for each in victims["Pods"] or ()],
                    "NumPDBViolations": victims["NumPDBViolations"],
                }
                for name, victims in whole.items()
            }
        kept = {
            name: victims
            for name, victims in by_uid.items()
            if _is_bound_to(args["Pod"], name)
            or self._refusal(args["Pod"], self._nodes.get(name)) is None
        }
        return {"NodeNameToMetaVictims": kept}

    def _asked(self, args: Json) -> list[tuple[str, Json | None]]:
        names = args.get("NodeNames")
        if names is not None:
            return [(name, self._nodes.get(name)) for name in names]
        return [(node["metadata"]["name"], node) for node in args["Nodes"]["items"] or ()]

    def _refusal(self, pod: Json, node: Json | None) -> Refusal | None:
        spec = pod.get("spec", {})
        name, features = spec.get("runtimeClassName") or "", _needed_features(pod)
        needs = _needs_of_kubelet(pod)
        if name:
            runtime_class = self._classes.get(name)
            detail = _detail(pod, runtime_class, node, features, self._check)
            if detail is not None and detail != _UNKNOWN_NODE:
                plain = f'nodes don\'t match RuntimeClass "{name}"'
                return Refusal(f"{plain} ({detail})", plain)
        elif not features and not needs:
            return None
        if node is None:
            return Refusal(_UNKNOWN_NODE, _UNKNOWN_NODE)
        text = None
        if not name and self._check != "off":
            words = _lacking_feature(node, "", features)
            text = words and f"nodes' default runtime handler lacks {words}"
        text = text or _rejected_by_kubelet(node, needs, self._kubelet_check)
        return Refusal(text, text) if text else None

    def _cost(self, node: Json, own: Json | None) -> int:
        """How many constraint sets the node serves, the pod's own left out."""
        served = [each for each in self._classes.values() if _serves(node, each, self._check)]
        sets = {_constraints(each) for each in served}
        return len(sets - {_constraints(own)} if own is not None else sets)


def _detail(
    pod: Json,
    runtime_class: Json | None,
    node: Json | None,
    features: list[tuple[str, str]],
    check: str,
) -> str | None:
    """What stands in parentheses: the first check that fails."""
    if runtime_class is None:
        return "RuntimeClass not found"
    spec = pod.get("spec", {})
    asked, wanted = spec.get("nodeSelector") or {}, _selector_of(runtime_class)
    for key in sorted(asked.keys() & wanted.keys()):
        if asked[key] != wanted[key]:
            return f"pod nodeSelector {key}={asked[key]} conflicts with {key}={wanted[key]}"
    if node is None:
        return _UNKNOWN_NODE
    missing = _missing_labels(node, runtime_class)
    if missing:
        return f"nodeSelector {' and '.join(missing)}"
    tolerations = (spec.get("tolerations") or []) + _tolerations_of(runtime_class)
    taint = _untolerated(node, tolerations, conditions=True)
    if taint is not None:
        return f"untolerated taint {_printed(taint)}"
    handler = runtime_class["handler"]
    words = _lacking_feature(node, handler, features)
    lacking = f'runtime handler "{handler}" lacks {words}' if words and check != "off" else None
    return _handler_detail(node, handler, check) or lacking


def _serves(node: Json, runtime_class: Json, check: str) -> bool:
    if _missing_labels(node, runtime_class):
        return False
    if _handler_detail(node, runtime_class["handler"], check) is not None:
        return False
    if _untolerated(node, _tolerations_of(runtime_class), conditions=False) is not None:
        return False
    is_special = _untolerated(node, [], conditions=False) is not None
    return is_special or bool(_selector_of(runtime_class))


def _constraints(runtime_class: Json) -> tuple[object, ...]:
    tolerations = [
        (
            each.get("key") or "",
            each.get("operator") or "",
            each.get("value") or "",
            each.get("effect") or "",
        )
        for each in _tolerations_of(runtime_class)
    ]
    return (frozenset(_selector_of(runtime_class).items()), frozenset(tolerations))
