"""can-delete: whether pods, workload templates or defaults use a RuntimeClass."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from extender.admission.defaults import is_default
from extender.cli.cluster_state import ClusterState, load_cluster, state_of
from extender.cli.commands import cluster_flags, printing_flags
from extender.cli.flags import Command, Flags, argument
from extender.cli.output import Screen, paragraph, print_answer, table
from extender.cluster.manifest_objects import Manifests
from extender.explain.document import Document
from extender.inventory.impact import impact_document
from extender.inventory.impact_command import compared
from extender.model.errors import UsageError
from extender.model.objects import RuntimeClass
from extender.model.reasons import shown
from extender.model.using_objects import PlacedPod
from extender.rules.node_checks import Policy


def users_of(name: str, state: ClusterState, pods: Iterable[PlacedPod] = ()) -> Document:
    """What the deletion of a class breaks: workloads, defaults, and which of the given pods.

    A class that does not exist is judged as if it existed with handler "". state: read with `uses`.
    """
    classes = dict(state.snapshot.runtime_classes)
    ended = classes.pop(name, None)
    after = Manifests(nodes={each.name: each for each in state.nodes}, runtime_classes=classes)
    if ended is None:
        there = replace(after, runtime_classes={**classes, name: RuntimeClass(name, "")})
        state = replace(state, snapshot=state_of(there).snapshot)
    workloads = (each for each in state.inventory.workloads() if each.runtime_class_name == name)
    broken = impact_document(compared(state, after, Policy()), pods, workloads)
    defaults = [_user("Namespace", "", each["name"]) for each in broken["namespaces"]]
    if ended is not None and is_default(ended):
        defaults.append(_user("RuntimeClass", "", name))
    return {
        "workloads": [
            _user(each["kind"], each["namespace"], each["name"]) for each in broken["workloads"]
        ],
        "defaults": defaults,
        "pods": [_user("Pod", each["namespace"], each["name"]) for each in broken["pods"]],
    }


def _user(kind: str, namespace: str, name: str) -> Document:
    """An object that uses a class; namespace is empty for a cluster-scoped object."""
    return {"kind": kind, "namespace": namespace, "name": name}


_USES_IT_AS: Final = {
    "Pod": "its class",
    "Namespace": "the default of its pods",
    "RuntimeClass": "the default of the cluster",
}


def users_table(users: Sequence[Document], screen: Screen) -> str:
    rows = [
        [
            *(shown(each["kind"]), shown(each["namespace"]), shown(each["name"])),
            _USES_IT_AS.get(each["kind"], "the class of its template"),
        ]
        for each in users
    ]
    return table(screen, ("KIND", "NAMESPACE", "NAME", "USES IT AS"), rows)


def _text(document: Document, screen: Screen) -> str:
    name = f"RuntimeClass {shown(document['class'])}"
    if document["canDelete"]:
        return f"{name} can be deleted: nothing uses it.\n"
    head = (
        f"{name} is in use; without it a running pod can't start again, and a pending one is never"
        " placed:"
    )
    return paragraph(screen, head) + "\n" + users_table(document["uses"], screen)


def _can_delete(program: str, flags: Flags) -> int:
    """Exit code 0 when nothing uses the class, 1 when something does. Raises UsageError."""
    name = flags.runtimeclass
    state = load_cluster(f"{program} can-delete", flags, nodes=False, uses=True)
    inventory = state.inventory
    state.runtime_class(name)
    if flags.manifests and not any(chain(inventory.pods(), inventory.workloads())):
        raise UsageError(
            f"the manifests hold no Pod and no workload, so nothing tells whether RuntimeClass"
            f" {shown(name)} is in use; add them with --manifests"
        )
    of_class = (pod for pod, *_ in inventory.pods() if pod.runtime_class_name == name)
    users = [*chain.from_iterable(users_of(name, state, of_class).values())]
    document = {"class": name, "canDelete": not users, "uses": users}
    names = [f"{each['kind'].lower()}/{each['name']}" for each in users]
    return print_answer(flags, document, _text, names, yes=not users)


CAN_DELETE: Final = Command(
    "can-delete",
    "Whether a RuntimeClass may be deleted: exit code 0 when no pod, template or default uses it,"
    " 1 with a list of the users otherwise.",
    _can_delete,
    [argument("runtimeclass", "CLASS", "the name of a RuntimeClass")],
    [*printing_flags("name"), *cluster_flags()],
    examples=["kata", "kata -o name"],
)
