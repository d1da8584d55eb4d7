"""The result of a check: a code and its evidence. Only this module turns reasons into text.

kube-scheduler counts equal strings over all nodes and prints "<count> <reason>". So a text never
names a node, and nodes that fail for the same cause have the same text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from extender.model.objects import Condition, NodeRequirement, Taint


def printable(text: str) -> str:
    """The text with "?" in place of each character that is neither visible nor a space."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


#: The most bytes of untrusted text (a name or value that no API server has validated) in a reason:
#: the length limit of object names. An answer may repeat a reason for 150,000 nodes.
MAX_QUOTED: Final = 253


class Code(StrEnum):
    """Short names of the reasons, as metrics and /explain show them."""

    # Enum's own __hash__ is written in Python, and takes ten times as long.
    __hash__ = str.__hash__

    SELECTOR = "selector"
    TAINT = "taint"
    HANDLER = "handler"
    FEATURE = "feature"
    CONFLICT = "conflict"
    NOT_FOUND = "not_found"
    UNKNOWN_NODE = "unknown_node"
    OS = "os"
    NODE_FEATURE = "node_feature"
    CONDITION = "condition"
    UNSUPPORTED = "unsupported"
    SUSPECT = "suspect"
    POD_SELECTOR = "pod_selector"
    POD_AFFINITY = "pod_affinity"
    POD_TAINT = "pod_taint"
    CORDONED = "cordoned"
    POD_FEATURES = "pod_features"
    RESOURCES = "resources"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node is refused. `text` has the detail, `plain` is the form without it."""

    code: Code
    text: str
    plain: str

    @property
    def detail(self) -> str:
        """The text within the parentheses; the whole text where there are none."""
        return self.text[len(self.plain) + 2 : -1] if self.is_detailed else self.text

    @property
    def is_detailed(self) -> bool:
        return self.text is not self.plain


def shown(text: str) -> str:
    """Untrusted text as one line of bounded length. Text that an API server validated is kept."""
    if len(text) * 4 > MAX_QUOTED:  # a character has up to 4 bytes in UTF-8
        raw = text[: MAX_QUOTED + 1].encode("utf-8", "replace")
        if len(raw) > MAX_QUOTED:
            text = raw[:MAX_QUOTED].decode("utf-8", "ignore") + "…"
    return printable(text)


#: The most names that a text lists.
_NAMED: Final = 5


def listed(names: Sequence[str], most: int = _NAMED, quote: str = "") -> str:
    """The first names, each as `shown`, and the number of names left out."""
    text = ", ".join(f"{quote}{shown(each)}{quote}" for each in names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text


def pairs_text(pairs: Mapping[str, str]) -> str:
    """NAME=VALUE, NAME=VALUE as `shown`, in the order of the names."""
    return shown(", ".join(f"{name}={value}" for name, value in sorted(pairs.items())))


#: The least age in seconds for a unit, the seconds of the unit, and the unit, as kubectl has them.
_UNITS: Final = ((172_800, 86_400, "d"), (10_800, 3_600, "h"), (120, 60, "m"), (0, 1, "s"))


def age_text(since: str, now: datetime) -> str:
    """The age of an API timestamp: 90s, 14m, 3h, 5d. "" if the text is not a timestamp."""
    try:
        passed = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    except (ValueError, TypeError):
        return ""
    return next(f"{passed // size}{unit}" for least, size, unit in _UNITS if passed >= least)


def without_sandbox(namespace: str, name: str, since: str, now: datetime | None) -> str:
    """How long a pod has been on its node without a sandbox, and the command that shows why."""
    age = age_text(since, now) if now else ""
    told = " ".join(filter(None, (f"for {age}" if age else "", f"since {shown(since)}")))
    return (
        f"no sandbox has started {told if since else 'yet'}: kubectl describe pod -n"
        f" {shown(namespace or 'default')} {shown(name)} says why (FailedCreatePodSandBox,"
        " FailedMount)"
    )


def number_of(count: int, one: str, several: str = "") -> str:
    """1 node, 2 nodes. several: the plural if it is not just `one` with an s."""
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def _mismatch(code: Code, runtime_class: str, detail: str) -> Reason:
    plain = f'nodes don\'t match RuntimeClass "{shown(runtime_class)}"'
    return Reason(code, f"{plain} ({detail})", plain)


def _fixed(code: Code, text: str) -> Reason:
    return Reason(code, text, text)


def selector_mismatch(runtime_class: str, missing: tuple[tuple[str, str], ...]) -> Reason:
    wanted = " and ".join(f"{shown(key)}={shown(value)}" for key, value in missing)
    return _mismatch(Code.SELECTOR, runtime_class, f"nodeSelector {wanted}")


def terms_mismatch(runtime_class: str, missing: Iterable[NodeRequirement]) -> Reason:
    texts = (f"{each.key} {each.operator} {','.join(each.values)}".rstrip() for each in missing)
    wanted = " and ".join(map(shown, texts))
    return _mismatch(Code.SELECTOR, runtime_class, f"nodeSelector {wanted}")


def none_of_terms(runtime_class: str, count: int) -> Reason:
    return _mismatch(Code.SELECTOR, runtime_class, f"none of {count} nodeSelectorTerms")


def annotation_unreadable(code: Code, runtime_class: str, annotation: str) -> Reason:
    return _mismatch(code, runtime_class, f"annotation {annotation} can't be read")


def condition_lacking(runtime_class: str, condition: Condition) -> Reason:
    kind, status = condition
    detail = f"condition {shown(kind)} is not {shown(status)}"
    return _mismatch(Code.CONDITION, runtime_class, detail)


def unsupported(runtime_class: str, word: str) -> Reason:
    return _mismatch(Code.UNSUPPORTED, runtime_class, f"{shown(word)} is unsupported")


def untolerated_taint(runtime_class: str, taint: Taint) -> Reason:
    return _mismatch(Code.TAINT, runtime_class, f"untolerated taint {shown(str(taint))}")


def handler_absent(runtime_class: str, handler: str) -> Reason:
    return _mismatch(Code.HANDLER, runtime_class, f'no runtime handler "{shown(handler)}"')


def handlers_not_reported(runtime_class: str) -> Reason:
    return _mismatch(Code.HANDLER, runtime_class, "runtime handlers not reported")


def failed_to_start(handler: str, pods: int) -> str:
    """The text about a suspect handler, for reasons, Events and the state of a node."""
    return f'runtime handler "{shown(handler)}" failed to start {number_of(pods, "pod")}'


def suspect_handler(runtime_class: str, handler: str, pods: int) -> Reason:
    return _mismatch(Code.SUSPECT, runtime_class, failed_to_start(handler, pods))


def feature_lacking(runtime_class: str, handler: str, feature: str) -> Reason:
    if not runtime_class:
        return _fixed(Code.FEATURE, f"nodes' default runtime handler lacks {feature}")
    detail = f'runtime handler "{shown(handler)}" lacks {feature}'
    return _mismatch(Code.FEATURE, runtime_class, detail)


def selector_conflict(runtime_class: str, key: str, pod_value: str, class_value: str) -> Reason:
    key = shown(key)
    detail = f"pod nodeSelector {key}={shown(pod_value)} conflicts with {key}={shown(class_value)}"
    return _mismatch(Code.CONFLICT, runtime_class, detail)


def not_found(runtime_class: str) -> Reason:
    return _mismatch(Code.NOT_FOUND, runtime_class, "RuntimeClass not found")


def system_mismatch(system: str) -> Reason:
    return _fixed(Code.OS, f'nodes don\'t match pod OS "{shown(system)}"')


def system_label_mismatch(system: str) -> Reason:
    return _fixed(Code.OS, f"nodes don't match pod label kubernetes.io/os={shown(system)}")


def user_namespaces_gated(version: str) -> Reason:
    """Kubelets of this minor version have user namespaces switched off by default."""
    return _fixed(Code.NODE_FEATURE, f"nodes' kubelet {shown(version)} lacks user namespaces")


STRICT_GROUPS_LACKING: Final = _fixed(
    Code.NODE_FEATURE, "nodes' kubelet lacks supplementalGroupsPolicy Strict"
)
POD_RESOURCES_LACKING: Final = _fixed(Code.NODE_FEATURE, "Windows nodes lack pod-level resources")
UNKNOWN_NODE: Final = _fixed(Code.UNKNOWN_NODE, "nodes not yet known to the RuntimeClass extender")

#: Matches "<count> <text>" in kube-scheduler's message about a pod if the text is one of ours.
_OURS: Final = re.compile(
    r"[0-9] (?:nodes don't match |nodes' |nodes not yet |Windows nodes lack )"
)


def has_ours(message: str) -> bool:
    """Whether a message of kube-scheduler contains one of our reasons."""
    return _OURS.search(message) is not None


# kube-scheduler's own words (nodeaffinity, tainttoleration, nodeunschedulable,
# nodedeclaredfeatures, schedule_one.go, v1.36.2). The last two are for nodes that were ruled out
# before any filter ran.
POD_SELECTOR: Final = _fixed(Code.POD_SELECTOR, "node(s) didn't match Pod's node affinity/selector")
POD_AFFINITY: Final = _fixed(Code.POD_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
POD_TAINT: Final = _fixed(Code.POD_TAINT, "node(s) had untolerated taint(s)")
CORDONED: Final = _fixed(Code.CORDONED, "node(s) were unschedulable")
UNDECLARED_FEATURES: Final = _fixed(
    Code.POD_FEATURES, "node(s) didn't match Pod's required features"
)
LEFT_OUT: Final = _fixed(Code.POD_AFFINITY, "node(s) didn't satisfy plugin(s) [NodeAffinity]")
TERMS_CONFLICT: Final = _fixed(Code.POD_AFFINITY, "pod affinity terms conflict")


def resources_lacking(names: Sequence[str]) -> Reason:
    """The reason of a node with too little of these resources (noderesources/fit.go, v1.36.2)."""
    texts = ("Too many pods" if each == "pods" else f"Insufficient {shown(each)}" for each in names)
    return _fixed(Code.RESOURCES, ", ".join(texts))
