"""What the extender costs kube-scheduler: pods a second, with and without, on a real control plane.

    make bench-scheduler        or        python -m loadtest.scheduler --rounds 3 --pods 1500

It needs etcd, kube-apiserver, kube-scheduler and kubectl in KUBEBUILDER_ASSETS. In each round all
configurations are tried in turn, in an order drawn anew, on the same cluster; shares are of the
first one in the same round. Prints a table; writes scheduler.json, .md and .png into loadtest/out/.
"""

import argparse
import contextlib
import json
import random
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from loadtest import arguments, tables
from loadtest.bench import environment, environment_line
from loadtest.generator import Cluster as MadeUp
from loadtest.generator import ClusterSpec
from loadtest.processes import START_SECONDS, ServerError, running
from loadtest.progress import Progress
from loadtest.scheduler_cases import ALL_NODES, NONE, Configuration, Kind, base_of, of_other, plan
from loadtest.scheduling import Bench, Extender, Run, as_json
from tests.e2e.cluster import cluster, free_ports, missing

NODES: Final = 5_000
PODS: Final = 1_500
#: Where kube-scheduler looks at all nodes for each pod it takes several times as long.
_ALL_NODES_SHARE: Final = 3
ROUNDS: Final = 3

#: --disable-admission-plugins: there are no controllers that make service accounts, or take the
#: taint off a new node.
_NO_CONTROLLERS: Final = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"

_POLL_SECONDS: Final = 0.05

_HEAD: Final = (
    "pods",
    "configuration",
    "pods/s",
    "share",
    "least",
    "mean ms",
    "kube ms",
    "ours ms",
    "requests",
    "hinted",
)

_ABOUT: Final = (
    "Medians of {rounds} rounds of {pods:,} pods on {nodes:,} nodes (percentageOfNodesToScore 100:"
    " {fewer:,} pods); share: of the pods a second of the same pods without an extender in the same"
    " round, with the least of all rounds. For a pod: kube-scheduler's mean time in scheduling,"
    " processor time of kube-scheduler and of the extender, requests to the service; hinted: the"
    " share of pods whose node OpportunisticBatching knew."
)

Results = dict[tuple[Kind, Configuration], list[Run]]


def shares(results: Results, kind: Kind, configuration: Configuration) -> list[float]:
    """Pods a second as a share of those without an extender, round by round."""
    own, base = results[kind, configuration], results[kind, base_of(configuration)]
    return [
        one.pods_per_second / other.pods_per_second for one, other in zip(own, base, strict=True)
    ]


def rows(results: Results) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [_HEAD]
    for (kind, configuration), runs in results.items():
        share = shares(results, kind, configuration)

        def middle(of: Callable[[Run], float], runs: list[Run] = runs) -> float:
            return median(map(of, runs))

        found.append(
            (
                kind.value,
                configuration.name,
                f"{middle(lambda run: run.pods_per_second):.0f}",
                f"{median(share):.2f}x",
                f"{min(share):.2f}x",
                f"{middle(lambda run: run.algorithm_ms):.2f}",
                f"{middle(lambda run: run.scheduler_ms):.2f}",
                f"{middle(lambda run: run.extender_ms):.2f}",
                f"{middle(lambda run: run.requests):.1f}",
                f"{middle(lambda run: run.hinted):.2f}",
            )
        )
    return found


def other(text: str) -> tuple[str, list[str]]:
    """NAME=COMMAND of another extender, of which the filter is asked."""
    name, _, command = text.partition("=")
    words = shlex.split(command)
    if not name or not words or "{port}" not in command:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COMMAND with {{port}} in it")
    return name, words


@contextlib.contextmanager
def started(name: str, command: Sequence[str], kubeconfig: str, out: Path) -> Iterator[Extender]:
    """Another extender, listening. Raises ServerError."""
    (port,) = free_ports(1)
    words = [each.format(kubeconfig=kubeconfig, port=port) for each in command]
    with (out / "logs" / f"scheduler-{name}.log").open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"{name} does not listen on port {port}: {words[0]}")
            time.sleep(_POLL_SECONDS)
        yield Extender(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _flags(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser("scheduler", "Measure what the extender costs kube-scheduler.")
    for flag, default, help in (
        ("--nodes", NODES, "of the cluster"),
        ("--pods", PODS, "scheduled at a time"),
        ("--rounds", ROUNDS, "of all configurations in turn"),
    ):
        parser.add_argument(
            flag, type=arguments.at_least_one, default=default, metavar="N", help=help
        )
    parser.add_argument(
        "--also",
        type=other,
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="another extender, started with {port} and {kubeconfig} put in; may be repeated",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a third of the pods, never all nodes for each"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--no-plot", action="store_true", help="do without matplotlib")
    arguments.add_out(parser)
    return parser.parse_args(argv)


def measure(flags: argparse.Namespace, progress: Progress) -> Results:
    """Raises ServerError, OSError, AssertionError."""
    tried = plan([of_other(name) for name, _ in flags.also], quick=flags.quick)
    results: Results = {each: [] for each in tried}
    made_up = MadeUp(ClusterSpec(flags.nodes))
    progress.say("starting etcd and kube-apiserver")
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(cluster(_NO_CONTROLLERS))
        kubeconfig = str(api.kubeconfig("extender"))
        program = str(Path(sys.executable).with_name("runtimeclass-extender"))
        command = [program, "serve", "--bind", "127.0.0.1:0", "--kubeconfig", kubeconfig]
        server = stack.enter_context(running("scheduler-bench", command, flags.out))
        others = {
            name: stack.enter_context(started(name, words, kubeconfig, flags.out))
            for name, words in flags.also
        }
        bench = Bench(api, server, others)
        for count in bench.add_nodes(made_up):
            if count % 500 == 0 or count == flags.nodes:
                progress.say(f"{count:,} of {flags.nodes:,} nodes")
        for number in range(flags.rounds):
            for place, (kind, configuration) in enumerate(random.sample(tried, len(tried)), 1):
                pods = _pods(flags, kind, configuration)
                progress.say(
                    f"round {number + 1} of {flags.rounds}, {place} of {len(tried)}:"
                    f" {configuration.name}, {pods:,} pods, {kind.value}"
                )
                results[kind, configuration].append(bench.run(configuration, kind, pods))
    return results


def _pods(flags: argparse.Namespace, kind: Kind, configuration: Configuration) -> int:
    pods: int = max(20, flags.pods // 3) if flags.quick else flags.pods
    if kind is Kind.ONE_A_NODE:
        # Some of the nodes have taints.
        return min(pods, int(flags.nodes) // 3)
    return max(20, pods // _ALL_NODES_SHARE) if configuration.all_nodes else pods


def report(
    draw: Callable[[Sequence[tables.Row]], str], results: Results, flags: argparse.Namespace
) -> list[str]:
    about = _ABOUT.format(
        rounds=flags.rounds,
        pods=_pods(flags, Kind.PLAIN, NONE),
        nodes=flags.nodes,
        fewer=_pods(flags, Kind.PLAIN, ALL_NODES[0]),
    )
    return [about, draw(rows(results))]


def write(out: Path, results: Results, flags: argparse.Namespace) -> None:
    document = {
        "environment": environment(),
        "nodes": flags.nodes,
        "pods": _pods(flags, Kind.PLAIN, NONE),
        "results": [
            {
                "pods": kind.value,
                "configuration": configuration.name,
                "runs": [as_json(run) for run in runs],
                "shares": [round(each, 3) for each in shares(results, kind, configuration)],
            }
            for (kind, configuration), runs in results.items()
        ],
    }
    (out / "scheduler.json").write_text(json.dumps(document, indent=1) + "\n")
    paragraphs = [*report(tables.markdown, results, flags), environment_line()]
    (out / "scheduler.md").write_text("\n\n".join(paragraphs) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    flags = _flags(argv)
    absent = missing()
    if absent:
        print(f"scheduler: nothing measured: {absent}", file=sys.stderr)
        return 1
    began = time.monotonic()
    with Progress() as progress:
        try:
            results = measure(flags, progress)
        except (ServerError, OSError, AssertionError) as error:
            progress.note(f"scheduler: {error}")
            return 1
    write(flags.out, results, flags)
    draw = tables.markdown if flags.markdown else tables.terminal
    print("\n\n".join(report(draw, results, flags)))
    print(f"\n{environment_line()}, {time.monotonic() - began:.0f} s; details in {flags.out}")
    if not flags.no_plot:
        from loadtest.plots import plot_scheduler

        bars = {
            f"{kind.value}: {configuration.name}": shares(results, kind, configuration)
            for kind, configuration in results
        }
        plot_scheduler(bars, flags.out / "scheduler.png")
    return 0


if __name__ == "__main__":
    arguments.end(main)
