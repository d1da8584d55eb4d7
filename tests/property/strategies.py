"""Clusters and pods for hypothesis: few different words, so that they meet.

Small parts are sampled from all that there are, which is faster than a draw for each field.
"""

from itertools import product

from hypothesis import strategies as st

from extender.objects import (
    Features,
    Handler,
    Kubelet,
    KubeletNeeds,
    Node,
    Pod,
    RuntimeClass,
    Taint,
    Toleration,
)


def any_is_set(needs: KubeletNeeds) -> bool:
    """Decoding makes none without a need."""
    return needs != KubeletNeeds()


_KEYS = ("sandbox", "os", "pool", "node.kubernetes.io/not-ready")
_VALUES = ("", "a", "b", "true")
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_SYSTEMS = (None, "linux", "windows")
_BOTH = (False, True)

KEYS = st.sampled_from(_KEYS)
VALUES = st.sampled_from(_VALUES)
EFFECTS = st.sampled_from(_EFFECTS)
_HANDLERS = ("", "runc", "runsc", "kata", "docker")
HANDLERS = st.sampled_from(_HANDLERS)
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

#: None of 1.31 and 1.32 rejects supplementalGroupsPolicy, none for Windows knows user namespaces.
KUBELETS = st.sampled_from(
    [
        *(Kubelet(system, rejects) for system in ("", "linux", "windows") for rejects in _BOTH),
        Kubelet("", may_lack_user_namespaces="v1.31"),
        Kubelet("linux", may_lack_user_namespaces="v1.31"),
        Kubelet("linux", may_lack_user_namespaces="v1.32"),
    ]
)
SYSTEMS = st.sampled_from(_SYSTEMS)
_NEEDS = [KubeletNeeds(*each) for each in product(_SYSTEMS, _SYSTEMS, _BOTH, _BOTH)]
kubelet_needs = st.one_of(st.none(), st.sampled_from([each for each in _NEEDS if any_is_set(each)]))


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

#: What is asked about: known and unknown names, some of them twice.
asked_names = st.lists(st.sampled_from([*NODE_NAMES, "stranger"]), max_size=16)
