"""check -f: whether the pods of objects in files will be admitted and find a node.

Each pod is first changed as admission would change it, then judged on all nodes as by explain.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import click
import msgspec

from extender import __version__
from extender.admission import given_files
from extender.admission.merging import REJECTED, not_found
from extender.admission.review import Admission, Reviewer, RulesOfNamespaces
from extender.cli.commands import policy_of
from extender.cli.flags import Flags, boolean, choice, flag
from extender.cli.output import counted, json_text, print_answer
from extender.cli.streams import warn, write_out
from extender.cluster.file_objects import FileObject, GivenFile
from extender.explain.explanation import Explainer
from extender.kubernetes import workloads
from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.namespaces import ALLOWED_ANNOTATION, REQUIRED_ANNOTATION
from extender.kubernetes.workloads import DAEMON_SET, Found, Place, Template
from extender.lint.new_nodes import OFFER_GROUPS, contradictions, new_node_of
from extender.lint.placing import hanging, unplaced
from extender.lint.reports import junit_text, located_document, located_text, sarif_document
from extender.model.finding import Finding, LocatedFinding, Severity, error
from extender.model.objects import Pod, RuntimeClass
from extender.model.reasons import number_of, shown
from extender.model.similar import most_similar
from extender.rules.node_selector import conflicting_key

#: The output formats in addition to table and json.
FILE_OUTPUTS: Final = ("sarif", "junit")


def check_file_flags() -> list[click.Parameter]:
    return [
        *given_files.file_flags(
            "file or folder whose pods and workloads are checked before they are applied"
        ),
        choice(
            "--fail-on",
            "least severity of a finding for exit code 1 (default: error with -f, advice without)",
            values=[*Severity],
        ),
        flag("-n, --namespace NAME", "namespace of objects of -f that name none"),
        boolean(
            "--default-class",
            "give pods of -f that name no RuntimeClass the cluster's default class too, as"
            " webhook --default-class does",
        ),
    ]


def check_files(program: str, flags: Flags) -> int:
    """Exit code 1 if a finding is at least as severe as --fail-on. Raises UsageError."""
    names = [*flags.filename, *flags.more]
    files = given_files.read_given(names, recursive=flags.recursive)
    around = given_files.surroundings_of(program, flags, files)
    state = around.state
    reviewer = Reviewer(
        state, namespace_rules=around.rules, gives_cluster_default=flags.default_class
    )
    explainer = None
    if state.snapshot.nodes:
        version = partial(state.version, flags.kubernetes_version)
        explainer = Explainer(state.snapshot, policy_of(flags), version)
    else:
        warn(program, "no Node is known: where pods fit was not checked")
    judge = Judge(reviewer, around.rules, explainer)
    judged: list[tuple[str, str]] = []
    findings: list[LocatedFinding] = []
    for file in counted(files, "checking files"):
        findings += _judge(file, judge, around, judged)
    if not judged:
        kinds = Counter(each.kind for file in files for each in file.objects)
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


_REFUSED: Final = "admission refuses each pod: "


@dataclass(frozen=True, slots=True)
class Judge:
    """Finds the faults of templates. explainer: None if no node is known."""

    reviewer: Reviewer
    rules: RulesOfNamespaces
    explainer: Explainer | None

    def findings(self, template: Template) -> Iterator[Found]:
        """The faults of a template, with their places in its object. Raises DecodeError."""
        admission, pod = self.reviewer.admitted(template.pod, template.namespace)
        # A default class that the namespace does not allow was not looked up.
        withheld = admission.given is not None and bool(admission.given.refusal)
        if admission.runtime_class is None and admission.name is not None and not withheld:
            yield self._not_found(admission), template.spec("runtimeClassName")
            return
        yield from self._not_allowed(template, admission.name or "")
        if admission.refusal:
            if not withheld:
                yield _refused(template, admission.runtime_class, admission.refusal)
        elif self.explainer is not None and "spec" in pod:
            yield from _placed(self.explainer, template, pod)

    def _not_found(self, admission: Admission) -> Finding:
        name = admission.name or ""
        meant = most_similar(name, self.reviewer.source.snapshot.runtime_classes)
        missing = "create the RuntimeClass first" if name else "remove runtimeClassName"
        the_default = "" if admission.given is None else ", the default,"
        return error(
            "not_found",
            f'RuntimeClass "{shown(name)}"{the_default} does not exist',
            f"{_REFUSED}{not_found(name)}",
            f"runtimeClassName: {meant}" if meant else missing,
            name,
        )

    def _not_allowed(self, template: Template, name: str) -> Iterator[Found]:
        rules = self.rules(template.namespace)
        refusal = "" if template.exempt else rules.refusal(name)
        if not refusal:
            return
        code, annotation, fix = "not_allowed", ALLOWED_ANNOTATION, "remove runtimeClassName"
        if not name:
            code, annotation = "class_required", REQUIRED_ANNOTATION
            fix = "name a RuntimeClass in spec.runtimeClassName"
        if rules.allowed:
            fix = f"runtimeClassName: {shown(rules.allowed[0])}"
        why = f"annotation {annotation} of the namespace forbids it"
        finding = error(code, refusal, why, fix, *filter(None, [name]))
        yield finding, template.spec("runtimeClassName")


def _judge(
    file: GivenFile, judge: Judge, around: given_files.Surroundings, judged: list[tuple[str, str]]
) -> list[LocatedFinding]:
    """The findings about the objects of a file, sorted by line.

    Appends (file, object) of each object to judged. Raises UsageError if one can't be read.
    """
    found: list[tuple[FileObject, str, Finding, Place]] = []
    for each in file.objects:
        try:
            is_offer = OFFER_GROUPS.get(each.kind) == each.group
            if is_offer and (offer := new_node_of(each.raw, each.kind)):
                subject = f"{each.kind} {shown(offer.pool)}"
                classes = around.state.snapshot.classes_by_name
                findings = [*contradictions(offer, each.kind, classes)]
            elif template := given_files.template_in(each, around.namespace):
                subject = template.subject
                findings = [*workloads.ignored_class(decode(each.raw, dict), each.kind)]
                findings += judge.findings(template)
            else:
                continue
        except DecodeError as fault:
            raise given_files.unreadable(file, each, fault) from None
        judged.append((file.name, subject))
        found += ((each, subject, finding, place) for finding, place in findings)
    lines = file.lines((each, place) for each, _, _, place in found)
    located = [
        LocatedFinding(finding, file.name, lines[each.document, each.place + place], subject)
        for each, subject, finding, place in found
    ]
    return sorted(located, key=lambda each: each.line)


def _placed(
    explainer: Explainer, template: Template, admitted: Mapping[str, Any]
) -> Iterator[Found]:
    pod = _pod_of(template, admitted)
    if not explainer.explain(pod).feasible:
        yield unplaced(explainer, template, pod)
    elif template.kind == DAEMON_SET:
        by_itself = replace(
            _pod_of(template, template.pod),
            runtime_class_name="",
            features=type(pod.features)(),
            kubelet_needs=None,
            resources=None,
            uses=None,
        )
        yield from hanging(explainer, template, by_itself, pod)


def _pod_of(template: Template, admitted: Mapping[str, Any]) -> Pod:
    place = ".".join(map(str, template.place))
    pod = explained_pod(msgspec.json.encode(admitted), place)
    if template.kind == DAEMON_SET:
        pod = workloads.with_daemon_tolerations(pod)
    return replace(pod, namespace=template.namespace, name=template.name, uid="")


def _refused(template: Template, runtime_class: RuntimeClass | None, refusal: str) -> Found:
    """The finding about a refusal: conflicting nodeSelectors, a wrong overhead, or another one."""
    name = runtime_class.name if runtime_class else ""
    own_labels = template.pod["spec"].get("nodeSelector") or {}
    conflict = conflicting_key(
        {key: value or "" for key, value in own_labels.items()},
        runtime_class.node_selector if runtime_class else (),
    )
    why, place = f"{_REFUSED}{refusal}", template.spec("overhead")
    if conflict is not None and not refusal.startswith(REJECTED):
        key, own, wanted = (shown(each) for each in conflict)
        code, place = "conflict", template.spec("nodeSelector", conflict[0])
        what = f'nodeSelector {key}={own} conflicts with {key}={wanted} of RuntimeClass "{name}"'
        fix = f"remove {key} from nodeSelector: the class brings its own"
    elif "Overhead" in refusal:
        code, fix = "overhead", "remove overhead: admission sets it"
        what = f'is not that of RuntimeClass "{name}"' if name else "without a RuntimeClass"
        what = f"spec.overhead {what}"
    else:
        code, place = "refused", template.spec("runtimeClassName")
        what, fix = refusal.removeprefix(REJECTED), f"kubectl edit runtimeclass {name}"
        why = f"{_REFUSED}the class can't be merged into it"
    return error(code, what, why, fix, *filter(None, [name])), place
