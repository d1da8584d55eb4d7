"""can-delete: what uses a RuntimeClass: pods, the templates that make them, and defaults."""

from collections.abc import Iterable, Iterator, Sequence
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
from extender.inventory.impact import Comparison, impact_document
from extender.inventory.impact_command import compared
from extender.model.errors import UsageError
from extender.model.objects import RuntimeClass
from extender.model.reasons import shown
from extender.rules.node_checks import Policy


def _user(kind: str, namespace: str, name: str) -> Document:
    """An object that uses a class; namespace is empty for cluster-scoped ones."""
    return {"kind": kind, "namespace": namespace, "name": name}


def without_class(name: str, state: ClusterState) -> Comparison:
    """What the end of a class breaks. A class that is gone already is taken for one without nodes.

    Of a state that was read with `uses`.
    """
    classes = dict(state.snapshot.runtime_classes)
    classes.pop(name, None)
    there = Manifests(nodes={each.name: each for each in state.nodes}, runtime_classes=classes)
    if name not in state.snapshot.runtime_classes:
        gone = {**classes, name: RuntimeClass(name, "")}
        before = state_of(replace(there, runtime_classes=gone)).snapshot
        state = replace(state, snapshot=before)
    return compared(state, there, Policy())


def workload_users(workloads: Iterable[Document]) -> list[Document]:
    return [_user(*(each[key] for key in ("kind", "namespace", "name"))) for each in workloads]


def defaults_naming(
    runtime_class: RuntimeClass | None, namespaces: Iterable[Document]
) -> Iterator[Document]:
    """The namespaces that give the class to their pods, and the class as the cluster's default."""
    for each in namespaces:
        yield _user("Namespace", "", each["name"])
    if runtime_class is not None and is_default(runtime_class):
        yield _user("RuntimeClass", "", runtime_class.name)


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
    runtime_class, inventory = state.runtime_class(name), state.inventory
    if flags.manifests and not any(chain(inventory.pods(), inventory.workloads())):
        raise UsageError(
            f"the manifests hold no Pod and no workload, so nothing tells whether RuntimeClass"
            f" {shown(name)} is in use; add them with --manifests"
        )
    pods = (pod for pod, *_ in inventory.pods())
    broken = impact_document(without_class(name, state), pods, inventory.workloads())
    users = [
        *workload_users(broken["workloads"]),
        *defaults_naming(runtime_class, broken["namespaces"]),
        *(_user("Pod", each["namespace"], each["name"]) for each in broken["pods"]),
    ]
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
