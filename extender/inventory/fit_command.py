"""fit: which RuntimeClasses could run a pod, best first."""

from typing import Final

from extender.admission.fit import fit
from extender.cli.commands import policy_of, reading_flags
from extender.cli.flags import Command, Flags, choice
from extender.cli.output import Cell, Colour, Row, Screen, class_names, print_answer, table
from extender.explain.asked_pod import pod_flags, read_asked_pod
from extender.explain.document import Document
from extender.kubernetes.class_annotations import ISOLATION_ANNOTATION, ISOLATION_LEVELS
from extender.model.errors import UsageError
from extender.model.objects import Pod
from extender.model.reasons import pairs_text, printable, shown

_OTHER_SYSTEM: Final = "runs on {}, and the pod does not ask for that"


def _fit(program: str, flags: Flags) -> int:
    """Exit code 0 when a class fits, 1 when none does. Raises UsageError, also without Nodes."""
    asked = read_asked_pod(program, "fit", flags)
    isolation = flags.isolation or _isolation_of(asked.pod)
    found = fit(asked.pod, asked.state.snapshot, policy_of(flags), asked.rules, isolation)
    items = [
        {
            "class": each.runtime_class.name,
            "own": each.runtime_class.name == asked.pod.runtime_class_name,
            "fits": each.fits,
            "nodes": each.nodes,
            "isolation": each.runtime_class.isolation,
            "overhead": dict(each.runtime_class.overhead),
            "reason": each.reason,
            "note": _OTHER_SYSTEM.format(shown(each.other_system)) if each.other_system else "",
        }
        for each in found
    ]
    fitting = [each.runtime_class.name for each in found if each.fits]
    names = class_names(fitting)
    return print_answer(flags, {"items": items}, _text, names, yes=bool(fitting))


def _isolation_of(pod: Pod) -> str:
    """The level in the pod's annotation, as `webhook --fit` reads it, or "". Raises UsageError."""
    level = pod.state.isolation
    if level and level not in ISOLATION_LEVELS:
        raise UsageError(
            f'annotation {ISOLATION_ANNOTATION} of the pod: "{shown(level)}" is none of'
            f" {', '.join(ISOLATION_LEVELS)}; --isolation LEVEL counts instead"
        )
    return level


def _text(document: Document, screen: Screen) -> str:
    if not document["items"]:
        return "There is no RuntimeClass.\n"
    rows: list[Row] = []
    for each in document["items"]:
        name = shown(each["class"]) + (" (own)" if each["own"] else "")
        fits = Cell("yes", Colour.GOOD) if each["fits"] else Cell("no", Colour.BAD)
        numbers = str(each["nodes"]), shown(each["isolation"]), pairs_text(each["overhead"])
        rows.append([name, fits, *numbers, printable(each["reason"] or each["note"])])
    return table(screen, ("CLASS", "FITS", "NODES", "ISOLATION", "OVERHEAD", "REASON"), rows)


FIT: Final = Command(
    "fit",
    "Which RuntimeClasses could run a pod, best first: most nodes, then least overhead, then by"
    " name.",
    _fit,
    [
        *pod_flags(),
        choice(
            "--isolation",
            "least isolation that a class must have by its annotation (default: the level that"
            " the pod's annotation asks for)",
            values=ISOLATION_LEVELS,
        ),
    ],
    reading_flags("name"),
    examples=["shop/web-7d4b9c", "-f deployment.yaml --isolation vm"],
)
