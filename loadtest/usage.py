"""What the commands cost that look at every pod, and serve --watch-pods.

make bench-usage        or        python -m loadtest.usage --nodes 5000 --pods 100000
"""

import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Final

from loadtest import arguments, tables
from loadtest.apiserver import ApiServer, apiserver
from loadtest.generator import HALF_CLASS, add_cluster_flags, cluster_of
from loadtest.live import kubeconfig
from loadtest.processes import Server, ServerError, Usage, program, running
from loadtest.progress import Progress

COMMANDS: Final = (
    ("pods",),
    ("pods", "--stranded"),
    ("pods", "--pending"),
    ("classes", "--by-pool"),
    ("can-delete", HALF_CLASS),
    ("rollout", HALF_CLASS, "kata"),
)
SCRAPES: Final = 20
COUNTED_SECONDS: Final = 300.0

Rows = list[tuple[str, ...]]


def _commands(config: str, api: ApiServer, progress: Progress) -> Rows:
    rows: Rows = [("command", "seconds", "CPU, s", "peak RSS, MiB", "requests", "read, MiB")]
    for words in COMMANDS:
        progress.say(" ".join(words))
        before, began = api.counts(), time.monotonic()
        with tempfile.TemporaryFile() as output:
            command = [program(), *words, "--kubeconfig", config]
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.stderr is not None
            said = process.stderr.read().decode()
            process.stderr.close()
        if process.returncode not in (0, 1):
            raise ServerError(f"{' '.join(words)}: {said}")
        seconds, after = time.monotonic() - began, api.counts()
        rows.append(
            (
                " ".join(words),
                f"{seconds:.1f}",
                f"{used.ru_utime + used.ru_stime:.1f}",
                tables.mebibytes(used.ru_maxrss * 1024),
                f"{after.requests - before.requests:,}",
                tables.mebibytes(after.sent - before.sent),
            )
        )
    return rows


def scrape(server: Server) -> tuple[float, bool]:
    """Milliseconds of a scrape, and whether pods are counted in it."""
    connection = http.client.HTTPConnection(*server.address, timeout=60)
    began = time.perf_counter()
    connection.request("GET", "/metrics")
    text = connection.getresponse().read()
    took = 1000 * (time.perf_counter() - began)
    connection.close()
    return took, b"runtimeclass_extender_pods{" in text


def _watching(config: str, progress: Progress) -> Rows:
    rows: Rows = [("serve", "complete after, s", "RSS, MiB", "scrape p50, ms", "largest, ms")]
    for name, flags in (("without --watch-pods", ()), ("with --watch-pods", ("--watch-pods",))):
        progress.say(f"serve {name}")
        command = [program(), "serve", "--bind", "127.0.0.1:0", "--kubeconfig", config, *flags]
        with running(f"usage-{len(flags)}", command) as server:
            began = time.monotonic() - server.started_in
            while flags and not scrape(server)[1]:
                if time.monotonic() - began > COUNTED_SECONDS:
                    raise ServerError("pods are not counted in time")
                time.sleep(0.05)
            complete = time.monotonic() - began
            took = sorted(scrape(server)[0] for _ in range(SCRAPES))
            rss = Usage.of(server.worker).rss
        rows.append(
            (
                name,
                f"{complete:.1f}",
                tables.mebibytes(rss),
                tables.milliseconds(took[len(took) // 2]),
                tables.milliseconds(took[-1]),
            )
        )
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments.parser("usage", "Measure what it costs to look at every pod of a cluster.")
    add_cluster_flags(parser, nodes=5_000)
    parser.add_argument(
        "--pods", type=arguments.at_least_one, default=100_000, metavar="N", help="pods there are"
    )
    flags = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as folder, Progress() as progress:
            progress.say(f"encoding {flags.nodes:,} nodes of 10 KB")
            with apiserver(cluster_of(flags), flags.pods) as api:
                config = kubeconfig(folder, api)
                commands = _commands(config, api, progress)
                watching = _watching(config, progress)
    except (ServerError, OSError, ValueError) as error:
        print(f"python -m loadtest.usage: {error}", file=sys.stderr)
        return 1
    print("\n\n".join([tables.terminal(commands), tables.terminal(watching)]))
    return 0


if __name__ == "__main__":
    arguments.end(main)
