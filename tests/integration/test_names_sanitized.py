"""The compiled part under the address sanitizer: every law of names and victims once more."""

from pathlib import Path

import pytest

from tests.sanitizing import sanitized_run


@pytest.mark.parametrize(
    "without",
    [
        pytest.param((), id="as it is built"),
        pytest.param(("-DNARROW",), id="on a processor with narrow registers"),
        pytest.param(("-U__SSE2__", "-U__SIZEOF_INT128__"), id="on a processor that lacks much"),
        # No SSE2 either, and char has no sign.
        pytest.param(("-U__SSE2__", "-funsigned-char"), id="as aarch64 has it"),
    ],
)
def test_the_laws_of_names_hold_and_no_byte_out_of_bounds_is_touched(
    without: tuple[str, ...], tmp_path: Path
) -> None:
    said = sanitized_run(
        "_names",
        "extender.names",
        ["_names.c", "_victims.c"],
        ["test_names.py", "test_victim_entries.py"],
        # How long a look-up takes is measured without the sanitizer.
        chosen="(compiled or victim_entries) and not as_fast_as",
        folder=tmp_path,
        flags=without,
        small_objects=True,
    )
    assert " passed" in said
    assert "skipped" not in said
