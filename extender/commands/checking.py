"""check: lints RuntimeClasses, nodes and a kube-scheduler configuration."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from extender.checks.annotations_of_namespaces import check_namespaces
from extender.checks.classes_and_nodes import check_classes, check_pods, check_tolerations
from extender.checks.config_fields import Circumstances, SchedulerConfigError
from extender.checks.finding import Finding, worst_first
from extender.checks.kubelet_reports import check_kubelets
from extender.checks.marked_pods import check_autoscalers, check_marks
from extender.checks.policies import check_policies
from extender.checks.scheduler_config import (
    check_scheduler_config,
    our_extenders,
)
from extender.checks.special_nodes import untainted_special_nodes
from extender.checks.strict_fields import duplicate_keys
from extender.cluster.reading_once import ForbiddenError
from extender.commands.arguments import (
    Command,
    add_policy_flags,
    add_printing_flags,
    policy_of,
    source_of,
)
from extender.commands.checking_files import FILE_OUTPUTS, add_check_file_flags, check_files
from extender.commands.cluster_state import ClusterState, has_cluster, load_cluster
from extender.commands.output import EXIT_DOES_NOT_FIT, EXIT_FITS, print_answer, warn
from extender.commands.probing import probe
from extender.commands.usage import counted
from extender.flags import CommandParser, UsageError
from extender.input_files import FileError, read_file
from extender.predicates.node_checks import Policy
from extender.printing.finding_texts import findings_document, findings_text
from extender.reasons import number_of
from extender.verbs.class_nodes import Support
from extender.yaml_documents import YamlError, yaml_documents

_VERSION: Final = re.compile(r"v?(?P<major>[0-9]{1,3})\.(?P<minor>[0-9]{1,3})(?:[.+-].*)?")

#: kube-scheduler's configuration is a few hundred lines.
_MAX_CONFIG_BYTES: Final = 16 * 2**20


def kubernetes_version(text: str) -> tuple[int, int]:
    """1.36, v1.36.2 or 1.36.2-gke.100 as (major, minor)."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a version such as 1.36")
    return int(match["major"]), int(match["minor"])


def _add_flags(parser: CommandParser) -> None:
    add_printing_flags(parser, FILE_OUTPUTS)
    add_policy_flags(parser)
    add_check_file_flags(parser)
    parser.add_argument(
        "--scheduler-config", metavar="FILE", help="a KubeSchedulerConfiguration v1 to lint too"
    )
    parser.add_argument(
        "--kubernetes-version",
        type=kubernetes_version,
        metavar="VERSION",
        help="of the kube-scheduler, such as 1.36",
    )
    parser.boolean_flag(
        "--no-admission-plugin",
        help="kube-apiserver runs with --disable-admission-plugins=RuntimeClass",
    )
    parser.boolean_flag(
        "--in-pod",
        default=None,
        help="kube-scheduler runs in a pod with a service account; =false: it does not",
    )
    parser.boolean_flag("--probe", help="ask the configured extenders whether they are ready")

    parser.boolean_flag(
        "--policies",
        help="list the pods and templates that the policies of scheduler-config/policies would"
        " refuse today, by what their namespaces are annotated with",
    )


def _check(program: str, flags: argparse.Namespace) -> int:
    """Exit code 0 when all is sound, 1 with findings. Raises UsageError."""
    program = f"{program} check"
    if flags.filename:
        if flags.scheduler_config or flags.policies:
            raise UsageError("-f is judged alone, without --scheduler-config and --policies")
        return check_files(program, flags)
    if flags.output in FILE_OUTPUTS:
        raise UsageError(f"-o {flags.output} needs -f FILE: only findings about files have lines")
    return _check_set_up(program, flags)


def _check_set_up(program: str, flags: argparse.Namespace) -> int:
    """The cluster, and the scheduler's configuration."""
    about_config = flags.probe or flags.no_admission_plugin or flags.in_pod is not None
    if about_config and not flags.scheduler_config:
        raise UsageError("--probe, --no-admission-plugin and --in-pod need --scheduler-config FILE")
    duplicates: list[str] = []
    config = _read_config(flags.scheduler_config, duplicates) if flags.scheduler_config else None
    source = source_of(flags)
    state = None
    looked_at: list[str] = []
    findings: list[Finding] = []
    if config is None or source.is_given or flags.policies or has_cluster():
        state = load_cluster(program, source, subjects=flags.policies)
        findings += _look_at(state, flags, program, looked_at)
    if config is not None:
        broken = any(each.check == "handler-absent" for each in findings) if state else None
        untainted: Sequence[str] = ()
        if state is not None:
            untainted = untainted_special_nodes(state.snapshot, policy_of(flags).handler_check)
        circumstances = Circumstances(
            not flags.no_admission_plugin,
            flags.kubernetes_version,
            broken,
            flags.in_pod,
            untainted,
        )
        try:
            extenders = our_extenders(config)
            if state is not None:
                findings += _check_marks(config, extenders, state, program)
            findings += duplicate_keys(duplicates)
            findings += check_scheduler_config(config, circumstances)
        except SchedulerConfigError as error:
            raise UsageError(f"--scheduler-config {flags.scheduler_config}: {error}") from None
        for place, extender in extenders if flags.probe else ():
            findings += probe(place, extender)
        looked_at.append(str(flags.scheduler_config))
    findings = worst_first(findings)
    print_answer(
        flags.output,
        findings_document(findings),
        lambda _, screen: findings_text(findings, ", ".join(looked_at), screen),
    )
    return EXIT_DOES_NOT_FIT if findings else EXIT_FITS


def _look_at(
    state: ClusterState, flags: argparse.Namespace, program: str, looked_at: list[str]
) -> list[Finding]:
    """The findings in the cluster; looked_at gets a text of what was checked. Raises UsageError."""
    snapshot, findings = state.snapshot, list[Finding]()
    if flags.policies:
        refused, judged = _check_policies(state)
        findings += refused
        looked_at.append(f"{judged} pods and templates")
    elif not (snapshot.runtime_classes or snapshot.nodes or state.inventory.pending_pods()):
        raise UsageError("there is no RuntimeClass, Node or Pod: nothing was checked")
    findings += _check_cluster(state, policy_of(flags), program)
    classes, nodes = len(snapshot.runtime_classes), len(snapshot.nodes)
    looked_at.append(number_of(classes, "RuntimeClass", "RuntimeClasses"))
    looked_at.append(number_of(nodes, "node"))
    try:
        findings += check_pods(state.inventory.pending_pods().values(), snapshot.runtime_classes)
    except ForbiddenError as error:
        warn(program, f"left out whether pods wait for a class that does not exist: {error}")
        looked_at.append("no pods, which may not be listed")
    try:
        findings += check_namespaces(state.inventory.namespaces(), snapshot.runtime_classes)
    except ForbiddenError as error:
        warn(program, f"left out whether namespaces have default classes that exist: {error}")
        looked_at.append("no namespaces, which may not be listed")
    return findings


def _check_policies(state: ClusterState) -> tuple[list[Finding], int]:
    """Raises UsageError where pods, workloads or namespaces may not be listed."""
    with counted(state.inventory.subjects(), "pods and templates") as subjects:
        namespaces = state.inventory.namespaces()
        annotations = {name: each.annotations for name, each in namespaces.items()}
        return check_policies(subjects, annotations)


def _check_cluster(state: ClusterState, policy: Policy, program: str) -> list[Finding]:
    snapshot = state.snapshot
    findings = check_classes(snapshot, Support(policy.handler_check), policy)
    findings += check_kubelets(snapshot, policy.kubelet_check)
    if snapshot.nodes:
        findings += check_tolerations(snapshot.classes_by_name, state.taints)
    else:
        warn(program, "no Node is known: what depends on nodes was not checked")
    return findings


def _check_marks(
    config: dict[str, Any],
    extenders: Sequence[tuple[str, Mapping[str, Any]]],
    state: ClusterState,
    program: str,
) -> list[Finding]:
    """Raises SchedulerConfigError."""
    findings = list(check_autoscalers(extenders, state.autoscaler_signs))
    try:
        findings += check_marks(config, extenders, state.inventory.pending_pods().values())
    except ForbiddenError as error:
        warn(program, f"left out whether pods are marked as the configuration wants it: {error}")
    return findings


def _read_config(name: str, duplicates: list[str]) -> dict[str, Any]:
    """The first document of the file; duplicates receives the keys that occur twice.

    Raises UsageError.
    """
    where = f"--scheduler-config {name}"
    try:
        text = read_file(name, _MAX_CONFIG_BYTES, pipes=True)
        documents: list[object] = []
        found: list[str] = []
        for each in yaml_documents(text, duplicates=found):
            if each is not None:
                documents.append(each)
                if len(documents) == 1:
                    duplicates += found
    except (FileError, YamlError) as error:
        raise UsageError(f"{where}: {error}") from None
    if not documents or not isinstance(documents[0], dict):
        raise UsageError(f"{where}: expected a KubeSchedulerConfiguration")
    return documents[0]


CHECK: Final = Command(
    "check",
    "Lints RuntimeClasses, nodes and a kube-scheduler configuration.",
    _add_flags,
    _check,
)
