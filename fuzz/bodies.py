"""Bodies of the verbs: both halves of model.names answer the same to any of them, and no 5xx.

The compiled half remembers pods and Nodes of earlier requests, the other one in Python remembers
nothing: so what is remembered must not show either.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Final

import orjson

from extender.cluster.manifest_objects import load_manifests
from extender.cluster.snapshot_store import SnapshotStore
from extender.http.health import Health
from extender.model import names
from extender.server.app import create_app
from extender.verbs.metrics import Metrics
from extender.verbs.outcomes import RefusedPods
from extender.verbs.service import Service
from tests.asking import Client
from tests.processes import ROOT, SAMPLES

#: The first byte of an input says which.
VERBS: Final = (b"/filter", b"/prioritize", b"/preempt")

MAX_SIZE: Final = 12_000

#: What a change of a byte seldom comes upon.
WORDS: Final = (
    *(b'{"Pod":', b',"Nodes":null,"NodeNames":["', b'"]}', b'","', b"null", b'"NodeNames":null'),
    *(b',"Nodes":{"metadata":{},"items":[', b"]}}", b'"metadata":{', b'"spec":{', b'"status":{'),
    *(b'"name":"', b'"runtimeClassName":"kata"', b'"runtimeClassName":"gvisor"', b'"items":['),
    *(b'"nodeSelector":{', b'"tolerations":[{', b'"hostUsers":false', b'"os":{"name":"windows"}'),
    *(b'"recursiveReadOnly":"Enabled"', b'"taints":[{', b'"runtimeHandlers":[{', b'"kata-1"'),
    *(b'"operator":"Exists"', b'"effect":"NoSchedule"', b'"labels":{', b'"kata-qemu"', b"\\u0000"),
    *(b"\\ud800", b"\\\\", b'\\"', b'\\",', b"\xc3\xa4", b"\xff", b"\xef\xbb\xbf", b"1e400"),
    *(b"-0", b"[[[[[[[["),
    *(b'"NodeNameToVictims":{', b'"NodeNameToMetaVictims":{', b'"NumPDBViolations":', b'"UID":"'),
)

_RECORDED: Final = ROOT / "tests" / "recorded"


def seeds() -> Iterator[bytes]:
    """What kube-scheduler sends, by verb; of whole Nodes three, so that they fit.

    Their images alone are 8 KB each, and nothing reads them.
    """
    for file in sorted((_RECORDED / "scheduler-names").glob("*.json")):
        yield _of_verb(file.stem) + file.read_bytes()
    for file in sorted((_RECORDED / "scheduler-nodes").glob("*.json")):
        document = orjson.loads(file.read_bytes())
        if document.get("Nodes"):
            document["Nodes"]["items"] = document["Nodes"]["items"][:3]
            for node in document["Nodes"]["items"]:
                del node["status"]["images"]
        yield _of_verb(file.stem) + orjson.dumps(document)
    for file in sorted((SAMPLES / "requests").glob("*.json")):
        verb = b"\2" if file.stem == "preempt" else b"\0"
        yield verb + orjson.dumps(orjson.loads(file.read_bytes()))


def _of_verb(name: str) -> bytes:
    return bytes([[verb.decode() in f"/{name.partition('-')[2]}" for verb in VERBS].index(True)])


class Halves:
    """The application twice: with the compiled part, and with split, map and join."""

    def __init__(self) -> None:
        if not names.IS_COMPILED:
            raise SystemExit("the compiled part is not built: there are no two halves")
        self._services = [self._service(is_compiled) for is_compiled in (True, False)]
        self._apps = [create_app(service) for service in self._services]

    def _service(self, is_compiled: bool) -> Service:
        with using(is_compiled):
            manifests = load_manifests([str(SAMPLES / "cluster")])
            store = SnapshotStore()
            store.replace_all(manifests.nodes.values(), manifests.runtime_classes.values())
            refused = RefusedPods(time.monotonic)
            return Service(store, Metrics(), Health(lambda: store.snapshot), refused)

    def answers(self, verb: bytes, body: bytes) -> list[tuple[int, bytes]]:
        """Status and body from each half."""
        found = []
        for is_compiled, app in zip((True, False), self._apps, strict=True):
            with using(is_compiled):
                answered = Client(app).post(verb.decode(), body)
                found.append((answered.status_code, answered.data))
        return found


@contextlib.contextmanager
def using(is_compiled: bool) -> Iterator[None]:
    """Whether names are read with the compiled part, for a moment."""
    before, names.IS_COMPILED = names.IS_COMPILED, is_compiled
    try:
        yield
    finally:
        names.IS_COMPILED = before


@functools.cache
def halves() -> Halves:
    return Halves()


def check(answers: list[tuple[int, bytes]]) -> None:
    """Raises AssertionError."""
    (status, text), other = answers
    assert (status, text) == other, f"the halves differ: {answers}"
    assert status in (200, 400), f"{status}: {text!r}"
    document = orjson.loads(text)
    if status == 400:
        assert list(document) == ["error"]
        assert document["error"].isprintable(), "an error that is more than one line"


def one(data: bytes) -> None:
    """Try one input. Raises whatever it should not."""
    check(halves().answers(VERBS[data[0] % len(VERBS)] if data else VERBS[0], data[1:]))


TARGET: Final[Callable[[bytes], None]] = one
