"""The plots of the benchmarks; the only module that needs matplotlib, besides the locust run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import matplotlib

from loadtest.comparing import Result
from loadtest.panels import Panel, Series
from loadtest.processes import Usage

matplotlib.use("Agg")

from matplotlib import pyplot

_COLOURS: Final = {"service": "#1f77b4", "floor": "#2ca02c", "plain": "#d62728"}
_DOTS_PER_INCH: Final = 110

_COLUMNS: Final = 2


def _draw(axes: Any, panel: Panel) -> None:
    series, logs = panel.series, panel.logs
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
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.labels[0])
    axes.set_ylabel(panel.labels[1])
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=_DOTS_PER_INCH)
    pyplot.close(figure)


def plot_panels(panels: Sequence[Panel], path: Path) -> None:
    """Two panels a row."""
    rows = max(1, -(-len(panels) // _COLUMNS))
    figure, grid = pyplot.subplots(rows, _COLUMNS, figsize=(10, 3.4 * rows), squeeze=False)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        _draw(axes, panel)
    _save(figure, path)


def plot_bench(results: Sequence[Result], path: Path) -> None:
    """p50 against the number of names, a panel per verb and case."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for each in results:
        panel = panels.setdefault(f"{each.case.verb}, {each.case.mode}, {each.case.kind}", {})
        for server, times in each.times.items():
            panel.setdefault(server, []).append((each.case.nodes, times.p50))
    labels = ("nodes asked about", "p50, ms")
    plot_panels([Panel(title, labels, series, "xy") for title, series in panels.items()], path)


def plot_growth(panels: Sequence[tuple[str, str, Series]], path: Path) -> None:
    """A panel per (title, label of x, series); times from zero, so that flat looks flat."""
    plot_panels(
        [
            Panel(title, (label, "p50, ms"), series, "xy" if "number of names" in title else "x")
            for title, label, series in panels
        ],
        path,
    )


def plot_usage(samples: Sequence[tuple[float, Usage]], path: Path) -> None:
    """What the worker held over the run: memory; threads and descriptors."""
    figure, (memory, counts) = pyplot.subplots(1, 2, figsize=(10, 3.4))
    rss = [(at, usage.rss / 2**20) for at, usage in samples]
    _draw(memory, Panel("memory of the worker", ("seconds", "MiB"), {"RSS": rss}))
    held = {
        "threads": [(at, float(usage.threads)) for at, usage in samples],
        "descriptors": [(at, float(usage.descriptors)) for at, usage in samples],
    }
    _draw(counts, Panel("held by the worker", ("seconds", "number"), held))
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
