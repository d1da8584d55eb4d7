"""Clusters and pods for hypothesis, of few different words, so that they often match.

Small parts are sampled from all combinations, which is faster than a draw for each field.
"""

from itertools import product
from typing import Any

from hypothesis import strategies as st

from extender.model.objects import Handler, Kubelet, Node, Pod, RuntimeClass, Taint
from extender.model.pod_needs import Features, KubeletNeeds, Toleration
from extender.rules.kubelet_checks import KubeletCheck
from extender.rules.node_checks import HandlerCheck, Policy

_KEYS = ("sandbox", "os", "pool", "node.kubernetes.io/not-ready")
_VALUES = ("", "a", "b", "true")
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_SYSTEMS = (None, "linux", "windows")
_BOTH = (False, True)

KEYS = st.sampled_from(_KEYS)
VALUES = st.sampled_from(_VALUES)
_HANDLERS = ("", "runc", "runsc", "kata", "docker")
CLASS_NAMES = st.sampled_from(["gvisor", "kata", "windows"])

labels = st.dictionaries(KEYS, VALUES, max_size=3)
taints = st.sampled_from([Taint(*each) for each in product(_KEYS, _VALUES, _EFFECTS)])
tolerations = st.sampled_from(
    [
        Toleration(key, operator, value, effect)
        for key, operator, value, effect in product(
            # Half of them have no key, and half no effect.
            (*len(_KEYS) * [""], *_KEYS),
            ("", "Equal", "Exists", "Gt", "exists"),
            _VALUES,
            (*len(_EFFECTS) * [""], *_EFFECTS),
        )
    ]
)
toleration_lists = st.lists(tolerations, max_size=3).map(tuple)
handlers = st.lists(
    st.sampled_from([Handler(*each) for each in product(_HANDLERS, _BOTH, _BOTH)]),
    max_size=3,
    unique_by=lambda each: each.name,
).map(frozenset)
features = st.sampled_from([Features(*each) for each in product(_BOTH, _BOTH)])

#: No kubelet 1.31 or 1.32 rejects supplementalGroupsPolicy; Windows has no user namespaces.
KUBELETS = st.sampled_from(
    [
        *(Kubelet(system, rejects) for system in ("", "linux", "windows") for rejects in _BOTH),
        Kubelet("", may_lack_user_namespaces="v1.31"),
        Kubelet("linux", may_lack_user_namespaces="v1.31"),
        Kubelet("linux", may_lack_user_namespaces="v1.32"),
    ]
)
#: Decoding makes no KubeletNeeds without a need.
_NEEDS = {KubeletNeeds(*each) for each in product(_SYSTEMS, _SYSTEMS, _BOTH, _BOTH)}
kubelet_needs = st.one_of(st.none(), st.sampled_from(sorted(_NEEDS - {KubeletNeeds()}, key=repr)))

checks = st.sampled_from(HandlerCheck)
policies = st.builds(Policy, checks, st.just(False), st.sampled_from(KubeletCheck))


def nodes(name: st.SearchStrategy[str]) -> st.SearchStrategy[Node]:
    return st.builds(
        Node,
        name=name,
        labels=labels,
        taints=st.lists(taints, max_size=3).map(tuple),
        handlers=handlers,
        unschedulable=st.booleans(),
        is_docker=st.booleans(),
        kubelet=KUBELETS,
    )


NODE_NAMES = [f"n{index}" for index in range(12)]

node_lists = st.lists(
    nodes(st.sampled_from(NODE_NAMES)), max_size=10, unique_by=lambda node: node.name
)

runtime_classes = st.builds(
    RuntimeClass,
    name=CLASS_NAMES,
    handler=st.sampled_from(["runc", "runsc", "kata", "docker"]),
    node_selector=labels.map(lambda found: tuple(sorted(found.items()))),
    tolerations=toleration_lists,
)
class_lists = st.lists(runtime_classes, max_size=3, unique_by=lambda each: each.name)

pods = st.builds(
    Pod,
    namespace=st.just("default"),
    name=st.just("p"),
    uid=st.just(""),
    runtime_class_name=st.one_of(st.just(""), CLASS_NAMES, CLASS_NAMES),
    node_selector=labels,
    tolerations=toleration_lists,
    features=features,
    kubelet_needs=kubelet_needs,
)

#: The node names of a request: known and unknown names, some of them twice.
asked_names = st.lists(st.sampled_from([*NODE_NAMES, "stranger"]), max_size=16)


def json_values(
    leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str], most: int = 12
) -> st.SearchStrategy[Any]:
    """JSON of any shape that is made of these leaves and keys."""
    return st.recursive(
        st.none() | st.booleans() | leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=most,
    )
