"""The targets of make fuzz accept their seeds, and the seeds are worth mutating."""

import pytest

from extender.model import names
from fuzz import bodies, reviews


@pytest.mark.skipif(not names.IS_COMPILED, reason="the compiled part is not in use")
@pytest.mark.parametrize("seed", [*bodies.seeds()])
def test_each_body_that_fuzzing_begins_with_is_read_to_its_end_by_both_halves(seed: bytes) -> None:
    """Mutations of an input that is refused at once are refused at once, too."""
    bodies.one(seed)
    assert len(seed) <= bodies.MAX_SIZE
    (status, answer), _ = bodies.halves().answers(bodies.VERBS[seed[0]], seed[1:])
    assert status == 200, answer


def test_fuzzing_begins_with_whole_nodes_too() -> None:
    of_filter = [seed for seed in bodies.seeds() if seed[0] == 0 and b'"items":[{' in seed]
    assert of_filter
    for seed in of_filter:
        (_, answer), _ = bodies.halves().answers(b"/filter", seed[1:])
        assert b'"Nodes":{"metadata":{},"items":[' in answer


@pytest.mark.parametrize("seed", [*reviews.seeds()])
def test_reviews_are_answered_with_patches_that_apply(seed: bytes) -> None:
    reviews.one(seed)
