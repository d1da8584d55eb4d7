"""One panel of a plot, apart from what draws it: not every environment has matplotlib."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Series of a plot: label → points.
Series = Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Panel:
    """labels: of x and of y. logs: which of the axes are logarithmic; others begin at zero."""

    title: str
    labels: tuple[str, str]
    series: Series
    logs: str = ""
