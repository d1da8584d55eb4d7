"""The part in C that cuts JSON, under the address sanitizer: every law of slices once more."""

from pathlib import Path

from tests.sanitizing import sanitized_run


def test_the_laws_of_slices_hold_and_no_byte_out_of_bounds_is_touched(tmp_path: Path) -> None:
    said = sanitized_run(
        "_slices",
        "extender.wire.slices",
        ["_slices.c"],
        ["test_slices.py"],
        # How long another thread waits is measured without the sanitizer.
        chosen="not turn",
        folder=tmp_path,
    )
    assert " passed" in said
    assert "skipped" not in said
