"""check -f: judges pods and templates of workloads before they reach the cluster."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from extender import __version__
from extender.checks.finding import Finding, LocatedFinding, Severity
from extender.checks.judging import Admission, Judge
from extender.checks.kueue_and_karpenter import OFFER_GROUPS, check_offer, offer_of
from extender.checks.template_fields import Found, Place
from extender.checks.template_nodes import Placing
from extender.cluster.file_objects import FileObject, GivenFile
from extender.cluster.misspelt import misspelt_fields, misspelt_kind
from extender.commands.arguments import policy_of
from extender.commands.given_files import add_file_flags, read_given
from extender.commands.output import EXIT_DOES_NOT_FIT, EXIT_FITS, json_text, screen, warn
from extender.commands.progress import showing
from extender.commands.surroundings import (
    SURROUNDINGS,
    subject_of,
    surroundings_of,
    template_in,
    unreadable,
)
from extender.decoding.decoder import DecodeError, decode
from extender.decoding.workloads import WORKLOAD_GROUPS
from extender.flags import CommandParser
from extender.printing.finding_texts import located_document, located_text
from extender.printing.junit import junit_text
from extender.printing.sarif import sarif_document
from extender.reasons import shown
from extender.streams import write_out

#: Formats beside table and json.
FILE_OUTPUTS: Final = ("sarif", "junit")

#: The API groups in which a kind that resembles a known one is taken for misspelt.
_OUR_GROUPS: Final = frozenset({"", "apps", "batch", "node.k8s.io"})


def add_check_file_flags(parser: CommandParser) -> None:
    add_file_flags(parser, "judge its pods and workloads before they reach the cluster")
    parser.add_argument(
        "--fail-on",
        choices=(Severity.ERROR.value, Severity.WARNING.value),
        default=Severity.ERROR.value,
        help="the least severity of findings of -f that ends with exit code 1",
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", help="of objects of -f that name none")
    parser.boolean_flag(
        "--default-class",
        help="pods of -f that name no RuntimeClass get the cluster's default one, as from the"
        " webhook with this flag",
    )


@dataclass(slots=True)
class _Judged:
    """The objects checked so far."""

    files: list[GivenFile]
    objects: int = 0
    subjects: list[tuple[str, str]] = field(default_factory=list)
    findings: list[LocatedFinding] = field(default_factory=list)


def check_files(program: str, flags: argparse.Namespace) -> int:
    """Exit code 1 with findings that are as bad as --fail-on says. Raises UsageError."""
    judged = _Judged(read_given(flags.filename, recursive=flags.recursive))
    around = surroundings_of(program, flags, judged.files)
    snapshot = around.state.snapshot
    admission = Admission(snapshot.runtime_classes, around.rules, flags.default_class)
    placing = None
    if snapshot.nodes:
        placing = Placing(snapshot, policy_of(flags))
    else:
        warn(program, "no Node is known: where pods fit was not checked")
    checker = _Checker(Judge(admission, placing), admission, around.namespace)
    total = sum(len(each.objects) for each in judged.files)
    with showing(lambda: f"{judged.objects:,} of {total:,} objects checked"):
        for file in judged.files:
            _judge(file, checker, judged)
    if not judged.subjects:
        warn(program, f"-f {flags.filename[0]}: holds no Pod or workload")
    failing = Severity(flags.fail_on)
    print_located(flags.output, judged.subjects, judged.findings, len(judged.files), failing)
    bad = any(each.finding.severity.is_at_least(failing) for each in judged.findings)
    return EXIT_DOES_NOT_FIT if bad else EXIT_FITS


def print_located(
    output: str,
    subjects: Sequence[tuple[str, str]],
    findings: Sequence[LocatedFinding],
    files: int,
    failing: Severity,
) -> None:
    """Raises OSError where stdout can't be written."""
    if output == "junit":
        write_out(junit_text(subjects, findings, failing))
    elif output == "table":
        looked_at = f"{_count(len(subjects), 'object')} of {_count(files, 'file')}"
        write_out(located_text(findings, looked_at, screen()))
    else:
        sarif = output == "sarif"
        document = sarif_document(findings, __version__) if sarif else located_document(findings)
        write_out(json_text(document))


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


class _Checker:
    """Judges the objects of a file, one after the other."""

    def __init__(self, judge: Judge, admission: Admission, namespace: str) -> None:
        self._judge = judge
        self._classes = sorted(admission.runtime_classes.values(), key=lambda each: each.name)
        self._namespace = namespace

    def __call__(self, each: FileObject) -> tuple[str, list[Found]] | None:
        """The object's name and its findings; None for an object that is not checked.

        Raises DecodeError.
        """
        if OFFER_GROUPS.get(each.kind) == each.group:
            offer = offer_of(each.raw, each.kind)
            return f"{each.kind} {shown(offer.name)}", [*check_offer(offer, self._classes)]
        template = template_in(each, self._namespace)
        if template is None:
            return self._misspelt_kind(each)
        plain = decode(each.raw, dict)
        found = [*_misspelt(plain, each.kind), *self._judge.findings(template)]
        return subject_of(template), found

    def _misspelt_kind(self, each: FileObject) -> tuple[str, list[Found]] | None:
        if each.group not in _OUR_GROUPS or each.kind in SURROUNDINGS:
            return None
        meant = misspelt_kind(each.kind, [*WORKLOAD_GROUPS, "Pod", *SURROUNDINGS])
        if not meant or meant == each.kind:
            return None
        finding = Finding(
            Severity.WARNING,
            "misspelt",
            f'there is no kind "{shown(each.kind)}"; did you mean "{meant}"?',
            "the object was not judged",
            f"kind: {meant}",
        )
        return f"{shown(each.kind)}", [(finding, ("kind",))]


def _misspelt(plain: object, kind: str) -> Iterator[Found]:
    for place, meant in misspelt_fields(plain, kind):
        written = shown(".".join(map(str, place)))
        yield (
            Finding(
                Severity.WARNING,
                "misspelt",
                f'Kubernetes knows no {written}; did you mean "{meant}"?',
                "kube-apiserver refuses or drops a field that it does not know",
                f"write {meant}",
            ),
            place,
        )


def _judge(file: GivenFile, checker: _Checker, judged: _Judged) -> None:
    """Judge the objects of a file. Raises UsageError for one that can't be read."""
    found: list[tuple[FileObject, str, Finding, Place]] = []
    for each in file.objects:
        try:
            answer = checker(each)
        except DecodeError as error:
            raise unreadable(file, each, error) from None
        judged.objects += 1
        if answer is None:
            continue
        subject, findings = answer
        judged.subjects.append((file.name, subject))
        found += [(each, subject, finding, place) for finding, place in findings]
    lines = file.lines((each, place) for each, _, _, place in found)
    located = [
        LocatedFinding(finding, file.name, lines[each.document, each.place + place], subject)
        for each, subject, finding, place in found
    ]
    judged.findings += sorted(located, key=lambda each: each.line)
