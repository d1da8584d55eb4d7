"""The process's standard streams, each of which may be closed or full."""

import contextlib
import os
import sys
from collections.abc import Iterator

from extender.printable import printable

#: A closed stream becomes /dev/null opened the wrong way round: its file descriptor is taken, so
#: that no socket gets it, and using it fails as with a closed stream. What is written to a closed
#: stderr is lost.
_INSTEAD = (
    ("stdin", os.O_WRONLY, "r"),
    ("stdout", os.O_RDONLY, "w"),
    ("stderr", os.O_WRONLY, "w"),
)


@contextlib.contextmanager
def standard_streams(program: str) -> Iterator[None]:
    """Provide all three streams, whatever the shell did to them, and keep Python silent at exit.

    Raises SystemExit(2), with one line before it, when what was printed could not be written.
    """
    for name, flags, mode in _INSTEAD:
        if getattr(sys, name) is None:
            number = os.open(os.devnull, flags)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode))  # noqa: SIM115 (open until the process ends)
    with contextlib.suppress(AttributeError):  # not the streams of a test
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
    """Write to stdout at once. A reader that has closed the pipe, as `head` does, is no error.

    Raises OSError that names the stream.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(1)
    except OSError as error:
        _discard(1)
        raise OSError(error.errno, f"standard output: {error.strerror}") from None


def _discard(number: int) -> None:
    """Discard what is left in a stream's buffer: Python would complain about it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def say(*lines: str) -> None:
    """Write lines to stderr; if that fails, the program goes on without them."""
    with contextlib.suppress(OSError):
        sys.stderr.write("".join(f"{printable(line)}\n" for line in lines))
        sys.stderr.flush()
