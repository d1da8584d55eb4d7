"""Which taints a list of tolerations tolerates.

Follows k8s.io/component-helpers/scheduling/corev1 and api/core/v1/toleration.go, v1.36.2.
"""

import re
from collections.abc import Iterable
from typing import Final

from extender.model.objects import NO_SCHEDULE, UNSCHEDULABLE_TAINT_KEY, Taint
from extender.model.pod_needs import Toleration
from extender.rules.node_selector import int64_of

# strconv.ParseInt accepts "+5" and "007", but validation.IsDecimalInteger and the comparison
# (toleration.go, compareNumericValues) accept only canonical decimals. int() accepts even more.
_CANONICAL_INT: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


class TolerationSet:
    """Compiled tolerations. The cost of a lookup does not depend on their number (but for Lt, Gt).

    A toleration tolerates a taint when 1. its effect is empty or the taint's, 2. its key is empty
    or the taint's, and 3. its operator is Exists; or is empty or Equal and the values are equal;
    or, with comparison_operators (gate TaintTolerationComparisonOperators, alpha, off by default),
    is Lt or Gt and the taint's value is below or above the toleration's. An unknown operator
    tolerates nothing.
    """

    __slots__ = ("_compared", "_equal", "_exists")

    def __init__(
        self, tolerations: Iterable[Toleration], *, comparison_operators: bool = False
    ) -> None:
        self._exists: set[tuple[str, str]] = set()
        self._equal: set[tuple[str, str, str]] = set()
        self._compared: list[tuple[tuple[str, str], str, int]] = []
        for each in tolerations:
            scope = (each.key, each.effect)
            if each.operator == "Exists":
                self._exists.add(scope)
            elif each.operator in ("", "Equal"):
                self._equal.add((*scope, each.value))
            elif comparison_operators and each.operator in ("Gt", "Lt"):
                bound = int64_of(each.value, _CANONICAL_INT)
                if bound is not None:
                    self._compared.append((scope, each.operator, bound))

    def tolerates(self, taint: Taint) -> bool:
        scopes = ((taint.key, taint.effect), (taint.key, ""), ("", taint.effect), ("", ""))
        for scope in scopes:
            if scope in self._exists or (*scope, taint.value) in self._equal:
                return True
        value = int64_of(taint.value, _CANONICAL_INT) if self._compared else None
        return value is not None and any(
            scope in scopes and (value > bound if operator == "Gt" else value < bound)
            for scope, operator, bound in self._compared
        )


def find_untolerated_taint(taints: Iterable[Taint], tolerations: TolerationSet) -> Taint | None:
    """The first taint that is not tolerated. The taints of a shape all have hard effects.

    component-helpers/scheduling/corev1/helpers.go FindMatchingUntoleratedTaint, v1.36.2.
    """
    return next((taint for taint in taints if not tolerations.tolerates(taint)), None)


_UNSCHEDULABLE_TAINT: Final = Taint(UNSCHEDULABLE_TAINT_KEY, "", NO_SCHEDULE)


def tolerates_cordon(tolerations: TolerationSet) -> bool:
    """Whether a pod may go to a node with spec.unschedulable.

    plugins/nodeunschedulable/node_unschedulable.go, v1.36.2: the pod must tolerate the taint that
    the node controller puts on such a node.
    """
    return tolerations.tolerates(_UNSCHEDULABLE_TAINT)
