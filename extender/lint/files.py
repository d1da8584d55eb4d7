"""check -f: judges pods and templates of workloads before they reach the cluster."""

from collections import Counter
from typing import Final

import click

from extender import __version__
from extender.admission.given_files import (
    Surroundings,
    file_flags,
    read_given,
    surroundings_of,
    template_in,
    unreadable,
)
from extender.admission.review import Reviewer
from extender.cli.commands import namespace_flag, policy_of
from extender.cli.flags import Flags, boolean, choice
from extender.cli.output import json_text, print_answer, showing
from extender.cli.streams import warn, write_out
from extender.cluster.file_objects import FileObject, GivenFile
from extender.explain.explanation import Explainer
from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.versions import Version
from extender.kubernetes.workloads import Place, ignored_class
from extender.lint.judging import Judge
from extender.lint.kueue_and_karpenter import OFFER_GROUPS, check_offer, offer_of
from extender.lint.reports import junit_text, located_document, located_text, sarif_document
from extender.model.finding import Finding, LocatedFinding, Severity
from extender.model.reasons import number_of, shown

#: Formats beside table and json.
FILE_OUTPUTS: Final = ("sarif", "junit")


def check_file_flags() -> list[click.Parameter]:
    return [
        *file_flags("file or folder whose pods and workloads are checked before they are applied"),
        choice(
            "--fail-on",
            "least severity of a finding for exit code 1 (default: error with -f, advice without)",
            values=[*Severity],
        ),
        namespace_flag("namespace of objects of -f that name none"),
        boolean(
            "--default-class",
            "give pods of -f that name no RuntimeClass the cluster's default class too, as"
            " webhook --default-class does",
        ),
    ]


def check_files(program: str, flags: Flags) -> int:
    """Exit code 1 with findings that are as bad as --fail-on says. Raises UsageError."""
    names = [*flags.filename, *flags.more]
    files = read_given(names, recursive=flags.recursive)
    around = surroundings_of(program, flags, files)
    state = around.state
    reviewer = Reviewer(
        state, namespace_rules=around.rules, gives_cluster_default=flags.default_class
    )
    explainer = None
    if state.snapshot.nodes:

        def version() -> Version | None:
            found: Version | None = flags.kubernetes_version
            return found or state.inventory.kubernetes_version()

        explainer = Explainer(state.snapshot, policy_of(flags), version)
    else:
        warn(program, "no Node is known: where pods fit was not checked")
    judge = Judge(reviewer, around.rules, explainer)
    judged: list[tuple[str, str]] = []
    findings: list[LocatedFinding] = []
    kinds = Counter(each.kind for file in files for each in file.objects)
    with showing(lambda: f"{len(judged):,} of {kinds.total():,} objects checked"):
        for file in files:
            findings += _judge(file, judge, around, judged)
    if not judged:
        read = ", ".join(f"{count} {shown(kind)}" for kind, count in sorted(kinds.items()))
        warn(program, f"-f {names[0]}: holds no Pod or workload; read: {read}")
    failing = Severity(flags.fail_on or Severity.ERROR)
    looked_at = f"{number_of(len(judged), 'object')} of {number_of(len(files), 'file')}"
    looked_at += ", judged as admission would change them" if judged else ""
    match flags.output:
        case "junit":
            write_out(junit_text(judged, findings, failing))
        case "sarif":
            write_out(json_text(sarif_document(findings, __version__)))
        case _:
            document = located_document(findings)
            print_answer(flags, document, lambda _, on: located_text(findings, looked_at, on))
    return int(any(each.finding.severity.is_at_least(failing) for each in findings))


def _judge(
    file: GivenFile, judge: Judge, around: Surroundings, judged: list[tuple[str, str]]
) -> list[LocatedFinding]:
    """The findings about the objects of a file, by line; judged gets (file, object) of each.

    Raises UsageError for an object that can't be read.
    """
    found: list[tuple[FileObject, str, Finding, Place]] = []
    for each in file.objects:
        try:
            if OFFER_GROUPS.get(each.kind) == each.group:
                offer = offer_of(each.raw, each.kind)
                subject = f"{each.kind} {shown(offer.name)}"
                findings = list(check_offer(offer, around.state.snapshot.classes_by_name))
            elif template := template_in(each, around.namespace):
                subject = template.subject
                findings = [*ignored_class(decode(each.raw, dict), each.kind)]
                findings += judge.findings(template)
            else:
                continue
        except DecodeError as error:
            raise unreadable(file, each, error) from None
        judged.append((file.name, subject))
        found += ((each, subject, finding, place) for finding, place in findings)
    lines = file.lines((each, place) for each, _, _, place in found)
    located = [
        LocatedFinding(finding, file.name, lines[each.document, each.place + place], subject)
        for each, subject, finding, place in found
    ]
    return sorted(located, key=lambda each: each.line)
