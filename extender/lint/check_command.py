"""check: runs the registry of lints over a cluster and a kube-scheduler configuration."""

from collections.abc import Sequence
from typing import Any, Final

from extender.admission.defaults import Subject, subject_of
from extender.cli.cluster_state import ClusterState, has_cluster, if_allowed, load_cluster
from extender.cli.commands import policy_of, reading_flags, version_flag
from extender.cli.flags import Command, Flags, boolean, flag
from extender.cli.output import print_answer
from extender.cli.streams import warn
from extender.cluster.input_files import FileError, read_file
from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.yaml_documents import YamlError, yaml_documents
from extender.lint import registry
from extender.lint.facts import Circumstances
from extender.lint.files import FILE_OUTPUTS, check_file_flags, check_files
from extender.lint.lints.namespaces import refused_by_policies
from extender.lint.lints.nodes import untainted_special_nodes
from extender.lint.lints.scheduler_config import our_extenders
from extender.lint.probe import probe
from extender.lint.reports import finding_document, findings_text
from extender.model.errors import UsageError
from extender.model.finding import Finding, Severity, worst_first
from extender.model.reasons import number_of, shown
from extender.rules.class_nodes import Support

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"


def _check(program: str, flags: Flags) -> int:
    """Exit code 1 if a finding is at least as severe as --fail-on. Raises UsageError."""
    program = f"{program} check"
    if flags.filename or flags.more:
        if flags.scheduler_config or flags.policies:
            raise UsageError("-f can't be used with --scheduler-config or --policies")
        return check_files(program, flags)
    if flags.output in FILE_OUTPUTS:
        raise UsageError(f"-o {flags.output} needs -f FILE: only findings about files have lines")
    about_config = flags.probe or flags.no_admission_plugin or flags.in_pod is not None
    if about_config and not flags.scheduler_config:
        raise UsageError("--probe, --no-admission-plugin and --in-pod need --scheduler-config FILE")
    return _check_set_up(program, flags)


def _check_set_up(program: str, flags: Flags) -> int:
    config = _read_config(flags.scheduler_config) if flags.scheduler_config else None
    state = None
    looked_at: list[str] = []
    findings: list[Finding] = []
    if config is None or flags.policies or has_cluster(flags):
        state = load_cluster(program, flags, subjects=flags.policies)
        findings += _check_cluster(state, flags, program, looked_at)
    if config is not None:
        findings += _check_config(config, state, flags, program)
        looked_at.append(str(flags.scheduler_config))
    findings = worst_first(findings)
    failing = Severity(flags.fail_on or Severity.ADVICE)
    return print_answer(
        flags,
        {"findings": [finding_document(each) for each in findings]},
        lambda _, screen: findings_text(findings, ", ".join(looked_at), screen),
        yes=not any(each.severity.is_at_least(failing) for each in findings),
    )


def _check_cluster(
    state: ClusterState, flags: Flags, program: str, looked_at: list[str]
) -> list[Finding]:
    """The findings in the cluster. Appends what was checked to looked_at. Raises UsageError."""
    snapshot, inventory, findings = state.snapshot, state.inventory, list[Finding]()
    if flags.policies:
        subjects = _subjects(state)
        findings += refused_by_policies(subjects, inventory.namespaces())
        looked_at.append(f"{len(subjects)} pods and templates")
    elif not (snapshot.runtime_classes or snapshot.nodes or inventory.pending_pods()):
        raise UsageError("there is no RuntimeClass, Node or Pod: nothing was checked")
    if not snapshot.nodes:
        warn(program, "no Node is known: findings that depend on nodes are left out")
    policy = policy_of(flags)
    findings += registry.check_classes(snapshot, Support(policy.handler_check), policy, state.nodes)
    looked_at.append(number_of(len(snapshot.runtime_classes), "RuntimeClass", "RuntimeClasses"))
    looked_at.append(number_of(len(snapshot.nodes), "node"))
    what = "whether pods wait for a class that does not exist"
    pods = if_allowed(program, what, inventory.pending_pods) or {}
    what = "whether namespaces have default classes that exist"
    namespaces = if_allowed(program, what, inventory.namespaces) or {}
    findings += registry.check_pods(pods.values(), snapshot.runtime_classes)
    findings += registry.check_namespaces(namespaces, snapshot.runtime_classes)
    return findings


def _subjects(state: ClusterState) -> Sequence[Subject]:
    """The pods and workloads that policies check. Raises UsageError if unlistable or unreadable."""
    try:
        subjects = (subject_of(raw, kind) for kind, raw in state.inventory.subjects())
        return [each for each in subjects if each]
    except DecodeError as error:
        raise UsageError(str(error)) from None


def _check_config(
    config: dict[str, Any], state: ClusterState | None, flags: Flags, program: str
) -> list[Finding]:
    untainted, findings = [], list[Finding]()
    if state is not None:
        untainted = untainted_special_nodes(state.snapshot, policy_of(flags).handler_check)
        what = "whether pods are marked as the configuration wants"
        pods = if_allowed(program, what, state.inventory.pending_pods) or {}
        findings += registry.check_marks(config, state.nodes, pods.values())
    circumstances = Circumstances(
        not flags.no_admission_plugin, flags.kubernetes_version, flags.in_pod, untainted
    )
    findings += registry.check_scheduler_config(config, circumstances)
    for place, extender in our_extenders(config) if flags.probe else ():
        findings += probe(place, extender)
    return findings


def _read_config(name: str) -> dict[str, Any]:
    """The first document of the file. Raises UsageError."""
    where = f"--scheduler-config {name}"
    try:
        text = read_file(name, pipes=True)
        documents = [each for each in yaml_documents(text) if each is not None]
    except (FileError, YamlError) as error:
        raise UsageError(f"{where}: {error}") from None
    config = documents[0] if documents else None
    if not isinstance(config, dict):
        raise UsageError(f"{where}: expected a {KIND}")
    version, kind = config.get("apiVersion"), config.get("kind")
    if (version, kind) != (API_VERSION, KIND):
        got = f"kind {shown(str(kind))} of {shown(str(version))}"
        raise UsageError(f"{where}: expected {KIND} of {API_VERSION}, got {got}")
    return config


CHECK: Final = Command(
    "check",
    "Lints RuntimeClasses, nodes and a kube-scheduler configuration or, with -f, pods and workloads"
    " before they are applied.",
    _check,
    [
        *check_file_flags(),
        flag("--scheduler-config FILE", "KubeSchedulerConfiguration v1 to lint too"),
        version_flag(),
        boolean(
            "--no-admission-plugin",
            "kube-apiserver runs with --disable-admission-plugins=RuntimeClass",
        ),
        boolean(
            "--in-pod",
            "kube-scheduler runs in a pod and uses its service account; =false: it does not",
            default=None,
        ),
        boolean("--probe", "ask each configured extender whether it is ready"),
        boolean(
            "--policies",
            "list the pods and templates that scheduler-config/policies would refuse today, by"
            " the annotations of their namespaces",
        ),
    ],
    reading_flags(*FILE_OUTPUTS),
    examples=["", "--scheduler-config scheduler.yaml --probe", "-f manifests/ -R -o sarif"],
)
