"""render: the objects of files with their pods as admission would make them."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from extender.admission.admitted import admitted_spec, reviewed
from extender.admission.merging import AdmissionRefusal, Merge
from extender.checks.judging import Admission
from extender.checks.template_fields import Template
from extender.cluster.file_objects import FileObject, GivenFile
from extender.cluster.yaml_editing import Edit, dumped, edited
from extender.cluster.yaml_places import Path, decoded
from extender.commands.arguments import Command
from extender.commands.given_files import add_file_flags, read_given
from extender.commands.output import EXIT_DOES_NOT_FIT, EXIT_FITS, json_text, warn
from extender.commands.progress import showing
from extender.commands.surroundings import subject_of, surroundings_of, template_in, unreadable
from extender.decoding.decoder import DecodeError
from extender.flags import CommandParser, UsageError
from extender.printable import printable
from extender.streams import say, write_out
from extender.verbs.class_lookup import no_lookup
from extender.verbs.review import Reviewer

#: Bytes of all files: their values and places are held at the same time.
MAX_RENDERED_BYTES: Final = 32 * 2**20

Json = dict[str, Any]


def _add_flags(parser: CommandParser) -> None:
    add_file_flags(parser, "print its objects as admission would make their pods")
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), help="what is printed; as each file has it"
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", help="of objects that name none")
    parser.choice_flag(
        "--merge",
        Merge.ALL,
        help="tolerations: overhead and tolerations only, as from the webhook with this flag",
    )
    parser.boolean_flag(
        "--default-class",
        help="give pods that name no RuntimeClass the default one of their namespace or cluster",
    )
    parser.boolean_flag(
        "--fit", help="give pods that ask for an isolation by annotation the class that fits best"
    )


@dataclass(slots=True)
class _Rendered:
    """A file and what is changed of it; documents are those that are objects, by number.

    refused: (line, message) of each refused pod. anew: documents that lost their comments.
    """

    file: GivenFile
    documents: dict[int, Json]
    edits: list[Edit] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    anew: list[int] = field(default_factory=list)

    def change(self, each: FileObject, place: Path, after: Json) -> None:
        """Replace a spec."""
        parent: Any = self.documents[each.document]
        *above, last = (*each.place, *place)
        for step in above:
            parent = parent[step]
        self.edits.append(Edit(each.document, (*above, last), parent[last], after))
        parent[last] = after


def _render(program: str, flags: argparse.Namespace) -> int:
    """Exit code 1 where admission would refuse a pod. Raises UsageError."""
    program = f"{program} render"
    if not flags.filename:
        raise UsageError("-f FILE is needed; - is standard input")
    files = read_given(flags.filename, recursive=flags.recursive, limit=MAX_RENDERED_BYTES)
    asks_namespaces = flags.default_class or flags.fit
    around = surroundings_of(program, flags, files, nodes=flags.fit, rules=asks_namespaces)
    state, rules, merge = around.state, around.rules, Merge(flags.merge)
    reviewer = Reviewer(state, merge, no_lookup, rules, lambda _: None, fits=flags.fit)
    admission = Admission(
        state.snapshot.runtime_classes,
        rules if flags.default_class else None,
        flags.default_class,
        reviewer.fitted_class if flags.fit else None,
    )
    renderer = _Renderer(admission, merge, around.namespace)
    done: list[_Rendered] = []
    texts = []
    with showing(lambda: f"{len(done):,} of {len(files):,} files rendered"):
        for file in files:
            rendered = renderer.render(file)
            texts.append(_text(rendered, flags.output))
            done.append(rendered)
    for each in done:
        _tell(program, each)
    write_out("".join(_joined(texts)))
    return EXIT_DOES_NOT_FIT if any(each.refused for each in done) else EXIT_FITS


def _tell(program: str, rendered: _Rendered) -> None:
    name = printable(rendered.file.name)
    for line, text in rendered.refused:
        say(f"{program}: {name}:{line}: {printable(text)}")
    for number in rendered.anew:
        warn(
            program,
            f"{name}: document {number + 1} is written anew, without its comments: what changes is"
            " shared by anchors, or written in a way that can't be added to",
        )


class _Renderer:
    """Renders files, one after the other."""

    def __init__(self, admission: Admission, merge: Merge, namespace: str) -> None:
        self._admission = admission
        self._merge = merge
        self._namespace = namespace

    def render(self, file: GivenFile) -> _Rendered:
        """Raises UsageError for an object that can't be read."""
        rendered = _Rendered(file, file.plain_documents())
        refused: list[tuple[FileObject, Path, str]] = []
        for each in file.objects:
            try:
                template = template_in(each, self._namespace)
                if template is None:
                    continue
                spec = self._spec(template)
            except DecodeError as error:
                raise unreadable(file, each, error) from None
            if isinstance(spec, AdmissionRefusal):
                place = template.spec("runtimeClassName")
                refused.append((each, place, f"{subject_of(template)}: {spec.text}"))
            elif spec is not None and spec is not template.pod["spec"]:
                rendered.change(each, template.spec(), spec)
        lines = file.lines((each, place) for each, place, _ in refused)
        rendered.refused += (
            (lines[each.document, each.place + place], text) for each, place, text in refused
        )
        return rendered

    def _spec(self, template: Template) -> Json | AdmissionRefusal | None:
        """The spec as admission makes it; the same object, or None, where nothing changes."""
        pod = reviewed(template.pod)
        if not pod.has_spec:
            return None
        spec: Json = template.pod["spec"]
        given = self._admission.given(pod, template.namespace)
        if isinstance(given, AdmissionRefusal):
            return given
        name = pod.runtime_class_name if given is None else given
        runtime_class = self._admission.runtime_classes.get(name or "")
        return admitted_spec(spec, pod, runtime_class, self._merge, given)


def _text(rendered: _Rendered, output: str | None) -> str | list[Json]:
    """The file as it is printed; its documents where that is JSON."""
    file, documents = rendered.file, rendered.documents
    if output == "json" or (output is None and file.is_json):
        return list(documents.values())
    if file.is_json:
        return "---\n".join(map(dumped, documents.values()))
    text, anew = edited(decoded(file.text), rendered.edits, documents)
    rendered.anew += anew
    return text


def _joined(texts: list[str | list[Json]]) -> Iterator[str]:
    """The files as one: YAML with marks between documents, JSON in one List as kubectl has it."""
    if all(isinstance(each, list) for each in texts):
        items = [item for each in texts for item in each if isinstance(item, dict)]
        yield json_text(items[0] if len(items) == 1 else _list(items))
        return
    for index, each in enumerate(texts):
        text = each if isinstance(each, str) else "---\n".join(map(json_text, each))
        if index and not text.startswith("---"):
            yield "---\n"
        yield text if text.endswith("\n") or not text else f"{text}\n"


def _list(documents: list[Json]) -> Json:
    """Lists among them are no objects of their own."""
    items: list[Any] = []
    for each in documents:
        inside = each.get("items") if each.get("kind") == "List" else None
        items += inside if isinstance(inside, list) else [each]
    return {"apiVersion": "v1", "kind": "List", "items": items}


RENDER: Final = Command(
    "render",
    "Prints the objects of files with their pods as admission would make them.",
    _add_flags,
    _render,
)
