"""Reads the files that a flag names: regular ones of bounded size, and pipes with a time limit.

Anything else, such as a device or a socket, may block for ever or never end.
"""

import os
import select
import stat
from pathlib import Path
from typing import Final

#: 65,536 nodes of 16 KiB, as `kubectl get nodes` prints them.
MAX_FILE_BYTES: Final = 2**30

#: `kubectl get nodes -o json` in a shell's <(…) asks for all nodes before it prints the first:
#: 65,000 come in 130 pages, each in half a second at the most.
PIPE_SILENCE_SECONDS: Final = 65.0

_PIECE: Final = 2**20


#: What tells a file from the one that is written or put in its place later: path, inode, size in
#: bytes, and the time of its last change in nanoseconds.
Signature = tuple[str, int, int, int]


def signature_of(file: str | Path) -> Signature:
    """Raises OSError."""
    status = os.stat(file)
    return str(file), status.st_ino, status.st_size, status.st_mtime_ns


class FileError(Exception):
    """The file can't be read; the text follows its name in a message."""


def check_file(path: str | Path) -> None:
    """Raises FileError unless it is a regular file that may be opened."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):
            os.close(_opened(path))
            return
    except (OSError, ValueError) as error:
        raise FileError(cause_of(error)) from None
    raise FileError(f"is {_what(mode)}, expected a file")


def read_file(
    path: str | Path,
    limit: int = MAX_FILE_BYTES,
    *,
    pipes: bool = False,
    silence: float = PIPE_SILENCE_SECONDS,
) -> bytes:
    """The content, of `limit` bytes at the most. Raises FileError.

    With pipes, a pipe is read to its end; `silence` is the seconds that it may stay without a byte.
    """
    try:
        mode = os.stat(path).st_mode
        readable = stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))
        if not readable:
            raise FileError(f"is {_what(mode)}, expected a file")
        number = _opened(path)
        try:
            if stat.S_ISFIFO(mode):
                return _read_pipe(number, limit, silence)
            if os.fstat(number).st_size > limit:
                raise FileError(_too_large(limit))
            with os.fdopen(number, "rb", closefd=False) as file:
                text = file.read(limit + 1)
        finally:
            os.close(number)
    except (OSError, ValueError) as error:
        raise FileError(cause_of(error)) from None
    if len(text) > limit:
        raise FileError(_too_large(limit))
    return text


def _opened(path: str | Path) -> int:
    # Otherwise opening a pipe waits for its writer, also if it has just replaced a file.
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


def _read_pipe(number: int, limit: int, silence: float) -> bytes:
    poll = select.poll()
    poll.register(number, select.POLLIN)
    pieces: list[bytes] = []
    left = limit
    while poll.poll(silence * 1000):
        piece = os.read(number, _PIECE)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            raise FileError(_too_large(limit))
    raise FileError(f"is a pipe that gave nothing for {silence:g} s")


def _too_large(limit: int) -> str:
    return f"has more than {limit} bytes"


def cause_of(error: OSError | ValueError) -> str:
    """Why a file can't be opened, in words that follow its name."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _what(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"
