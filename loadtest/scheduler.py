"""The extender's cost for kube-scheduler: pods a second with and without it, on a control plane.

    make bench-scheduler        or        python -m loadtest.scheduler --rounds 3 --pods 1500

It needs etcd, kube-apiserver, kube-scheduler and kubectl in KUBEBUILDER_ASSETS. In each round all
configurations run in a random order on the same cluster; shares are relative to the configuration
without an extender in the same round. Prints a table; writes scheduler.md into loadtest/out/. With
--other each row is also run with the service of another checkout, and nothing is written.
"""

import argparse
import contextlib
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Final

from loadtest import arguments
from loadtest.arguments import say
from loadtest.generator import Cluster as MadeUp
from loadtest.generator import ClusterSpec
from loadtest.judging import Limit, environment_line, exit_code, lines
from loadtest.processes import ServerError, running
from loadtest.processes import program as own_program
from loadtest.scheduler_cases import (
    ALL_NODES,
    NONE,
    OTHER,
    SERVICE,
    UNPLACED,
    Configuration,
    Kind,
    base_of,
    of_other,
    plan,
)
from loadtest.scheduling import Bench, Run
from loadtest.tables import table
from tests.e2e.cluster import cluster, missing

NODES: Final = 5_000
PODS: Final = 1_500
#: The divisor of the pods where kube-scheduler looks at all nodes: it takes several times as long.
_ALL_NODES_SHARE: Final = 3
ROUNDS: Final = 3

#: No controllers create service accounts or remove the taint of a new node. Pods of
#: Kind.WITH_CLASS already have the fields that the plugin RuntimeClass adds.
_NO_CONTROLLERS: Final = (
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,RuntimeClass"
)

#: The least pods a second of the service, as a multiple of the other's.
LEAST_OF_OTHER: Final = 0.97

_HEAD: Final = (
    *("pods", "configuration", "pods/s", "share", "least"),
    *("mean ms", "kube ms", "ours ms", "requests", "hinted"),
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
        share, middle = (
            shares(results, kind, configuration),
            Run(*map(median, zip(*runs, strict=True))),
        )
        found.append(
            (
                kind.value,
                configuration.name,
                f"{middle.pods_per_second:.0f}",
                f"{median(share):.2f}x",
                f"{min(share):.2f}x",
                f"{middle.algorithm_ms:.2f}",
                f"{middle.scheduler_ms:.2f}",
                f"{middle.extender_ms:.2f}",
                f"{middle.requests:.1f}",
                f"{middle.hinted:.2f}",
            )
        )
    return found


def against_other(results: Results) -> Iterator[Limit]:
    """For each row of both extenders the ratio of pods a second, the median of all rounds.

    Equal rows of one run differ by 5 %. The mean of all rows is ten times as certain.
    """
    every: list[float] = []
    for (kind, configuration), runs in results.items():
        others = results.get((kind, of_other(configuration)), [])
        if others and configuration.extender != OTHER:
            ratios = [
                one.pods_per_second / other.pods_per_second
                for one, other in zip(runs, others, strict=True)
            ]
            every += ratios
            ratio = median(ratios)
            text = f"{kind.value}, {configuration.name}: {ratio:.3f}x the pods a second of --other"
            yield Limit(f"{text}, at least {LEAST_OF_OTHER:g}x", ratio >= LEAST_OF_OTHER)
    if len(every) > 1:
        error = stdev(every) / math.sqrt(len(every))
        text = f"all rows: {fmean(every):.3f}x, standard error {error:.3f}"
        yield Limit(f"{text}, at least {LEAST_OF_OTHER:g}x", fmean(every) >= LEAST_OF_OTHER)


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
        "--other",
        type=Path,
        metavar="PROGRAM",
        help="runtimeclass-extender of another checkout: each row is tried with both in turn",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a third of the pods, the first two kinds of rows"
    )
    return parser.parse_args(argv)


def measure(flags: argparse.Namespace) -> Results:
    """Raises ServerError, OSError, AssertionError."""
    # Runs with the two extenders follow one another: that makes the best comparison.
    groups = [
        [(kind, each), (kind, of_other(each))]
        if flags.other and each.verbs and each.extender == SERVICE
        else [(kind, each)]
        for kind, each in plan(quick=flags.quick)
    ]
    results: Results = {each: [] for group in groups for each in group}
    made_up = MadeUp(ClusterSpec(flags.nodes))
    say("starting etcd and kube-apiserver")
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(cluster(_NO_CONTROLLERS))
        kubeconfig = str(api.kubeconfig("extender"))
        serve = ["serve", "--bind", "127.0.0.1:0", "--kubeconfig", kubeconfig]
        commands = {
            SERVICE: [own_program(), *serve],
            UNPLACED: [own_program(), *serve, "--reasons=unplaced"],
            **({OTHER: [str(flags.other.absolute()), *serve]} if flags.other else {}),
        }
        servers = {}
        for name, command in commands.items():
            servers[name] = stack.enter_context(running(f"scheduler-{name}", command, flags.out))
        bench = Bench(api, servers)
        for count in bench.add_nodes(made_up):
            if count % 500 == 0 or count == flags.nodes:
                say(f"{count:,} of {flags.nodes:,} nodes")
        for number in range(flags.rounds):
            for place, group in enumerate(random.sample(groups, len(groups)), 1):
                for kind, configuration in random.sample(group, len(group)):
                    pods = _pods(flags, kind, configuration)
                    say(
                        f"round {number + 1} of {flags.rounds}, {place} of {len(groups)}:"
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


def report(results: Results, flags: argparse.Namespace) -> str:
    about = _ABOUT.format(
        rounds=flags.rounds,
        pods=_pods(flags, Kind.PLAIN, NONE),
        nodes=flags.nodes,
        fewer=_pods(flags, Kind.PLAIN, ALL_NODES[0]),
    )
    return "\n\n".join([about, table(rows(results)), environment_line()])


def main(argv: Sequence[str] | None = None) -> int:
    flags = _flags(argv)
    absent = missing()
    if absent:
        say(f"scheduler: nothing measured: {absent}")
        return 1
    try:
        results = measure(flags)
    except (ServerError, OSError, AssertionError) as error:
        say(f"scheduler: {error}")
        return 1
    written = report(results, flags)
    if not flags.other:
        (flags.out / "scheduler.md").write_text(f"{written}\n")
    limits = list(against_other(results))
    print("\n\n".join([written, *lines(limits)]))
    return exit_code(limits)


if __name__ == "__main__":
    arguments.end(main)
