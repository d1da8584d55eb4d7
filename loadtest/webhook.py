"""How long the admission webhook takes while pods are created at a steady rate.

    make bench-webhook        or        python -m loadtest.webhook --rate 50 --seconds 12

Each pod is asked about as kube-apiserver does: /mutate, and with the patched pod /validate. Times
run from the moment a pod was due, so that waiting behind a slow answer counts.
"""

import base64
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, Final

import orjson

from loadtest import arguments, tables
from loadtest.bodies import pod
from loadtest.generator import HALF_CLASS, Cluster, ClusterSpec, list_of
from loadtest.processes import OUT, Address, Server, ServerError, running, webhook_command
from loadtest.timing import Client, Times

#: The aim of the project, for either answer.
LIMIT_MS: Final = 20.0

CONNECTIONS: Final = 8

#: From the call until the first pod is due.
LEAD_SECONDS: Final = 0.1
_VERBS: Final = ("mutate", "validate")
_CLASSES: Final = ("", HALF_CLASS, "kata", "runc")
BOTH: Final = "both, since due"

Json = dict[str, Any]


def review(pod: Json) -> bytes:
    """An AdmissionReview as kube-apiserver 1.36.2 sends it."""
    request = {
        "uid": "448ab719-ba5f-4280-af04-cb884555fa7c",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    document = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return orjson.dumps(document)


class Connections:
    """A keep-alive connection for each thread that asks."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._own = threading.local()
        self._all: list[Client] = []

    def close(self) -> None:
        for client in self._all:
            client.close()

    def ask(self, verb: str, body: bytes) -> Json:
        """The response of a review. Raises ServerError for what must not be answered."""
        response: Json = orjson.loads(self.send(verb, body))["response"]
        return response

    def send(self, verb: str, body: bytes) -> bytes:
        """As ask(), but the answer is not read further than to see that the pod is allowed."""
        if not hasattr(self._own, "client"):
            self._own.client = Client(self._address)
            self._all.append(self._own.client)
        answer = self._own.client.ask(verb, body)
        if answer.status != 200:
            raise ServerError(f"/{verb} answered {answer.status}: {answer.body[:200]!r}")
        if b'"allowed":true' not in answer.body:
            raise ServerError(f"/{verb} refused: {answer.body[:200]!r}")
        found: bytes = answer.body
        return found


def _patched(pod: Json, response: Json) -> Json:
    """The pod with the overhead it was given, which is all that /validate looks at."""
    for operation in orjson.loads(base64.b64decode(response.get("patch", "")) or b"[]"):
        if operation["path"] == "/spec/overhead":
            return {**pod, "spec": {**pod["spec"], "overhead": operation["value"]}}
    return pod


def reviews_of(address: Address, pods: int) -> list[tuple[bytes, bytes]]:
    """Bodies for /mutate and /validate of so many pods; some are asked about to know the latter.

    Made beforehand: what a pod costs its client is not the webhook's time.
    """
    with contextlib.closing(Connections(address)) as connections:
        answers = {name: connections.ask("mutate", review(pod(0, name))) for name in _CLASSES}
    found = []
    for serial, name in enumerate(random.Random(1).choices(_CLASSES, k=pods)):
        created = pod(serial, name)
        found.append((review(created), review(_patched(created, answers[name]))))
    return found


def times_of(
    address: Address, rate: int, due: Sequence[tuple[bytes, bytes]]
) -> dict[str, list[float]]:
    """Seconds of both answers for each pod, and from the moment it was due until both were in."""
    seconds: dict[str, list[float]] = {verb: [] for verb in (*_VERBS, BOTH)}
    serials = count()
    began = time.perf_counter() + LEAD_SECONDS

    def create(connections: Connections) -> None:
        # Whoever is free takes the next pod: a slow answer keeps one connection, not the others.
        while (serial := next(serials)) < len(due):
            mutate, validate = due[serial]
            due_at = began + serial / rate
            time.sleep(max(0.0, due_at - time.perf_counter()))
            asked = time.perf_counter()
            connections.send("mutate", mutate)
            mutated = time.perf_counter()
            connections.send("validate", validate)
            done = time.perf_counter()
            seconds["mutate"].append(mutated - asked)
            seconds["validate"].append(done - mutated)
            seconds[BOTH].append(done - due_at)

    with (
        contextlib.closing(Connections(address)) as opened,
        ThreadPoolExecutor(CONNECTIONS) as pool,
    ):
        for finished in [pool.submit(create, opened) for _ in range(CONNECTIONS)]:
            finished.result()
    return seconds


@contextlib.contextmanager
def started(out: Path = OUT) -> Iterator[Server]:
    """A webhook that knows the generated RuntimeClasses. Raises ServerError."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(ClusterSpec(nodes=10))
        manifests = Path(folder) / "runtimeclasses.json"
        manifests.write_bytes(b"".join(list_of(cluster.runtime_classes())))
        with running("webhook", webhook_command(manifests), out) as server:
            yield server


def measure(rate: int, seconds: float) -> dict[str, Times]:
    """Start a webhook, create pods at that rate, stop it. Raises ServerError."""
    with started() as server:
        pods = reviews_of(server.address, rate + round(rate * seconds))
        times_of(server.address, rate, pods[:rate])  # the first second is for warming up
        series = times_of(server.address, rate, pods[rate:])
    return {name: Times.of(times) for name, times in series.items()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments.parser("webhook", "Time the admission webhook.")
    add = parser.add_argument
    add("--rate", type=arguments.at_least_one, default=50, metavar="N", help="pods a second")
    add("--seconds", type=arguments.number(1), default=12.0, metavar="N", help="how long")
    flags = parser.parse_args(argv)
    try:
        result = measure(flags.rate, flags.seconds)
    except ServerError as error:
        print(f"loadtest.webhook: {error}", file=sys.stderr)
        return 1
    rows: list[tables.Row] = [("answer", "pods", "p50 ms", "p99 ms", "best ms", "limit")]
    rows += [
        (
            name,
            str(times.requests),
            *map(tables.milliseconds, (times.p50, times.p99, times.best)),
            f"≤ {LIMIT_MS:.0f}",
        )
        for name, times in result.items()
    ]
    print(f"{flags.rate} pods a second for {flags.seconds:g} s")
    print(tables.terminal(rows))
    return 0 if all(times.p99 <= LIMIT_MS for times in result.values()) else 1


if __name__ == "__main__":
    arguments.end(main)
