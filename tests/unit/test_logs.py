"""Lines are written without a lock, so that a stuck write does not delay the process's end."""

import logging

import pytest

from extender.server.logs import TextFormatter, _Writer


def test_a_line_is_written_though_there_is_no_lock_to_take(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """From Python 3.13 on, logging's own `handle` takes the lock without a look at it."""
    writer = _Writer()
    writer.setFormatter(TextFormatter())
    writer.lock = object()  # type: ignore[assignment]
    record = logging.LogRecord("extender", logging.INFO, __file__, 0, "a line", (), None)
    writer.handle(record)
    assert "a line" in capfd.readouterr().err
