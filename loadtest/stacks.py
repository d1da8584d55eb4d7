"""What servers in Python cost that all do the same: read the body, send an answer made before.

    make bench-stacks        or        python -m loadtest.stacks --sizes 10,500

The measurement behind decision 3. A server that closes connections which it has promised to keep is
not measured at that size. Prints a table; writes stacks.md into loadtest/out/.
"""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loadtest import arguments, tables
from loadtest.bench import environment_line
from loadtest.cases import HALF, NAMES, Asker, Bodies, Case
from loadtest.comparing import Alternation, requests_for
from loadtest.generator import Cluster, ClusterSpec
from loadtest.processes import Address, Server, ServerError, floor_command, running, serve_command
from loadtest.progress import Progress
from loadtest.timing import Client

SIZES: Final = (10, 500, 5_000, 65_000)

#: With what all others are compared.
FLOOR: Final = "floor"

_SERVICE: Final = "service"
_PREPARED: Final = (sys.executable, "-m", "loadtest.prepared", "--stack")

#: Each with the words for it; the service is there to be asked for the answers, and to compare.
_SERVERS: Final = {
    FLOOR: ("bare protocol, uvloop", floor_command()),
    "floor-asyncio": ("bare protocol, asyncio", [*floor_command(), "--loop", "asyncio"]),
    "own": ("our server", [*_PREPARED, "own"]),
    "uvicorn": ("uvicorn, ASGI", [*_PREPARED, "uvicorn"]),
    "gunicorn": ("gunicorn asgi, uvloop", [*_PREPARED, "gunicorn"]),
    "gunicorn-asyncio": ("gunicorn asgi, asyncio", [*_PREPARED, "gunicorn-asyncio"]),
}

_HEAD: Final = ("names", "server", "p50 ms", "p99 ms", "to floor", "processor ms", "switches")

_WORDS: Final = {name: words for name, (words, _) in _SERVERS.items()} | {
    _SERVICE: "the service itself"
}

#: Requests on one connection, before a server is measured.
_KEPT_REQUESTS: Final = 300

Rows = list[tuple[str, ...]]


def _measure(flags: argparse.Namespace, progress: Progress) -> Rows:
    """The table. Raises ServerError, OSError, ValueError."""
    cluster = Cluster(ClusterSpec(max(flags.sizes)))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        manifest = Path(folder) / "cluster.json"
        cluster.write_manifest(manifest)
        commands = {name: _SERVERS[name][1] for name in dict.fromkeys([FLOOR, *flags.servers])}
        commands[_SERVICE] = serve_command(manifest)
        servers = []
        for name, command in commands.items():
            progress.say(f"starting {name}")
            servers.append(stack.enter_context(running(name, command, flags.out)))
        asker = Asker(cluster)
        rows: Rows = [_HEAD]
        for size in flags.sizes:
            case = Case("filter", NAMES, HALF, size)
            progress.say(str(case))
            requests = flags.requests or requests_for(size, 0.1 if flags.quick else 1.0)
            rows += _of_case(servers, case, asker.bodies(case), requests)
        return rows


def _of_case(servers: Sequence[Server], case: Case, bodies: Bodies, requests: int) -> Rows:
    answer = _prepare(servers, case, next(bodies))
    sizes = {server.name: len(answer) for server in servers}
    able = [server for server in servers if keeps_connection(server.address, case, next(bodies))]
    with contextlib.ExitStack() as stack:
        turns = Alternation(able, stack)
        times = turns.measure(case, bodies, requests, sizes)
        rows: Rows = []
        for name, called in _WORDS.items():
            if name not in sizes:
                continue
            row = [f"{case.nodes:,}", called]
            if name in times:
                spent = turns.spent(name, case, bodies, requests, sizes)
                row += [
                    tables.milliseconds(times[name].p50),
                    tables.milliseconds(times[name].p99),
                    tables.times(times[name].p50 / times[FLOOR].p50),
                    tables.processor(spent.processor),
                    f"{spent.switches:.1f}",
                ]
            else:
                row += ["closes", "", "", "", ""]
            rows.append(tuple(row))
        return rows


def _prepare(servers: Sequence[Server], case: Case, body: bytes) -> bytes:
    """The service's answer, given to all others."""
    (service,) = (server for server in servers if server.name == _SERVICE)
    with Client(service.address) as client:
        answer = client.ask(case.verb, body)
    if answer.status != 200:
        raise ServerError(f"{case}: the service answered {answer.status}")
    for server in servers:
        if server is not service:
            with Client(server.address) as client:
                client.ask(case.verb, answer.body, "PUT")
    return answer.body


def keeps_connection(address: Address, case: Case, body: bytes) -> bool:
    """Whether a connection is kept alive over some requests of this size."""
    with Client(address) as client:
        try:
            for _ in range(_KEPT_REQUESTS):
                client.time(case.verb, body)
        except ConnectionError:
            return False
    return True


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments.parser("stacks", "Compare servers that answer with what was prepared.")
    arguments.add_sizes(parser, "--sizes", SIZES, "names asked about")
    parser.add_argument(
        "--servers",
        type=arguments.one_of(tuple(_SERVERS)),
        default=",".join(_SERVERS),
        metavar="NAME,NAME",
        help=f"which, {FLOOR} always; of {', '.join(_SERVERS)}",
    )
    parser.add_argument(
        "--requests",
        type=arguments.at_least_one,
        metavar="N",
        help="per size (default: by size, 400 to 30)",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    arguments.add_out(parser)
    flags = parser.parse_args(argv)
    with Progress() as progress:
        try:
            rows = _measure(flags, progress)
        except (ServerError, OSError, ValueError) as error:
            progress.note(f"stacks: {error}")
            return 1
    (flags.out / "stacks.md").write_text(f"{tables.markdown(rows)}\n\n{environment_line()}\n")
    print((tables.markdown if flags.markdown else tables.terminal)(rows))
    print(f"\n{environment_line()}")
    return 0


if __name__ == "__main__":
    arguments.end(main)
