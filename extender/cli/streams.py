"""Standard streams that may be closed, and what commands write to them."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from typing import Final

from extender.model.reasons import printable

#: /dev/null replaces a closed stream, so that no socket gets its file descriptor. stdin and stdout
#: are opened the wrong way round, so that using them still fails; text to stderr is lost.
_INSTEAD: Final = (
    ("stdin", os.O_WRONLY, "r"),
    ("stdout", os.O_RDONLY, "w"),
    ("stderr", os.O_WRONLY, "w"),
)


@contextmanager
def standard_streams(program: str) -> Iterator[None]:
    """Provide all three streams. Raises SystemExit(2) when what was printed can't be written."""
    for name, flags, mode in _INSTEAD:
        if getattr(sys, name) is None:
            number = os.open(os.devnull, flags)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode))  # noqa: SIM115 (open until the process ends)
    with suppress(AttributeError):  # not the streams of a test
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        yield
    finally:
        try:
            write_out("")
        except OSError as error:
            say(f"{program}: {error.strerror}")
            raise SystemExit(2) from None
        finally:
            try:
                sys.stderr.flush()
            except OSError:
                _discard(2)


def write_out(text: str) -> None:
    """Write to stdout at once; a closed pipe is no error. Raises OSError that names the stream."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(1)
    except OSError as error:
        _discard(1)
        raise OSError(error.errno, f"standard output: {error.strerror}") from None


@contextmanager
def written_out() -> Iterator[None]:
    """Pass to write_out what click prints in the block: the help and the version."""
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        write_out(printed.getvalue())


def _discard(number: int) -> None:
    """Discard what is left in a stream's buffer: Python would complain about it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def say(*lines: str) -> None:
    """Write lines to stderr; if that fails, the program goes on without them."""
    with suppress(OSError):
        sys.stderr.write("".join(f"{printable(line)}\n" for line in lines))
        sys.stderr.flush()


def warn(command: str, text: str) -> None:
    say(f"{command}: warning: {text}")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let a signal end the process at once, and without a traceback, while modules are imported.

    Some imports turn KeyboardInterrupt into other errors. The first process of a container needs a
    handler for SIGTERM, which the kernel drops otherwise; gunicorn replaces the handler.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, _end)
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, _frame: object) -> None:
    os._exit(128 + number)
