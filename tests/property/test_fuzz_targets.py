"""The targets of make fuzz take what is right, and notice what is wrong."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender import names
from extender.names import NameRun
from extender.wire import preempt_bodies, victims
from fuzz import __main__ as program
from fuzz import bodies, reading, reviews
from fuzz.splicing import spliced


@pytest.mark.skipif(not names.IS_COMPILED, reason="the compiled part is not in use")
@pytest.mark.parametrize("seed", [*bodies.seeds()])
def test_what_kube_scheduler_sends_is_answered_alike_by_both_halves(seed: bytes) -> None:
    bodies.one(seed)


@pytest.mark.skipif(not names.IS_COMPILED, reason="the compiled part is not in use")
@pytest.mark.parametrize("seed", [*bodies.seeds()])
def test_each_body_that_fuzzing_begins_with_is_read_to_its_end(seed: bytes) -> None:
    """An input that is refused at once leads to nothing but others that are."""
    assert len(seed) <= bodies.MAX_SIZE
    (status, answer), _ = bodies.halves().answers(bodies.VERBS[seed[0]], seed[1:])
    assert status == 200, answer


def test_fuzzing_begins_with_whole_nodes_too() -> None:
    of_filter = [seed for seed in bodies.seeds() if seed[0] == 0 and b'"items":[{' in seed]
    assert of_filter
    for seed in of_filter:
        (_, answer), _ = bodies.halves().answers(b"/filter", seed[1:])
        assert b'"Nodes":{"metadata":{},"items":[' in answer


@pytest.mark.parametrize("seed", [*reading.seeds()])
def test_requests_are_read_alike_however_they_are_cut(seed: bytes) -> None:
    reading.one(seed)


@pytest.mark.parametrize("seed", [*reviews.seeds()])
def test_reviews_are_answered_with_patches_that_apply(seed: bytes) -> None:
    reviews.one(seed)


class Forgetting(names.PythonEngine):
    """Leaves out who is refused."""

    def part(
        self, run: NameRun, codes: bytes, endings: Sequence[bytes], cut: int, *, keep: bool = True
    ) -> tuple[bytes, bytes]:
        return super().part(run, codes, endings, cut, keep=keep)[0], b""


def test_a_half_that_answers_something_else_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(each for each in bodies.seeds() if b"kata-qemu" not in each and b"kata-3" in each)
    monkeypatch.setattr(names, "CompiledEngine", names.PythonEngine)
    monkeypatch.setattr(names, "IS_COMPILED", True)
    halves = bodies.Halves()
    body = seed[1:]
    bodies.check(halves.answers(b"/filter", body))
    monkeypatch.setattr(names, "PythonEngine", Forgetting)
    with pytest.raises(AssertionError, match="the halves differ"):
        bodies.check(bodies.Halves().answers(b"/filter", body))


def _last_slice_left_out(body: bytes, start: int) -> Iterator[victims.Victims]:
    slices = [*_DECODED_IN_SLICES(body, start)]
    yield from slices[: max(1, len(slices) - 1)]


_DECODED_IN_SLICES = victims.decoded_in_slices


@pytest.mark.skipif(not names.IS_COMPILED, reason="the compiled part is not in use")
def test_victims_lost_between_two_slices_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # What has all of kube-scheduler's own fields, in their order, is answered undecoded.
    asked = b",".join(b'"kata-%d":{"NumPDBViolations":0}' % each for each in (1, 2))
    body = b'{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{%s}}' % asked
    halves = bodies.Halves()
    bodies.check(halves.answers(b"/preempt", body))
    monkeypatch.setattr(preempt_bodies, "decoded_in_slices", _last_slice_left_out)
    with pytest.raises(AssertionError, match="the halves differ"):
        bodies.check(halves.answers(b"/preempt", body))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param((500, b'{"error":"fault"}'), "500", id="a fault"),
        pytest.param((400, b'{"error":"a\\nb"}'), "more than one line", id="two lines"),
    ],
)
def test_an_answer_that_no_body_should_get_is_noticed(answer: tuple[int, bytes], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        bodies.check([answer, answer])


def test_words_of_any_bytes_are_written_as_libfuzzer_reads_them() -> None:
    assert program.dictionary([b'"a\xff', b"\r\n"]) == '"\\x22\\x61\\xff"\n"\\x0d\\x0a"\n'


@given(st.binary(max_size=50), st.integers(1, 100), st.integers(0, 2**32))
def test_what_is_spliced_fits_and_comes_again_by_its_seed(
    data: bytes, max_size: int, seed: int
) -> None:
    pieces = [b"word", bytes(500)]
    made = spliced(data, max_size, seed, pieces)
    assert len(made) <= max_size
    assert made == spliced(data, max_size, seed, pieces)


def test_pieces_of_others_are_put_in() -> None:
    assert any(b"word" in spliced(b"", 100, seed, [b"word"]) for seed in range(100))
