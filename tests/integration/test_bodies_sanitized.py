"""The memory of bodies, under the address sanitizer: its laws, and those of known heads."""

from pathlib import Path

from tests.sanitizing import sanitized_run


def test_no_byte_outside_of_a_body_is_touched(tmp_path: Path) -> None:
    said = sanitized_run(
        "_bodies",
        "extender.http.body_memory",
        ["_bodies.c"],
        ["test_body_memory.py", "test_known_heads.py"],
        # How much memory heads take is measured without the sanitizer.
        chosen="not many_fields and not fill_the_memory and not can_not_be_had",
        folder=tmp_path,
        small_objects=True,
    )
    assert " passed" in said
    assert "skipped" not in said
