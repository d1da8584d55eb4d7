"""What fit answers: its JSON shape, and the same as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from extender.printing.debug_documents import Document
from extender.printing.tables import Cell, Colour, Row, Screen, table
from extender.reasons import shown
from extender.verbs.fitting_classes import Fit


def fit_document(found: Sequence[Fit]) -> Document:
    return {
        "items": [
            {
                "class": each.runtime_class.name,
                "fits": each.fits,
                "nodes": each.nodes,
                "isolation": each.runtime_class.isolation,
                "overhead": dict(each.runtime_class.overhead),
                "reason": each.reason,
            }
            for each in found
        ]
    }


def fit_text(document: Mapping[str, Any], screen: Screen) -> str:
    items = document["items"]
    if not items:
        return "There is no RuntimeClass.\n"
    rows: list[Row] = [
        [
            shown(each["class"]),
            Cell("yes", Colour.GOOD) if each["fits"] else Cell("no", Colour.BAD),
            str(each["nodes"]),
            shown(each["isolation"]) or "-",
            _overhead(each["overhead"]),
            # Each word by itself: a reason that names many kinds of nodes is long.
            " ".join(map(shown, each["reason"].split(" "))),
        ]
        for each in items
    ]
    return table(screen, ("CLASS", "FITS", "NODES", "ISOLATION", "OVERHEAD", "REASON"), rows)


def _overhead(amounts: Mapping[str, str]) -> str:
    return (
        ", ".join(f"{shown(name)}={shown(text)}" for name, text in sorted(amounts.items())) or "-"
    )
