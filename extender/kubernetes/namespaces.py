"""The default, allowed and required RuntimeClasses that a Namespace names in its annotations.

scheduler-config/policies has the same rules in CEL; tests/e2e/test_policies.py compares the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from extender.model.reasons import listed, shown

_PREFIX: Final = "runtimeclass-extender/"

#: On a Namespace: the name of its default class, or NO_DEFAULT. On a Pod: NO_DEFAULT.
DEFAULT_ANNOTATION: Final = f"{_PREFIX}default-class"
#: Comma-separated class names, or ANY. If empty, only the default runtime is allowed.
ALLOWED_ANNOTATION: Final = f"{_PREFIX}allowed-classes"
#: "true": a pod must name a class.
REQUIRED_ANNOTATION: Final = f"{_PREFIX}required"

#: The ValidatingAdmissionPolicies that bring the rules into force.
ALLOWED_POLICY: Final = "runtimeclass-extender-allowed-classes"
REQUIRED_POLICY: Final = "runtimeclass-extender-required-class"

#: A label of a Namespace: kube-apiserver calls the shipped webhook for its pods without a class.
OPT_IN_LABEL: Final = DEFAULT_ANNOTATION
OPTED_IN: Final = "enabled"

NO_DEFAULT: Final = "false"
ANY: Final = "*"

#: A message lists at most this many allowed classes; an annotation may hold thousands.
_NAMED: Final = 20


class Violation(NamedTuple):
    """The policy that refuses a pod, and its message."""

    policy: str
    text: str


@dataclass(frozen=True, slots=True)
class NamespaceRules:
    """The rules in a Namespace's annotations.

    default: "" if no default class is named, NO_DEFAULT if pods get none. allowed: None if every
    class is allowed. required_text: the annotation's value.
    """

    namespace: str
    default: str = ""
    allowed: tuple[str, ...] | None = None
    required_text: str = ""

    @property
    def required(self) -> bool:
        """An unreadable annotation counts as "true"."""
        return self.required_text not in ("", "false")

    @property
    def is_readable(self) -> bool:
        return self.required_text in ("", "false", "true")

    @property
    def names_default(self) -> bool:
        return self.default not in ("", NO_DEFAULT)

    def allows(self, runtime_class: str) -> bool:
        """Whether pods may name this class. "", the default runtime, is always allowed."""
        return not runtime_class or self.allowed is None or runtime_class in self.allowed

    def refusal(self, runtime_class: str) -> str:
        """Why pods of this class are not allowed in the namespace; "" if they are."""
        violation = self.violation(runtime_class)
        return violation.text if violation else ""

    def violation(self, runtime_class: str, *, takes_default: bool = False) -> Violation | None:
        """The violation of a pod of this class, if any. runtime_class: "" for no class.

        takes_default: a pod without a class gets the namespace's default class first.
        """
        if not runtime_class and takes_default and self.names_default:
            runtime_class = self.default
        if not self.allows(runtime_class):
            text = (
                f'RuntimeClass "{shown(runtime_class)}" is not allowed in namespace'
                f' "{shown(self.namespace)}", which allows'
                f" {self._listed('only the default runtime')}"
            )
            return Violation(ALLOWED_POLICY, text)
        if self.required and not runtime_class:
            allowed = "any" if self.allowed is None else self._listed("none")
            text = (
                f'a pod in namespace "{shown(self.namespace)}" must name a RuntimeClass'
                f" (spec.runtimeClassName); allowed: {allowed}"
            )
            return Violation(REQUIRED_POLICY, text)
        return None

    def _listed(self, nothing: str) -> str:
        return listed(self.allowed or (), _NAMED, '"') or nothing


def rules_of(namespace: str, annotations: Mapping[str, str]) -> NamespaceRules:
    allowed = [each.strip() for each in annotations.get(ALLOWED_ANNOTATION, ANY).split(",")]
    return NamespaceRules(
        namespace,
        annotations.get(DEFAULT_ANNOTATION, ""),
        None if ANY in allowed else tuple(each for each in allowed if each),
        annotations.get(REQUIRED_ANNOTATION, "").strip(),
    )
