"""The benchmark: service, floor and plain version side by side in one run.

    make bench        or        python -m loadtest.bench --sizes 10,5000 --verbs filter

Prints a table; writes bench.json, bench.md and bench.png into loadtest/out/.
"""

import argparse
import contextlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from loadtest import arguments, tables
from loadtest.cases import HALF, NAMES, VERBS, Asker, Case, cases
from loadtest.comparing import Comparison, Result, requests_for
from loadtest.generator import Cluster, ClusterSpec
from loadtest.processes import (
    ServerError,
    floor_command,
    plain_command,
    running,
    serve_command,
)
from loadtest.progress import Progress

#: 500 and 3,250 are what kube-scheduler offers of 5,000 and 65,000 nodes.
SIZES: Final = (10, 100, 500, 1_000, 3_250, 5_000, 15_000, 65_000, 150_000)
NODES_SIZES: Final = (10, 1_000)

#: The plain version is asked that often less, but not less than this many times.
_PLAIN_SHARE: Final = 5
_PLAIN_LEAST: Final = 6

#: The tail is measured by itself, since p99 of a few hundred requests is a matter of luck.
TAIL_NODES: Final = 500
TAIL_REQUESTS: Final = 5_000
TAIL_LIMIT: Final = 3.0

_HEAD: Final = (
    "verb",
    "mode",
    "case",
    "nodes",
    "p50",
    "p99",
    "floor",
    "to floor",
    "limit",
    "plain",
    "plain/ours",
)

_SPENT_HEAD: Final = (
    "verb",
    "mode",
    "case",
    "nodes",
    "processor ms",
    "limit",
    "floor",
    "switches",
    "limit",
    "floor",
)

_MILLISECONDS: Final = "Milliseconds; of floor and plain version the p50."
_SPENT: Final = "What the server spends on a request: processor milliseconds, context switches."


def environment() -> dict[str, Any]:
    """What the figures depend on beside the code."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load": [round(each, 2) for each in os.getloadavg()],
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def environment_line() -> str:
    about = environment()
    return (
        f"Python {about['python']}, {about['machine']}, {about['cpus']} CPUs, "
        f"load {about['load'][0]}, {about['at']}"
    )


def row(result: Result) -> tuple[str, ...]:
    case, service = result.case, result.times["service"]
    limit = f"{case.limit:.1f}x" if case.limit else ""
    return (
        case.verb,
        case.mode,
        case.kind,
        f"{case.nodes:,}",
        tables.milliseconds(service.p50),
        tables.milliseconds(service.p99),
        tables.milliseconds(result.times["floor"].p50),
        tables.times(result.ratio("service", "floor")),
        limit,
        tables.milliseconds(result.times["plain"].p50),
        tables.times(result.ratio("plain", "service")),
    )


def spent_row(result: Result) -> tuple[str, ...]:
    case, service, floor = result.case, result.spent["service"], result.spent["floor"]
    return (
        case.verb,
        case.mode,
        case.kind,
        f"{case.nodes:,}",
        tables.processor(service.processor),
        f"{case.processor_limit:.2f}" if case.processor_limit else "",
        tables.processor(floor.processor),
        f"{service.switches:.1f}",
        f"{case.switches_limit:.0f}" if case.switches_limit else "",
        f"{floor.switches:.1f}",
    )


def over_limit(results: Sequence[Result], tail: Result | None) -> list[str]:
    """The cases that take or spend more than the limit says, a sentence each."""
    found = []
    for each in results:
        case, spent, ratio = each.case, each.spent["service"], each.ratio("service", "floor")
        if case.limit and ratio > case.limit:
            found.append(f"{case}: {ratio:.2f}x the floor, limit {case.limit}x")
        if case.processor_limit and spent.processor > case.processor_limit:
            took = f"{spent.processor:.3f} ms of processor time"
            found.append(f"{case}: {took}, limit {case.processor_limit} ms")
        # As the table shows it: the server also wakes by itself, some times a second.
        if case.switches_limit and round(spent.switches, 1) > case.switches_limit:
            took = f"{spent.switches:.1f} context switches"
            found.append(f"{case}: {took}, limit {case.switches_limit:.0f}")
    if tail and tail.times["service"].p99 > TAIL_LIMIT * tail.times["service"].p50:
        found.append(f"the tail: {tail_line(tail)}")
    return found


def tail_line(tail: Result) -> str:
    times, floor = tail.times["service"], tail.times["floor"]
    return (
        f"{times.requests:,} requests of {tail.case.nodes:,} names: p50 {times.p50:.2f} ms, "
        f"p99 {times.p99:.2f} ms, p99/p50 {times.p99 / times.p50:.2f} (limit {TAIL_LIMIT:.0f}); "
        f"floor {floor.p99 / floor.p50:.2f}"
    )


def as_json(result: Result) -> dict[str, Any]:
    return asdict(result) | {
        "to_floor": round(result.ratio("service", "floor"), 3),
        "plain_to_service": round(result.ratio("plain", "service"), 3),
        "limit": result.case.limit,
        "processor_limit": result.case.processor_limit,
        "switches_limit": result.case.switches_limit,
    }


def _flags(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser("bench", "Compare the service with the floor and the plain version.")
    arguments.add_sizes(parser, "--sizes", SIZES, "names asked about")
    arguments.add_sizes(parser, "--nodes-sizes", NODES_SIZES, "whole nodes, 10 KB each")
    parser.add_argument(
        "--verbs",
        type=arguments.one_of(VERBS),
        default=",".join(VERBS),
        metavar="VERB,VERB",
        help="which of them",
    )
    parser.add_argument(
        "--requests",
        type=arguments.at_least_one,
        metavar="N",
        help="per case (default: by size, 400 to 30)",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests, no tail")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--no-plot", action="store_true", help="do without matplotlib")
    for flag, help in (
        ("--shapes", "different shapes of nodes"),
        ("--runtimeclasses", "RuntimeClasses"),
    ):
        parser.add_argument(flag, type=arguments.at_least_one, default=20, metavar="N", help=help)
    arguments.add_out(parser)
    return parser.parse_args(argv)


def _requests(case: Case, flags: argparse.Namespace) -> tuple[int, int]:
    requests = flags.requests or requests_for(case.nodes, 0.1 if flags.quick else 1.0)
    return requests, max(min(requests, _PLAIN_LEAST), requests // _PLAIN_SHARE)


def measure(flags: argparse.Namespace, progress: Progress) -> tuple[list[Result], Result | None]:
    """Start the three servers and go through the cases. Raises ServerError, OSError, ValueError."""
    nodes = max([*flags.sizes, *flags.nodes_sizes, TAIL_NODES])
    cluster = Cluster(ClusterSpec(nodes, flags.shapes, flags.runtimeclasses))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        manifest = Path(folder) / "cluster.json"
        progress.say(f"writing a manifest of {nodes:,} nodes")
        cluster.write_manifest(manifest)
        servers = []
        for name, command in (
            ("service", serve_command(manifest)),
            ("floor", floor_command()),
            ("plain", plain_command(manifest)),
        ):
            progress.say(f"starting {name}")
            servers.append(stack.enter_context(running(name, command, flags.out)))
        comparison = Comparison(servers, stack)
        verbs: tuple[str, ...] = flags.verbs
        for verb in [verb for verb in verbs if not comparison.has_verb(verb)]:
            progress.note(f"the service answers 404 to {verb}: left out")
            verbs = tuple(each for each in verbs if each != verb)
        asker, results = Asker(cluster), []
        for case in cases(flags.sizes, flags.nodes_sizes, verbs):
            progress.say(str(case))
            results.append(comparison.measure(case, asker.bodies(case), *_requests(case, flags)))
        if flags.quick:
            return results, None
        progress.say(f"the tail: {TAIL_REQUESTS:,} requests")
        tail = Case("filter", NAMES, HALF, TAIL_NODES)
        return results, comparison.measure(tail, asker.bodies(tail), TAIL_REQUESTS, _PLAIN_LEAST)


def report(
    draw: Callable[[Sequence[tables.Row]], str], results: Sequence[Result], tail: Result | None
) -> list[str]:
    """The paragraphs and tables."""
    found = [_MILLISECONDS, draw([_HEAD, *map(row, results)])]
    found += [_SPENT, draw([_SPENT_HEAD, *map(spent_row, results)])]
    if tail:
        found.append(tail_line(tail))
    return found


def write(out: Path, results: Sequence[Result], tail: Result | None) -> None:
    document = {
        "environment": environment(),
        "results": [as_json(each) for each in results],
        "tail": as_json(tail) if tail else None,
    }
    (out / "bench.json").write_text(json.dumps(document, indent=1) + "\n")
    paragraphs = [*report(tables.markdown, results, tail), environment_line()]
    (out / "bench.md").write_text("\n\n".join(paragraphs) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    flags = _flags(argv)
    began = time.monotonic()
    with Progress() as progress:
        try:
            results, tail = measure(flags, progress)
        except (ServerError, OSError, ValueError) as error:
            progress.note(f"bench: {error}")
            return 1
    write(flags.out, results, tail)
    draw = tables.markdown if flags.markdown else tables.terminal
    print("\n\n".join(report(draw, results, tail)))
    print()
    for line in over_limit(results, tail):
        print(f"over its limit: {line}")
    print(f"{environment_line()}, {time.monotonic() - began:.0f} s; details in {flags.out}")
    if not flags.no_plot:
        from loadtest.plots import plot_bench

        plot_bench(results, flags.out / "bench.png")
    return 0


if __name__ == "__main__":
    arguments.end(main)
