"""The cached verdicts of a snapshot: right for several threads at once, and bounded."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from extender.model.objects import Pod, RuntimeClass, Taint
from extender.model.pod_needs import KubeletNeeds, Toleration
from extender.model.reasons import UNKNOWN_NODE
from extender.rules import verdicts as rules
from extender.rules.node_checks import Policy, Requirements
from extender.rules.node_shape import Shape
from extender.rules.verdicts import Shapes, Verdicts

THREADS = 4
PLAIN = Pod()

SHAPES = tuple(
    Shape(frozenset({("zone", str(n))}), (Taint("t", str(n), "NoSchedule"),)) for n in range(20)
)


@pytest.fixture
def busy_switching() -> Iterator[None]:
    """Threads take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def classes(count: int) -> list[RuntimeClass]:
    return [RuntimeClass(f"c{n}", "h", (("zone", str(n % 20)),)) for n in range(count)]


def verdicts(shapes: Shapes, runtime_class: RuntimeClass, pod: Pod = PLAIN) -> Verdicts:
    return shapes.verdicts(pod, runtime_class, Policy())


def texts(table: Verdicts) -> list[str | None]:
    reasons = [table.reasons[code] for code in table.codes]
    return [reason.text if reason else None for reason in reasons]


def judged(runtime_class: RuntimeClass, shapes: tuple[Shape, ...], pod: Pod) -> list[str | None]:
    """Each shape on its own, the unknown node's first."""
    requirements = Requirements.of(pod.needs, runtime_class, Policy())
    reasons = [UNKNOWN_NODE, *map(requirements.mismatch, shapes)]
    return [reason.text if reason else None for reason in reasons]


@pytest.mark.usefixtures("busy_switching")
def test_threads_that_ask_at_once_all_get_the_right_verdicts() -> None:
    """Some threads look up tables while others add tables and the shapes grow."""
    known = classes(300)
    tolerant = Pod(tolerations=(Toleration("t", "Exists"),))
    shapes = [Shapes(SHAPES[:10])]
    start = threading.Barrier(THREADS)

    def ask(number: int) -> None:
        start.wait(10)
        for runtime_class in known[number:] + known[:number]:
            for pod in (Pod(), tolerant):
                current = shapes[-1]
                found = verdicts(current, runtime_class, pod)
                assert texts(found) == judged(runtime_class, current.shapes, pod)
            if number == 0 and runtime_class is known[150]:
                shapes.append(Shapes(SHAPES, current))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(ask, range(THREADS)))


def test_a_table_is_worked_out_once_and_shared() -> None:
    shapes, (one, other) = Shapes(SHAPES), classes(2)
    first = verdicts(shapes, one)
    verdicts(shapes, other)
    assert verdicts(shapes, one) is first
    # A toleration of a taint that no node has changes nothing.
    assert verdicts(shapes, one, Pod(tolerations=(Toleration("u", "Exists"),))) is first


@pytest.mark.parametrize("limit", ["MAX_TABLES", "MAX_REASONS"])
def test_what_is_remembered_has_a_limit(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, limit, 40)
    shapes = Shapes(SHAPES)
    for each in classes(200):
        assert texts(verdicts(shapes, each)) == judged(each, SHAPES, Pod())
        tables = shapes._tables.values()
        reasons = sum(len(table.reasons) for table in tables)
        assert {"MAX_TABLES": len(tables), "MAX_REASONS": reasons}[limit] <= 40


def test_a_table_that_is_extended_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tables of a growing cluster would be dropped again and again."""
    shapes, (one, other) = Shapes(SHAPES[:1]), classes(2)
    verdicts(shapes, other)
    # At most one reason a shape, one for the unknown node, and None for nodes that pass.
    monkeypatch.setattr(rules, "MAX_REASONS", 2 * (len(SHAPES) + 2))
    for count in range(1, len(SHAPES) + 1):
        shapes = Shapes(SHAPES[:count], shapes)
        verdicts(shapes, one)
        assert len(shapes._tables) == 2


def test_tables_of_long_texts_are_not_remembered() -> None:
    """A client may write a megabyte into spec.os.name."""
    shapes, (one,) = Shapes(SHAPES), classes(1)
    for number in range(3):
        pod = Pod(kubelet_needs=KubeletNeeds(system="x" * 3000 + str(number)))
        assert texts(verdicts(shapes, one, pod)) == judged(one, SHAPES, pod)
    assert not shapes._tables


def test_the_tolerations_that_are_remembered_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_REMEMBERED_PODS", 4)
    shapes, (one,) = Shapes(SHAPES), classes(1)
    for number in range(20):
        pod = Pod(tolerations=(Toleration("t", "Equal", str(number)),))
        for _ in range(2):
            assert texts(verdicts(shapes, one, pod)) == judged(one, SHAPES, pod)
        assert len(shapes._by_pod) <= 4
