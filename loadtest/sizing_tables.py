"""What make bench-sizing has measured, as tables, and held against the shipped manifests."""

import math
from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Final

from loadtest.panels import Panel
from loadtest.shipped import shipped
from loadtest.sizing_model import Run
from loadtest.tables import Row, mebibytes, milliseconds
from loadtest.webhook_limit import LIMIT_MS, Limit, Step

REPLICAS: Final = (1, 2, 3)

_WIDTH: Final = 100

Draw = Callable[[Sequence[Row]], str]

_WORDS: Final = {"shipped": "as shipped", "watch-pods": "--watch-pods"}

#: A request is rounded up to these; and is not under what is needed to start at all.
_CPU_STEP: Final = 50
_MEMORY_STEP: Final = 32
_LEAST_CPU: Final = 100
_LEAST_MEMORY: Final = 128
SPARE: Final = 1.25


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _up(value: float, step: int) -> int:
    return step * math.ceil(value / step)


def cpu_request(run: Run) -> int:
    """Thousandths of a core: what it takes while it is asked."""
    return max(_LEAST_CPU, _up(1000 * run.asked, _CPU_STEP))


def memory_request(run: Run) -> int:
    """MiB: what it holds, and a quarter."""
    return max(_LEAST_MEMORY, _up(SPARE * run.memory / 2**20, _MEMORY_STEP))


def memory_limit(run: Run, shipped_alike: Run) -> int:
    """MiB: the shipped limit, which bodies at the limit decide, and what followed pods add."""
    more = max(0, run.memory - shipped_alike.memory) / 2**20
    shipped_limit = shipped("limits", "memory", review=False) // 2**20
    return shipped_limit + _MEMORY_STEP * round(more / _MEMORY_STEP)


def _service(run: Run) -> Row:
    return (
        f"{run.load.nodes:,}",
        _WORDS[run.mode],
        f"{run.complete:.1f}",
        f"{run.start_processor:.1f}",
        _percent(run.following),
        _percent(run.asked),
        mebibytes(run.memory),
        mebibytes(run.peak),
        milliseconds(run.filter_p50),
        milliseconds(run.filter_p99),
    )


def _load(run: Run) -> Row:
    load = run.load
    return (
        f"{load.nodes:,}",
        f"{load.node_updates:.1f}",
        f"{load.pods:,}",
        f"{load.pods_a_second}",
        f"{load.offered:,}",
        f"{load.pod_events:.0f}",
    )


def _api(run: Run) -> Row:
    return (
        f"{run.load.nodes:,}",
        _WORDS[run.mode],
        *(
            f"{each * run.watches} / {each * run.requests_an_hour:.0f}"
            f" / {each * run.bytes_a_second / 1024:,.0f}"
            for each in REPLICAS
        ),
        f"{run.start_requests}",
        mebibytes(run.start_bytes),
    )


def _resources(run: Run, alike: Run) -> Row:
    return (
        f"{run.load.nodes:,}",
        _WORDS[run.mode],
        f"{cpu_request(run)}m",
        f"{memory_request(run)}Mi",
        f"{memory_limit(run, alike)}Mi",
    )


def _step(step: Step) -> Row:
    return (
        f"{step.rate:,}",
        f"{step.placed:,.0f}",
        milliseconds(step.p50),
        milliseconds(step.p99),
        _percent(step.share),
        "yes" if step.is_kept else "no",
    )


def webhook_lines(limit: Limit) -> list[str]:
    """What it stands and takes, a sentence or two each."""
    kept, too_many = limit.kept, limit.too_many
    cpu = shipped("requests", "cpu", review=True)
    memory = shipped("requests", "memory", review=True) // 2**20
    most = shipped("limits", "memory", review=True) // 2**20
    if kept is None:
        return [f"No rate was kept: p99 is over {LIMIT_MS:.0f} ms at {too_many} pods a second."]
    until = f"{too_many:,} were too many" if too_many else "more was not tried"
    return [
        f"One webhook, one client: {kept.rate:,} pods a second with a p99 within {LIMIT_MS:.0f} ms"
        f" ({until}). A pod costs it {1000 / kept.a_core:.2f} ms of processor time:"
        f" {kept.a_core:,.0f} pods a second would fill one core, and"
        f" {kept.a_core * cpu / 1000:,.0f} fill the shipped request of {cpu}m.",
        f"Its memory afterwards is {mebibytes(limit.memory)} MiB, at its peak"
        f" {mebibytes(limit.peak)} (shipped: a request of {memory}Mi, a limit of {most}Mi).",
    ]


def over_shipped(runs: Sequence[Run]) -> list[str]:
    """The runs that need more than the shipped requests."""
    cpu, memory = (shipped("requests", what, review=False) for what in ("cpu", "memory"))
    return [
        f"{run.load.nodes:,} nodes {_WORDS[run.mode]}"
        for run in runs
        if cpu_request(run) > cpu or memory_request(run) * 2**20 > memory
    ]


def report(draw: Draw, runs: Sequence[Run], limit: Limit) -> list[str]:
    """The paragraphs and tables, in the order of docs/sizing.md."""
    parts = [
        *_service_part(draw, runs),
        *_api_part(draw, runs),
        *_resources_part(draw, runs),
        "The admission webhook, milliseconds for both answers since a pod was due, per cent of a"
        " core:",
        draw([("pods/s", "placed/s", "p50", "p99", "CPU, %", "kept"), *map(_step, limit.steps)]),
        *webhook_lines(limit),
    ]
    return [part if "\n" in part else fill(part, _WIDTH, break_on_hyphens=False) for part in parts]


def _as_shipped(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.mode == "shipped"]


def _service_part(draw: Draw, runs: Sequence[Run]) -> list[str]:
    largest = _as_shipped(runs)[-1]
    load_head = ("nodes", "updates/s", "pods", "pods/s", "nodes asked about", "pod events/s")
    head = (
        *("nodes", "started", "start, s", "CPU, s", "following, %", "asked, %"),
        *("MiB", "peak", "p50", "p99"),
    )
    return [
        "What the cluster does in the run:",
        draw([load_head, *map(_load, _as_shipped(runs))]),
        "One replica: seconds until it knew all, and of processor time for that; per cent of a core"
        " while it follows, and while it is asked too; memory; the filter's times in milliseconds:",
        draw([head, *map(_service, runs)]),
        f"An update of a node takes {largest.update_milliseconds:.3f} ms of processor time"
        f" ({largest.load.nodes:,} nodes).",
    ]


def _api_part(draw: Draw, runs: Sequence[Run]) -> list[str]:
    head = ("nodes", "started", *map(str, REPLICAS), "start", "start, MiB")
    return [
        "At the API server, for 1, 2 and 3 replicas: watches / requests an hour / KiB/s; and what"
        " one replica asks and reads when it starts:",
        draw([head, *map(_api, runs)]),
    ]


def _resources_part(draw: Draw, runs: Sequence[Run]) -> list[str]:
    alike = {run.load.nodes: run for run in _as_shipped(runs)}
    cpu = shipped("requests", "cpu", review=False)
    memory, most = (
        shipped(kind, "memory", review=False) // 2**20 for kind in ("requests", "limits")
    )
    head = ("nodes", "started", "requests.cpu", "requests.memory", "limits.memory")
    over = over_shipped(runs)
    return [
        f"What to write into `resources:` (shipped: requests of {cpu}m and {memory}Mi, a limit of"
        f" {most}Mi):",
        draw([head, *(_resources(run, alike[run.load.nodes]) for run in runs)]),
        f"The shipped requests are less than that for: {'; '.join(over) or 'none of them'}.",
    ]


def panels(runs: Sequence[Run], limit: Limit) -> list[Panel]:
    """The plot: processor and memory by nodes, the webhook by pods a second."""

    def by_nodes(mode: str, of: Callable[[Run], float]) -> list[tuple[float, float]]:
        return [(run.load.nodes, of(run)) for run in runs if run.mode == mode]

    def by_rate(of: Callable[[Step], float]) -> list[tuple[float, float]]:
        return [(step.rate, of(step)) for step in limit.steps]

    processor, memory = {}, {}
    for mode, words in _WORDS.items():
        processor[f"following, {words}"] = by_nodes(mode, lambda run: 100 * run.following)
        processor[f"asked, {words}"] = by_nodes(mode, lambda run: 100 * run.asked)
        memory[words] = by_nodes(mode, lambda run: run.memory / 2**20)
    waits = {"p50": by_rate(lambda step: step.p50), "p99": by_rate(lambda step: step.p99)}
    share = {"webhook": by_rate(lambda step: 100 * step.share)}
    return [
        Panel("processor", ("nodes", "% of a core"), processor, "x"),
        Panel("memory of both processes", ("nodes", "MiB"), memory, "x"),
        Panel("webhook: both answers since due", ("pods a second", "ms"), waits, "xy"),
        Panel("webhook: processor", ("pods a second", "% of a core"), share, "x"),
    ]
