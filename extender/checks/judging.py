"""Whether the pods that objects of a file make will be admitted, and find a node.

Each is judged as admission makes it (extender.admission), then as explain judges it on all nodes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from extender.admission.admitted import admitted_spec, reviewed
from extender.admission.default_class import cluster_default, takes_default
from extender.admission.merging import REJECTED, AdmissionRefusal, not_found, refused_for
from extender.admission.namespace_rules import (
    ALLOWED_ANNOTATION,
    REQUIRED_ANNOTATION,
    NamespaceRules,
)
from extender.admission.reviewed_pod import ReviewedPod
from extender.checks.finding import Finding, Severity
from extender.checks.template_fields import Found, Template
from extender.checks.template_nodes import Placing
from extender.checks.unplaced import unplaced
from extender.decoding.explained_pods import explained_pod
from extender.decoding.workloads import DAEMON_SET, with_daemon_tolerations
from extender.objects import Pod, RuntimeClass
from extender.predicates.node_selector import conflicting_key
from extender.reasons import shown
from extender.verbs.review import Given

Json = dict[str, Any]

_REFUSED: Final = "admission refuses each pod: "


@dataclass(frozen=True, slots=True)
class Admission:
    """The settings that admission is simulated with.

    namespace_rules is None where nobody knows them. default_class: pods that name no class get the
    default of the cluster, as webhook --default-class gives it; they get that of their namespace
    wherever it names one. fitted: what webhook --fit gives, None without.
    """

    runtime_classes: Mapping[str, RuntimeClass]
    namespace_rules: Callable[[str], NamespaceRules] | None = None
    default_class: bool = False
    fitted: Callable[[ReviewedPod, str], Given | None] | None = None

    def given(self, pod: ReviewedPod, namespace: str) -> str | AdmissionRefusal | None:
        """The class that is given to a pod that names none. Raises DecodeError."""
        if pod.runtime_class_name is not None:
            return None
        given = self.fitted(pod, namespace) if self.fitted else None
        if given is not None:
            refusal = f"{given.refusal} ({given.origin})" if given.refusal else ""
            return refused_for([refusal]) if refusal else given.name
        return self._default(pod, namespace)

    def _default(self, pod: ReviewedPod, namespace: str) -> str | None:
        if not takes_default(pod):
            return None
        rules = self.namespace_rules(namespace) if self.namespace_rules else None
        if rules is not None and rules.default:
            return rules.default if rules.names_default else None
        default = cluster_default(self.runtime_classes.values()) if self.default_class else None
        return default.name if default else None


class Judge:
    """Judges templates, one after the other."""

    def __init__(self, admission: Admission, placing: Placing | None) -> None:
        """placing is None where no node is known."""
        self._admission = admission
        self._placing = placing

    def findings(self, template: Template) -> Iterator[Found]:
        """What is wrong with a template, and where in its object. Raises DecodeError."""
        pod = reviewed(template.pod)
        if not pod.has_spec:
            return
        given = self._admission.given(pod, template.namespace)
        if isinstance(given, AdmissionRefusal):
            yield _refused(template, pod, None, given)
            return
        name = pod.runtime_class_name if given is None else given
        runtime_class = self._admission.runtime_classes.get(name or "")
        if name is not None and runtime_class is None:
            yield self._not_found(name, given), template.spec("runtimeClassName")
            return
        yield from self._not_allowed(template, name)
        spec = admitted_spec(template.pod["spec"], pod, runtime_class, given=given)
        if isinstance(spec, AdmissionRefusal):
            yield _refused(template, pod, runtime_class, spec)
            return
        if self._placing is not None:
            yield from self._placed(self._placing, template, runtime_class, spec)

    def _not_found(self, name: str, given: str | None) -> Finding:
        (meant,) = get_close_matches(name, self._admission.runtime_classes, 1) or ("",)
        told = f'RuntimeClass "{shown(name)}"'
        return Finding(
            Severity.ERROR,
            "not_found",
            f"{told} does not exist" if given is None else f"{told}, the default, does not exist",
            f"{_REFUSED}{not_found(name).text}",
            f"runtimeClassName: {meant}" if meant else "create the RuntimeClass first",
            (name,),
        )

    def _not_allowed(self, template: Template, name: str | None) -> Iterator[Found]:
        if self._admission.namespace_rules is None or template.exempt:
            return
        rules = self._admission.namespace_rules(template.namespace)
        refusal = rules.refusal(name or "")
        if not refusal:
            return
        annotation = ALLOWED_ANNOTATION if name else REQUIRED_ANNOTATION
        allowed = rules.allowed or ()
        yield (
            Finding(
                Severity.ERROR,
                "not_allowed" if name else "class_required",
                refusal,
                f"annotation {annotation} of the namespace says so",
                f"runtimeClassName: {shown(allowed[0])}"
                if allowed
                else "remove runtimeClassName"
                if name
                else "name a RuntimeClass in spec.runtimeClassName",
                (name,) if name else (),
            ),
            template.spec("runtimeClassName"),
        )

    def _placed(
        self, placing: Placing, template: Template, runtime_class: RuntimeClass | None, spec: Json
    ) -> Iterator[Found]:
        admitted = {**template.pod, "spec": spec}
        place = ".".join(map(str, template.place))
        pod = _pod_of(template, admitted, place)
        explanation = placing.explain(pod, runtime_class)
        if not explanation.feasible:
            yield unplaced(placing, template, pod, runtime_class)
            return
        if template.kind == DAEMON_SET:
            by_itself = replace(
                _pod_of(template, template.pod, place),
                runtime_class_name="",
                features=type(pod.features)(),
                kubelet_needs=None,
                resources=None,
                uses=None,
            )
            yield from placing.hanging(template, by_itself, pod, runtime_class)


def _pod_of(template: Template, admitted: Mapping[str, Any], place: str) -> Pod:
    raw = msgspec.json.encode(admitted)
    pod = explained_pod(raw, place)
    if template.kind == DAEMON_SET:
        pod = with_daemon_tolerations(pod, raw)
    return replace(pod, namespace=template.namespace, name=template.name, uid="")


def _refused(
    template: Template,
    pod: ReviewedPod,
    runtime_class: RuntimeClass | None,
    refusal: AdmissionRefusal,
) -> Found:
    """A conflict of nodeSelectors, or an overhead that is not the class's."""
    name = runtime_class.name if runtime_class else ""
    conflict = conflicting_key(
        pod.node_selector() or {}, runtime_class.node_selector if runtime_class else ()
    )
    why = f"{_REFUSED}{refusal.text}"
    if conflict is not None and not refusal.text.startswith(REJECTED):
        key, own, wanted = (shown(each) for each in conflict)
        finding = Finding(
            Severity.ERROR,
            "conflict",
            f'nodeSelector {key}={own} conflicts with {key}={wanted} of RuntimeClass "{name}"',
            why,
            f"remove {key} from nodeSelector: the class brings its own",
            (name,),
        )
        return finding, template.spec("nodeSelector", conflict[0])
    check, fix, field = "overhead", "remove overhead: admission sets it", "overhead"
    what = "spec.overhead without a RuntimeClass"
    if "Overhead" not in refusal.text:
        check, what = "refused", refusal.text.removeprefix(REJECTED)
        why = f"{_REFUSED}it can't be held to its class"
        fix, field = f"kubectl edit runtimeclass {name}", "runtimeClassName"
    elif name:
        what = f'spec.overhead is not that of RuntimeClass "{name}"'
    names = (name,) if name else ()
    return Finding(Severity.ERROR, check, what, why, fix, names), template.spec(field)
