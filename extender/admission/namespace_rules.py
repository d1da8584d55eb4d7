"""What the annotations of a Namespace say of RuntimeClasses: default, allowed and required ones.

The one reader of these annotations and the one place of the rules: the webhook, explain, check and
fit ask here. scheduler-config/policies says the same in CEL, in the same words, and
tests/e2e/test_policies.py holds the two together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from extender.reasons import listed, shown

_PREFIX: Final = "runtimeclass-extender/"

#: The name of the default class there, or NO_DEFAULT; on a Pod: NO_DEFAULT.
DEFAULT_ANNOTATION: Final = f"{_PREFIX}default-class"
#: Names with commas between them, or ANY; nothing for none but the default runtime.
ALLOWED_ANNOTATION: Final = f"{_PREFIX}allowed-classes"
#: "true": a pod must name a class.
REQUIRED_ANNOTATION: Final = f"{_PREFIX}required"

#: The ValidatingAdmissionPolicies that bring the rules into force.
ALLOWED_POLICY: Final = "runtimeclass-extender-allowed-classes"
REQUIRED_POLICY: Final = "runtimeclass-extender-required-class"

#: A label of a Namespace: the shipped webhook may be asked about its pods that name no class.
OPT_IN_LABEL: Final = DEFAULT_ANNOTATION
OPTED_IN: Final = "enabled"

NO_DEFAULT: Final = "false"
ANY: Final = "*"

_TRUE: Final = "true"
_NOT_REQUIRED: Final = ("", "false")

#: What CEL's trim() takes away (Go's unicode.IsSpace); str.strip() takes four more.
_BLANKS: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

#: The number of allowed names that a message lists; an annotation may hold thousands.
_NAMED: Final = 20


class Violation(NamedTuple):
    """What a pod breaks: the policy that refuses it, and what that says."""

    policy: str
    text: str


@dataclass(frozen=True, slots=True)
class NamespaceRules:
    """The rules of one namespace.

    default: "" where the namespace names none, NO_DEFAULT where its pods get none. allowed: None
    for any class. required_text: what the annotation says, for a person who looks for a typing
    error.
    """

    namespace: str
    default: str = ""
    allowed: tuple[str, ...] | None = None
    required_text: str = ""

    @property
    def required(self) -> bool:
        """Whether a pod must name a class; an unreadable annotation counts as "true"."""
        return self.required_text not in _NOT_REQUIRED

    @property
    def is_readable(self) -> bool:
        """Whether the annotation `required` has one of the values that it may have."""
        return self.required_text in (*_NOT_REQUIRED, _TRUE)

    @property
    def names_default(self) -> bool:
        """Whether the namespace gives its pods a class of its own choice."""
        return self.default not in ("", NO_DEFAULT)

    def allows(self, runtime_class: str) -> bool:
        """Whether pods may name this class; "" is the default runtime, which is always allowed."""
        return not runtime_class or self.allowed is None or runtime_class in self.allowed

    def refusal(self, runtime_class: str) -> str:
        """Why no pod of this class may be here, "" for one that may; "" is a pod without class."""
        violation = self.violation(runtime_class)
        return "" if violation is None else violation.text

    def violation(self, runtime_class: str, *, takes_default: bool = False) -> Violation | None:
        """What a pod of this class breaks; "" is a pod that names none.

        takes_default: such a pod is given the namespace's default class first.
        """
        if not runtime_class and takes_default and self.names_default:
            runtime_class = self.default
        if not self.allows(runtime_class):
            text = (
                f'RuntimeClass "{shown(runtime_class)}" is not allowed in namespace'
                f' "{shown(self.namespace)}", which allows'
                f" {_quoted(self.allowed or ()) or 'only the default runtime'}"
            )
            return Violation(ALLOWED_POLICY, text)
        if self.required and not runtime_class:
            allowed = "any" if self.allowed is None else _quoted(self.allowed) or "none"
            text = (
                f'a pod in namespace "{shown(self.namespace)}" must name a RuntimeClass'
                f" (spec.runtimeClassName); allowed: {allowed}"
            )
            return Violation(REQUIRED_POLICY, text)
        return None


def rules_of(namespace: str, annotations: Mapping[str, str]) -> NamespaceRules:
    """The rules that a namespace's annotations make."""
    allowed = [each.strip(_BLANKS) for each in annotations.get(ALLOWED_ANNOTATION, ANY).split(",")]
    return NamespaceRules(
        namespace,
        annotations.get(DEFAULT_ANNOTATION, ""),
        None if ANY in allowed else tuple(each for each in allowed if each),
        annotations.get(REQUIRED_ANNOTATION, "").strip(_BLANKS),
    )


def _quoted(names: tuple[str, ...]) -> str:
    """The names as a message lists them; "" without any."""
    return listed(names, _NAMED, '"')
