"""How the filter's time grows: with names (linear), with everything else (flat).

    make bench-growth        or        python -m loadtest.growth

Each sweep starts one service per point and sends the same requests to all of them in turn, so
that what else the machine does hits all points alike. Half of the nodes are refused throughout.
Prints a table; writes growth.json, growth.md and growth.png into loadtest/out/.
"""

import argparse
import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from loadtest import arguments, tables
from loadtest.bench import environment, environment_line
from loadtest.cases import HALF, NAMES, Asker, Bodies, Case
from loadtest.changing import Editor, split_manifests
from loadtest.comparing import Alternation, Comparison, requests_for
from loadtest.generator import Cluster, ClusterSpec
from loadtest.processes import (
    Server,
    ServerError,
    floor_command,
    running,
    serve_command,
)
from loadtest.progress import Progress
from loadtest.timing import Times

ASKED: Final = 5_000
NAMES_SWEEP: Final = (10, 100, 1_000, 5_000, 15_000, 65_000, 150_000)
NODES_SWEEP: Final = (5_000, 15_000, 65_000, 150_000)
SHAPES_SWEEP: Final = (1, 2, 5, 50, 250, 1_000, 5_000)
CLASSES_SWEEP: Final = (1, 5, 50, 200, 1_000)

#: What the other points of a sweep are compared with.
_FEW: Final = 5

#: Edits to see, and requests after which it is over even without them.
_EDITS: Final = 5
_MOST_UNDER_EDITS: Final = 20_000

_HEAD: Final = ("what grows", "to", "p50 ms", "p99 ms", "compared with", "ratio", "limit")


@dataclass(frozen=True, slots=True)
class Point:
    """One line of the table."""

    sweep: str
    value: int
    times: Times
    compared_with: str
    ratio: float
    limit: float | None = None

    def row(self) -> tuple[str, ...]:
        return (
            self.sweep,
            f"{self.value:,}",
            tables.milliseconds(self.times.p50),
            tables.milliseconds(self.times.p99),
            self.compared_with,
            tables.times(self.ratio),
            f"{self.limit:.1f}x" if self.limit else "",
        )


class Sweeps:
    """The sweeps share the options. Each raises ServerError when an answer is not as expected."""

    def __init__(self, requests: int | None, quick: bool, out: Path, progress: Progress) -> None:
        self._requests = requests
        self._factor = 0.1 if quick else 1.0
        self._most = ASKED if quick else max(NAMES_SWEEP)
        self._out = out
        self._progress = progress

    def names(self) -> list[Point]:
        """Names asked about, of one large cluster; compared with the floor."""
        cluster = Cluster(ClusterSpec(self._most))
        with contextlib.ExitStack() as stack:
            service = stack.enter_context(self._service("service", cluster))
            floor = stack.enter_context(running("floor", floor_command(), self._out))
            comparison = Comparison([service, floor], stack)
            points, asker = [], Asker(cluster)
            for size in [size for size in NAMES_SWEEP if size <= self._most]:
                case = Case("filter", NAMES, HALF, size)
                self._progress.say(str(case))
                result = comparison.measure(case, asker.bodies(case), self._count(size), 1)
                times = result.times["service"]
                ratio = result.ratio("service", "floor")
                points.append(Point("number of names", size, times, "floor", ratio, case.limit))
            return points

    def nodes(self) -> list[Point]:
        sizes = [size for size in NODES_SWEEP if size <= self._most]
        return self._flat("nodes of the cluster", sizes, ASKED, lambda each: ClusterSpec(each))

    def shapes(self) -> list[Point]:
        return self._flat("shapes", SHAPES_SWEEP, _FEW, lambda each: ClusterSpec(ASKED, each))

    def runtime_classes(self) -> list[Point]:
        return self._flat(
            "RuntimeClasses", CLASSES_SWEEP, _FEW, lambda each: ClusterSpec(ASKED, 20, each)
        )

    def changing(self) -> list[Point]:
        """RuntimeClasses edited while requests run, beside a service that is left alone."""
        sweep, case = "edits under load", Case("filter", NAMES, HALF, ASKED)
        cluster = Cluster(ClusterSpec(ASKED))
        with contextlib.ExitStack() as stack:
            servers, folders = [], []
            for name in ("still", "changing"):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                split_manifests(cluster, folder)
                folders.append(folder)
                command = serve_command(folder)
                servers.append(stack.enter_context(running(name, command, self._out)))
            turns = Alternation(servers, stack)
            bodies = Asker(cluster).bodies(case)
            turns.measure(case, bodies, 1, {})
            self._progress.say(f"{case}, RuntimeClasses edited meanwhile")
            least = round(self._factor * 3_000)
            with Editor(folders[1], cluster, servers[1].address) as editor:
                enough = _until(bodies, least, lambda: editor.switches >= _EDITS)
                times = turns.measure(case, enough, _MOST_UNDER_EDITS, {})
            requests = times["changing"].requests
            self._progress.note(
                f"{editor.switches} edits took effect while {requests:,} requests were answered"
            )
        ratio = times["changing"].p50 / times["still"].p50
        return [
            Point(sweep, 0, times["still"], "no edits", 1.0),
            Point(sweep, editor.switches, times["changing"], "no edits", ratio),
        ]

    def _flat(
        self, sweep: str, values: Sequence[int], base: int, spec: Callable[[int], ClusterSpec]
    ) -> list[Point]:
        """The same names asked of clusters that differ in one thing; compared with one of them."""
        with contextlib.ExitStack() as stack:
            servers, names = [], {}
            for value in values:
                self._progress.say(f"{sweep}: starting a service with {value:,}")
                cluster = Cluster(spec(value))
                name = f"{sweep.split()[0]}-{value}"
                names[value] = name
                servers.append(stack.enter_context(self._service(name, cluster)))
            case = Case("filter", NAMES, HALF, ASKED)
            # Names depend on the number of a node alone, so one cluster's are all clusters'.
            bodies = Asker(Cluster(spec(base))).bodies(case)
            self._progress.say(f"{sweep}: {case}")
            times = Alternation(servers, stack).measure(case, bodies, self._count(ASKED), {})
        of_base = times[names[base]].p50
        return [
            Point(
                sweep,
                value,
                times[names[value]],
                f"{base:,}",
                times[names[value]].p50 / of_base,
                1.2 if value > base else None,
            )
            for value in values
        ]

    @contextlib.contextmanager
    def _service(self, name: str, cluster: Cluster) -> Iterator[Server]:
        """The service on a cluster; the manifest is gone once it has been read."""
        with tempfile.TemporaryDirectory() as folder:
            manifest = Path(folder) / "cluster.json"
            cluster.write_manifest(manifest)
            with running(name, serve_command(manifest), self._out) as server:
                yield server

    def _count(self, nodes: int) -> int:
        return self._requests or requests_for(nodes, self._factor)


def _until(bodies: Bodies, least: int, done: Callable[[], bool]) -> Bodies:
    """The bodies up to the moment when it is done, but at least so many."""
    for number, body in enumerate(bodies):
        if number >= least and done():
            return
        yield body


def _flags(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser("growth", "Measure how the filter's time grows.")
    parser.add_argument(
        "--requests",
        type=arguments.at_least_one,
        metavar="N",
        help="per point (default: by size, 400 to 30)",
    )
    parser.add_argument("--quick", action="store_true", help="fewer requests, 5,000 names at most")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--no-plot", action="store_true", help="do without matplotlib")
    arguments.add_out(parser)
    return parser.parse_args(argv)


def _plot(points: Sequence[Point], path: Path) -> None:
    from loadtest.plots import plot_growth

    panels: dict[str, list[tuple[float, float]]] = {}
    for each in points:
        if each.sweep != "edits under load":
            panels.setdefault(each.sweep, []).append((each.value, each.times.p50))
    plot_growth(
        [(f"filter: {sweep}", sweep, {"service": found}) for sweep, found in panels.items()], path
    )


def main(argv: Sequence[str] | None = None) -> int:
    flags = _flags(argv)
    points: list[Point] = []
    with Progress() as progress:
        sweeps = Sweeps(flags.requests, flags.quick, flags.out, progress)
        try:
            for sweep in (
                sweeps.names,
                sweeps.nodes,
                sweeps.shapes,
                sweeps.runtime_classes,
                sweeps.changing,
            ):
                points += sweep()
        except (ServerError, OSError) as error:
            progress.note(f"growth: {error}")
            return 1
    rows = [_HEAD, *(point.row() for point in points)]
    document = {"environment": environment(), "points": [asdict(point) for point in points]}
    (flags.out / "growth.json").write_text(json.dumps(document, indent=1) + "\n")
    (flags.out / "growth.md").write_text(f"{tables.markdown(rows)}\n\n{environment_line()}\n")
    print((tables.markdown if flags.markdown else tables.terminal)(rows))
    for point in points:
        if point.limit and point.ratio > point.limit:
            what = f"{point.sweep} {point.value:,}: {point.ratio:.2f}x {point.compared_with}"
            print(f"over its limit: {what}, limit {point.limit}x")
    if not flags.no_plot:
        _plot(points, flags.out / "growth.png")
    return 0


if __name__ == "__main__":
    arguments.end(main)
