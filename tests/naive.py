"""Semantics §1 written down once more, node by node, with nothing shared and nothing clever."""

from collections import Counter

from extender.objects import Node, Pod, RuntimeClass, Taint, Toleration
from extender.predicates.runtimeclass import HandlerCheck

HARD = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def _features(pod: Pod, node: Node, handler: str) -> str:
    of_handler = [each for each in node.handlers if each.name == handler]
    # The Windows kubelet ignores hostUsers.
    of_users = node.is_windows or any(h.user_namespaces for h in of_handler)
    if pod.features.user_namespaces and not of_users:
        return "user namespaces"
    if pod.features.recursive_read_only_mounts and not any(
        h.recursive_read_only_mounts for h in of_handler
    ):
        return "recursive read-only mounts"
    return ""


def detail(  # noqa: C901 (the rules one after the other, as they are written)
    pod: Pod, known: dict[str, RuntimeClass], node: Node, check: HandlerCheck
) -> str | None:
    """The text in parentheses of the node's reason, the whole text where it has none, or None."""
    name = pod.runtime_class_name
    if not name:
        lacking = "" if check is HandlerCheck.OFF else _features(pod, node, "")
        return f"nodes' default runtime handler lacks {lacking}" if lacking else None
    if name not in known:
        return "RuntimeClass not found"
    runtime_class = known[name]
    for key, value in sorted(runtime_class.node_selector):
        if pod.node_selector.get(key, value) != value:
            own = pod.node_selector[key]
            return f"pod nodeSelector {key}={own} conflicts with {key}={value}"
    missing = [f"{k}={v}" for k, v in runtime_class.node_selector if node.labels.get(k) != v]
    if missing:
        return "nodeSelector " + " and ".join(sorted(missing))
    for taint in node.taints:
        if taint.effect in HARD and not any(
            tolerates(each, taint) for each in (*pod.tolerations, *runtime_class.tolerations)
        ):
            return f"untolerated taint {taint}"
    if check is HandlerCheck.OFF:
        return None
    handler = runtime_class.handler
    reported = {each.name for each in node.handlers}
    if not (node.is_docker and handler == "docker"):
        if reported and handler not in reported:
            return f'no runtime handler "{handler}"'
        if not reported and check is HandlerCheck.STRICT:
            return "runtime handlers not reported"
    lacking = _features(pod, node, handler)
    return f'runtime handler "{handler}" lacks {lacking}' if lacking else None


def reasons(
    pod: Pod, known: dict[str, RuntimeClass], nodes: list[Node | None], check: HandlerCheck
) -> list[str | None]:
    """The reason text for each node asked (None: unknown to the cache), None where it passes."""
    name = pod.runtime_class_name
    plain = f'nodes don\'t match RuntimeClass "{name}"'
    details: list[str | None] = []
    for node in nodes:
        said = detail(pod, known, node or Node(""), check)
        settled = said is not None and ("not found" in said or "conflicts with" in said)
        if node is None and not settled and (name or pod.features):
            said = "unknown"
        details.append(said)
    bare = {"unknown"} | {d for d in details if d and d.startswith("nodes'")}
    counted = Counter(each for each in details if each is not None and each not in bare)
    top = sorted(counted, key=lambda text: (-counted[text], f"{plain} ({text})"))[:8]
    texts: list[str | None] = []
    for said in details:
        if said == "unknown":
            texts.append("nodes not yet known to the RuntimeClass extender")
        elif said is None or said in bare:
            texts.append(said)
        else:
            texts.append(f"{plain} ({said})" if said in top else plain)
    return texts
