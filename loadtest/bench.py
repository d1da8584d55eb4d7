"""The cost of a request beside that of a bare uvicorn application with the same bytes (the floor).

    make bench        or        python -m loadtest.bench --sizes 10,5000

Prints a table and a verdict for each limit; writes bench.md into loadtest/out/. Exit code 1 when a
limit is broken.
"""

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from loadtest import arguments
from loadtest.arguments import say
from loadtest.cases import FLOOR_LIMITS, NAMES, NODES, REVIEWS, SIZES, Asker, Case, cases
from loadtest.comparing import FLOOR, SERVICE, Comparison, Result
from loadtest.generator import Cluster, ClusterSpec
from loadtest.judging import Limit, told
from loadtest.processes import ServerError, command, floor_command, running
from loadtest.tables import milliseconds, table

#: Enough requests for a p99 that does not depend on a few of them.
_REQUESTS: Final = 1_000
_LEAST_REQUESTS: Final = 100
_NAMES_A_SERIES: Final = 2_000_000
_QUICK_SHARE: Final = 10

#: The limit of p99, as a multiple of p50.
TAIL_LIMIT: Final = 3.0

#: The indent of the cases that broke a limit, below the line of the limit.
_INDENT: Final = " " * 10

_HEAD: Final = (
    *("verb", "case", "nodes", "p50 ms", "p99 ms", "p99/p50", "floor", "to floor", "limit"),
)

_ABOUT: Final = "One client, one connection; service and floor are asked in turn. floor: its p50."


def row(result: Result) -> tuple[str, ...]:
    case, service, floor = result.case, result.times[SERVICE], result.times[FLOOR]
    limit = f"{case.floor_limit:.1f}x" if case.floor_limit else ""
    return (
        case.verb,
        case.kind if case.mode == NAMES else case.mode,
        f"{case.nodes:,}",
        milliseconds(service.p50),
        milliseconds(service.p99),
        f"{result.tail(SERVICE):.1f}",
        milliseconds(floor.p50),
        f"{result.to_floor:.2f}x",
        limit,
    )


def limits(results: Sequence[Result]) -> Iterator[Limit]:
    """The limits for which something was measured."""
    for most in sorted(set(FLOOR_LIMITS.values())):
        held = [each for each in results if each.case.floor_limit == most]
        sizes = ", ".join(f"{size:,}" for size in sorted({each.case.nodes for each in held}))
        broken = [
            f"\n{_INDENT}{each.case}: {each.to_floor:.2f}x" for each in held if each.to_floor > most
        ]
        if held:
            text = f"at most {most:.1f}x the floor at {sizes} names{''.join(broken)}"
            yield Limit(text, not broken)
    broken = [
        f"\n{_INDENT}{each.case}: {each.tail(SERVICE):.1f}x, floor {each.tail(FLOOR):.1f}x"
        for each in results
        if each.tail(SERVICE) > TAIL_LIMIT
    ]
    yield Limit(f"p99 at most {TAIL_LIMIT:.0f}x p50{''.join(broken)}", not broken)


def _requests(case: Case, flags: argparse.Namespace) -> int:
    # A whole Node has the size of 300 names.
    names = case.nodes * (300 if case.mode == NODES else 1)
    by_size = max(_LEAST_REQUESTS, min(_REQUESTS, _NAMES_A_SERIES // names))
    wanted: int = flags.requests or by_size
    return max(3, wanted // _QUICK_SHARE) if flags.quick else wanted


def measure(flags: argparse.Namespace) -> list[Result]:
    """Start the servers and go through the cases. Raises ServerError, OSError, ValueError."""
    asked = cases(flags.sizes)
    cluster = Cluster(ClusterSpec(max(case.nodes for case in asked), 20, 20))
    asker = Asker(cluster)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "cluster.json"
        say(f"writing a manifest of {cluster.spec.nodes:,} nodes")
        cluster.write_manifest(manifest)
        for name, listed in (("serve", asked), ("webhook", REVIEWS)):
            with contextlib.ExitStack() as stack:
                say(f"starting {name}")
                server = stack.enter_context(running(name, command(name, manifest), flags.out))
                floor = stack.enter_context(running("floor", floor_command(), flags.out))
                comparison = Comparison(server, floor, stack)
                for case in listed:
                    say(str(case))
                    requests = _requests(case, flags)
                    results.append(comparison.measure(case, asker.bodies(case), requests))
    return results


def _flags(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser("bench", "Compare the service with a bare uvicorn application.")
    arguments.add_sizes(parser, SIZES, "names asked about")
    parser.add_argument(
        "--requests",
        type=arguments.at_least_one,
        metavar="N",
        help="of each case (default: by size, 1,000 to 100)",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    flags = _flags(argv)
    try:
        results = measure(flags)
    except (ServerError, OSError, ValueError) as error:
        say(f"bench: {error}")
        return 1
    parts = [_ABOUT, table([_HEAD, *map(row, results)])]
    return told(flags.out, "bench", parts, list(limits(results)))


if __name__ == "__main__":
    arguments.end(main)
