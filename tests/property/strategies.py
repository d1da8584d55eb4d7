"""Clusters and pods for hypothesis: few different words, so that they meet."""

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


KEYS = st.sampled_from(["sandbox", "os", "pool", "node.kubernetes.io/not-ready"])
VALUES = st.sampled_from(["", "a", "b", "true"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
HANDLERS = st.sampled_from(["", "runc", "runsc", "kata", "docker"])
CLASS_NAMES = st.sampled_from(["gvisor", "kata", "windows"])

labels = st.dictionaries(KEYS, VALUES, max_size=3)
taints = st.builds(Taint, KEYS, VALUES, EFFECTS)
tolerations = st.builds(
    Toleration,
    key=st.one_of(st.just(""), KEYS),
    operator=st.sampled_from(["", "Equal", "Exists", "Gt", "exists"]),
    value=VALUES,
    effect=st.one_of(st.just(""), EFFECTS),
)
toleration_lists = st.lists(tolerations, max_size=3).map(tuple)
handlers = st.lists(
    st.builds(Handler, HANDLERS, st.booleans(), st.booleans()),
    max_size=3,
    unique_by=lambda each: each.name,
).map(frozenset)
features = st.builds(Features, st.booleans(), st.booleans())

#: None of 1.31 and 1.32 rejects supplementalGroupsPolicy, none for Windows knows user namespaces.
KUBELETS = st.sampled_from(
    [
        *(
            Kubelet(system, rejects)
            for system in ("", "linux", "windows")
            for rejects in (False, True)
        ),
        Kubelet("", may_lack_user_namespaces="v1.31"),
        Kubelet("linux", may_lack_user_namespaces="v1.31"),
        Kubelet("linux", may_lack_user_namespaces="v1.32"),
    ]
)
SYSTEMS = st.sampled_from([None, "linux", "windows"])
kubelet_needs = st.one_of(
    st.none(),
    st.builds(KubeletNeeds, SYSTEMS, SYSTEMS, st.booleans(), st.booleans()).filter(any_is_set),
)


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
