"""What the policies of scheduler-config/policies would refuse of what runs today."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from extender.admission.namespace_rules import (
    ALLOWED_ANNOTATION,
    ALLOWED_POLICY,
    DEFAULT_ANNOTATION,
    NamespaceRules,
    Violation,
    rules_of,
)
from extender.admission.policy_subjects import Subject
from extender.checks.finding import Finding, Severity
from extender.reasons import listed, shown

#: The number of pods and workloads that a finding about many names.
_NAMED: Final = 50


class PolicyCheck:
    """Judges pods and workloads one by one, and keeps those that would be refused."""

    def __init__(self, annotations: Mapping[str, Mapping[str, str]]) -> None:
        """annotations: those of the namespaces, by name."""
        self._rules = {name: rules_of(name, each) for name, each in annotations.items()}
        self._refused: dict[tuple[str, Violation, str], dict[tuple[str, str], Subject]] = {}
        self.judged = 0

    def judge(self, subject: Subject) -> None:
        """The same subject may come twice, for example from a list that was begun again."""
        self.judged += 1
        rules = self._rules.get(subject.namespace)
        if rules is None:
            return
        violation = rules.violation(subject.runtime_class, takes_default=subject.takes_default)
        if violation is not None:
            key = subject.namespace, violation, subject.runtime_class
            self._refused.setdefault(key, {})[subject.key] = subject

    def findings(self) -> Iterator[Finding]:
        """A finding for each namespace and class, or none, that is refused there."""
        for (namespace, violation, name), subjects in sorted(self._refused.items()):
            yield Finding(
                Severity.ERROR,
                "refused-by-policy",
                f"{violation.text}: {_listed(subjects.values())}",
                f"policy {violation.policy} would refuse"
                f" {'it' if len(subjects) == 1 else 'them'}: what runs stays until it is created"
                " anew",
                _fix(self._rules[namespace], violation, name),
                (name,) if name else (),
            )


def _listed(subjects: Iterable[Subject]) -> str:
    return listed(sorted(f"{each.kind} {each.namespace}/{each.name}" for each in subjects), _NAMED)


def _fix(rules: NamespaceRules, violation: Violation, name: str) -> str:
    annotate = f"kubectl annotate --overwrite namespace {shown(rules.namespace)}"
    if violation.policy != ALLOWED_POLICY:
        return f"name a class in the pods, or: {annotate} {DEFAULT_ANNOTATION}=NAME"
    allowed = ",".join([*(rules.allowed or ()), name or rules.default])
    return f"name another class, or: {annotate} {ALLOWED_ANNOTATION}={shown(allowed)}"


def check_policies(
    subjects: Iterable[Subject], annotations: Mapping[str, Mapping[str, str]]
) -> tuple[list[Finding], int]:
    """The findings, and how many pods and workloads were looked at."""
    check = PolicyCheck(annotations)
    for each in subjects:
        check.judge(each)
    return list(check.findings()), check.judged
