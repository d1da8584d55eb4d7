"""The plots of the benchmarks; the only module that needs matplotlib, besides the locust run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import matplotlib

from loadtest.comparing import Result
from loadtest.processes import Usage

matplotlib.use("Agg")

from matplotlib import pyplot

_COLOURS: Final = {"service": "#1f77b4", "floor": "#2ca02c", "plain": "#d62728"}
_DOTS_PER_INCH: Final = 110

#: Series of a plot: label → points.
Series = Mapping[str, Sequence[tuple[float, float]]]


def _draw(axes: Any, series: Series, title: str, labels: tuple[str, str], *, logs: str) -> None:
    for label, points in series.items():
        xs, ys = zip(*sorted(points), strict=True)
        axes.plot(xs, ys, marker="o", markersize=4, label=label, color=_COLOURS.get(label))
    if "x" in logs:
        axes.set_xscale("log")
    if "y" in logs:
        axes.set_yscale("log")
    else:
        highest = max((y for points in series.values() for _, y in points), default=1.0)
        axes.set_ylim(0, 1.15 * highest or 1.0)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=_DOTS_PER_INCH)
    pyplot.close(figure)


def plot_bench(results: Sequence[Result], path: Path) -> None:
    """p50 against the number of names, a panel per verb and case."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for each in results:
        panel = panels.setdefault(f"{each.case.verb}, {each.case.mode}, {each.case.kind}", {})
        for server, times in each.times.items():
            panel.setdefault(server, []).append((each.case.nodes, times.p50))
    columns = 2
    rows = max(1, -(-len(panels) // columns))
    figure, grid = pyplot.subplots(rows, columns, figsize=(10, 3.4 * rows), squeeze=False)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, series) in zip(grid.flat, panels.items(), strict=False):
        _draw(axes, series, title, ("nodes asked about", "p50, ms"), logs="xy")
    _save(figure, path)


def plot_growth(panels: Sequence[tuple[str, str, Series]], path: Path) -> None:
    """A panel per (title, label of x, series); times from zero, so that flat looks flat."""
    columns = 2
    rows = max(1, -(-len(panels) // columns))
    figure, grid = pyplot.subplots(rows, columns, figsize=(10, 3.4 * rows), squeeze=False)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, label, series) in zip(grid.flat, panels, strict=False):
        logs = "xy" if "number of names" in title else "x"
        _draw(axes, series, title, (label, "p50, ms"), logs=logs)
    _save(figure, path)


def plot_usage(samples: Sequence[tuple[float, Usage]], path: Path) -> None:
    """What the worker held over the run: memory; threads and descriptors."""
    figure, (memory, counts) = pyplot.subplots(1, 2, figsize=(10, 3.4))
    rss = [(at, usage.rss / 2**20) for at, usage in samples]
    _draw(memory, {"RSS": rss}, "memory of the worker", ("seconds", "MiB"), logs="")
    held = {
        "threads": [(at, float(usage.threads)) for at, usage in samples],
        "descriptors": [(at, float(usage.descriptors)) for at, usage in samples],
    }
    _draw(counts, held, "held by the worker", ("seconds", "number"), logs="")
    for axes in (memory, counts):
        for line in axes.get_lines():
            line.set_marker("")
    _save(figure, path)


def plot_scheduler(shares: Mapping[str, Sequence[float]], path: Path) -> None:
    """A bar for each configuration: its median share, with the least and most of all rounds."""
    labels = list(shares)[::-1]
    middles = [median(shares[label]) for label in labels]
    spans = [
        [middle - min(shares[label]) for label, middle in zip(labels, middles, strict=True)],
        [max(shares[label]) - middle for label, middle in zip(labels, middles, strict=True)],
    ]
    figure, axes = pyplot.subplots(figsize=(10, 0.8 + 0.3 * len(labels)))
    axes.barh(labels, middles, xerr=spans, color=_COLOURS["service"], ecolor="#888888")
    axes.axvline(1.0, color=_COLOURS["floor"], linewidth=1)
    axes.set_xlabel("pods a second, as a share of those without an extender")
    axes.grid(alpha=0.3, axis="x")
    _save(figure, path)
