"""can-delete: what uses a RuntimeClass: pods, the templates that make them, and defaults."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from extender.admission.defaults import is_default
from extender.cli.cluster_state import load_cluster
from extender.cli.commands import cluster_flags, printing_flags
from extender.cli.flags import Command, Flags, argument
from extender.cli.output import Screen, paragraph, print_answer, table
from extender.cluster.reading_once import Inventory
from extender.explain.document import Document
from extender.kubernetes.namespaces import rules_of
from extender.model.errors import UsageError
from extender.model.objects import RuntimeClass
from extender.model.reasons import shown


def _user(kind: str, namespace: str, name: str) -> Document:
    """An object that uses a class; namespace is empty for cluster-scoped ones."""
    return {"kind": kind, "namespace": namespace, "name": name}


def workloads_naming(name: str, inventory: Inventory) -> list[Document]:
    """Those that will still make pods of a class."""
    # Lists that begin again give some objects twice.
    found = {
        (each.kind, each.namespace, each.name)
        for each in inventory.workloads()
        if each.runtime_class_name == name and not each.is_past
    }
    return [_user(*each) for each in sorted(found)]


def defaults_naming(
    name: str, runtime_class: RuntimeClass | None, inventory: Inventory
) -> Iterator[Document]:
    """The namespaces that give a class to their pods, and the class as the cluster's default."""
    for namespace, each in sorted(inventory.namespaces().items()):
        if rules_of(namespace, each.annotations).default == name:
            yield _user("Namespace", "", namespace)
    if runtime_class is not None and is_default(runtime_class):
        yield _user("RuntimeClass", "", name)


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
    users = [
        *workloads_naming(name, inventory),
        *defaults_naming(name, runtime_class, inventory),
        *(
            _user("Pod", pod.namespace, pod.name)
            for pod, *_ in inventory.pods()
            if pod.runtime_class_name == name
        ),
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
