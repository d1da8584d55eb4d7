"""What a large cluster costs: start-up, memory, and the filter right after it.

make bench-start        or        python -m loadtest.start --nodes 65000
"""

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loadtest import arguments, tables
from loadtest.bench import environment_line
from loadtest.cases import HALF, NAMES, NO_CLASS, Asker, Case
from loadtest.comparing import Alternation, requests_for
from loadtest.generator import Cluster, add_cluster_flags, cluster_of
from loadtest.processes import Server, ServerError, Usage, running, serve_command
from loadtest.progress import Progress

SIZES: Final = (10, 5_000, 65_000)

Rows = list[tuple[str, ...]]


def _measure(
    cluster: Cluster, requests: int | None, out: Path, progress: Progress
) -> tuple[Rows, Rows]:
    """(what starting costs, what requests cost). Raises ServerError, OSError."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        manifest = Path(folder) / "cluster.json"
        progress.say(f"writing a manifest of {cluster.spec.nodes:,} nodes")
        cluster.write_manifest(manifest)
        size = manifest.stat().st_size
        progress.say("starting the service")
        server = stack.enter_context(running("service", serve_command(manifest), out))
        master, fresh = Usage.of(server.process.pid), Usage.of(server.worker)
        latencies = _latencies(cluster, server, requests, progress, stack)
        after = Usage.of(server.worker)
    about: Rows = [
        ("what", "value"),
        ("nodes", f"{cluster.spec.nodes:,}"),
        ("manifest, MiB", tables.mebibytes(size)),
        ("start-up until ready, s", f"{server.started_in:.2f}"),
        ("RSS of the worker once ready, MiB", tables.mebibytes(fresh.rss)),
        ("RSS of the worker after the requests, MiB", tables.mebibytes(after.rss)),
        ("RSS of the master, MiB", tables.mebibytes(master.rss)),
    ]
    return about, latencies


def _latencies(
    cluster: Cluster,
    server: Server,
    requests: int | None,
    progress: Progress,
    stack: contextlib.ExitStack,
) -> Rows:
    asker, turns = Asker(cluster), Alternation([server], stack)
    rows: Rows = [("filter", "names", "requests", "p50 ms", "p99 ms")]
    for kind in (HALF, NO_CLASS):
        for size in [size for size in SIZES if size <= cluster.spec.nodes]:
            case = Case("filter", NAMES, kind, size)
            progress.say(str(case))
            count = requests or requests_for(size)
            times = turns.measure(case, asker.bodies(case), count, {})["service"]
            found = (tables.milliseconds(times.p50), tables.milliseconds(times.p99))
            rows.append((kind, f"{size:,}", str(times.requests), *found))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments.parser(
        "start", "Measure start-up, memory and the first requests on a large cluster."
    )
    add_cluster_flags(parser, 65_000)
    parser.add_argument(
        "--requests",
        type=arguments.at_least_one,
        metavar="N",
        help="per size (default: by size, 400 to 30)",
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    arguments.add_out(parser)
    flags = parser.parse_args(argv)
    with Progress() as progress:
        try:
            found = _measure(cluster_of(flags), flags.requests, flags.out, progress)
        except (ServerError, OSError, ValueError) as error:
            progress.note(f"start: {error}")
            return 1
    draw = tables.markdown if flags.markdown else tables.terminal
    written = [*map(tables.markdown, found), environment_line()]
    (flags.out / "start.md").write_text("\n\n".join(written) + "\n")
    print("\n\n".join([*map(draw, found), environment_line()]))
    return 0


if __name__ == "__main__":
    arguments.end(main)
