"""/livez, /readyz and /healthz: whether the process lives and is ready."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from extender.http.answers import TEXT, Answer, Request, Route
from extender.model.reasons import printable
from extender.rules.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check. detail says what is wrong.

    A check that passes with a detail is stale: the service answers from the last known state.
    """

    name: str
    passed: bool
    detail: str = ""

    def __str__(self) -> str:
        outcome = "failed" if not self.passed else "stale" if self.detail else "ok"
        line = f"[{'+' if self.passed else '-'}]{self.name} {outcome}"
        return f"{line}: {printable(self.detail)}" if self.detail else line


_PING: Final = Check("ping", True)


@dataclass(slots=True)
class Health:
    """What readiness depends on. sources: each returns what is wrong, "" while all is well.

    needs_nodes: whether Nodes must be synced; for the webhook only with --fit. also_synced: whether
    further kinds are synced.
    """

    snapshot: Callable[[], Snapshot]
    sources: dict[str, Callable[[], str]] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)
    needs_nodes: bool = True
    also_synced: dict[str, Callable[[], bool]] = field(default_factory=dict)

    def ready(self) -> list[Check]:
        snapshot = self.snapshot()
        checks = [_PING]
        kinds = [("runtimeclasses-synced", snapshot.runtime_classes_synced)]
        if self.needs_nodes:
            kinds.append(("nodes-synced", snapshot.nodes_synced))
        kinds += [(name, is_synced()) for name, is_synced in self.also_synced.items()]
        for name, synced in kinds:
            checks.append(Check(name, synced, "" if synced else "not all objects known yet"))
        # Once everything is synced, a source that can't be reached leaves the service ready: it
        # answers from the last state. Before that, it is the reason why the service is not ready.
        synced = all(check.passed for check in checks)
        for name, describe in self.sources.items():
            detail = describe()
            checks.append(Check(name, synced or not detail, detail))
        stopping = self.stopping.is_set()
        checks.append(Check("shutdown", not stopping, "stopping" if stopping else ""))
        return checks


def _answer(endpoint: str, checks: list[Check], verbose: bool) -> Answer:
    passed = all(check.passed for check in checks)
    if passed and not verbose:
        return Answer([b"ok"], content_type=TEXT)
    last = f"{endpoint} check {'passed' if passed else 'failed'}"
    text = "\n".join([*map(str, checks), last]) + "\n"
    return Answer([text.encode("utf-8", "replace")], 200 if passed else 503, TEXT)


@dataclass(frozen=True, slots=True)
class Probe:
    """A short answer that is made at once, or a longer one that is made in a thread."""

    answer: Callable[[Request], Answer]
    methods: tuple[str, ...] = ("GET", "HEAD")
    in_thread: bool = False
    about: str = ""

    async def __call__(self, request: Request) -> Answer:
        if self.in_thread:
            return await asyncio.to_thread(self.answer, request)
        return self.answer(request)


def health_routes(health: Health) -> dict[str, Route]:
    """The routes of /livez, /readyz and /healthz, by path."""

    def probe(endpoint: str, checks: Callable[[], list[Check]]) -> Probe:
        return Probe(
            lambda request: _answer(endpoint, checks(), request.is_asked("verbose")),
            about="?verbose: each check",
        )

    return {
        "/livez": probe("livez", lambda: [_PING]),
        "/readyz": probe("readyz", health.ready),
        "/healthz": probe("healthz", health.ready),
    }
