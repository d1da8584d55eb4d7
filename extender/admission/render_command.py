"""render: prints the objects of files with their pods as admission would change them."""

from typing import Any, Final

import msgspec

from extender.admission.given_files import (
    file_flags,
    read_given,
    surroundings_of,
    template_in,
    unreadable,
)
from extender.admission.json_patch import Json
from extender.admission.merging import Merge
from extender.admission.review import Reviewer
from extender.cli.commands import cluster_flags
from extender.cli.flags import Command, Flag, Flags, boolean, choice, flag
from extender.cli.output import counted, json_text
from extender.cli.streams import say, write_out
from extender.cluster.file_objects import FileObject, GivenFile
from extender.cluster.manifest_objects import FieldPath
from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.workloads import ignored_class
from extender.kubernetes.yaml_documents import yaml_text
from extender.model.errors import UsageError
from extender.model.reasons import printable


def _render(program: str, flags: Flags) -> int:
    """Exit code 1 if admission would refuse a pod. Raises UsageError."""
    program = f"{program} render"
    names = [*flags.filename, *flags.more]
    if not names:
        raise UsageError("-f FILE is needed; - is standard input")
    files = read_given(names, recursive=flags.recursive)
    asks_namespaces = flags.default_class or flags.fit
    around = surroundings_of(program, flags, files, nodes=flags.fit, rules=asks_namespaces)
    reviewer = Reviewer(
        around.state,
        Merge(flags.merge),
        namespace_rules=around.rules if asks_namespaces else None,
        fits=flags.fit,
        gives_default=flags.default_class,
    )
    rendered = [
        _rendered(file, reviewer, around.namespace) for file in counted(files, "rendering files")
    ]
    documents = [document for found, _, _ in rendered for document in found]
    for text in (text for _, texts, _ in rendered for text in texts):
        say(f"{program}: {printable(text)}")
    if flags.output == "json" or (flags.output is None and all(each.is_json for each in files)):
        write_out(json_text(documents[0] if len(documents) == 1 else _list(documents)))
    else:
        write_out("---\n".join(map(yaml_text, documents)))
    return int(any(refuses for _, _, refuses in rendered))


def _rendered(
    file: GivenFile, reviewer: Reviewer, namespace: str
) -> tuple[list[Json], list[str], bool]:
    """The changed documents, messages, and whether a pod is refused. Raises UsageError."""
    documents = file.plain_documents()
    told: list[tuple[FileObject, FieldPath, str]] = []
    refuses = False
    for each in file.objects:
        try:
            template = template_in(each, namespace)
            if template is None:
                continue
            # Rejects an unreadable pod, as check -f and explain do.
            explained_pod(msgspec.json.encode(template.pod), ".".join(map(str, template.place)))
            admission, pod = reviewer.admitted(template.pod, template.namespace)
        except DecodeError as error:
            raise unreadable(file, each, error) from None
        for finding, place in ignored_class(decode(each.raw, dict), each.kind):
            told.append((each, place, f"{template.subject}: {finding.what}"))
        if admission.refusal:
            refuses = True
            said = f"{template.subject}: {admission.refusal}"
            told.append((each, template.spec("runtimeClassName"), said))
        elif pod is not template.pod:
            found: Any = documents[each.document]
            for step in (*each.place, *template.place):
                found = found[step]
            found["spec"] = pod["spec"]
    lines = file.lines((each, place) for each, place, _ in told)
    texts = [
        f"{file.name}:{lines[each.document, each.place + place]}: {said}"
        for each, place, said in told
    ]
    return list(documents.values()), texts, refuses


def _list(documents: list[Json]) -> Json:
    """One List of all objects, as kubectl prints it. Lists among the documents are flattened."""
    items: list[Any] = []
    for each in documents:
        inside = each.get("items") if each.get("kind") == "List" else None
        items += inside if isinstance(inside, list) else [each]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def merging_flags() -> list[Flag]:
    """The flags that render and the webhook share."""
    return [
        choice(
            "--merge",
            "all: merge the class's overhead, nodeSelector and tolerations into the pod;"
            " tolerations: leave the nodeSelector to the extender's filter",
            values=Merge,
            default=Merge.ALL,
        ),
        boolean(
            "--default-class",
            "give pods that name no RuntimeClass the default class of their namespace or cluster",
        ),
    ]


RENDER: Final = Command(
    "render",
    "Prints the objects of files with their pods as admission would change them.",
    _render,
    [
        *file_flags("file or folder whose objects are printed"),
        choice(
            "-o, --output", "output format (default: that of the files)", values=("yaml", "json")
        ),
        flag("-n, --namespace NAME", "namespace of objects that name none"),
        *merging_flags(),
        boolean(
            "--fit", "give pods that ask for an isolation by annotation the class that fits best"
        ),
    ],
    cluster_flags(),
    examples=["-f web.yaml", "-f manifests/ -R --default-class", "-f - -o json"],
)
