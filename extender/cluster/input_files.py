"""Reads the files that a flag names: regular files and pipes, of bounded size.

Anything else, such as a device or a socket, may block for ever or never end.
"""

import os
import select
import stat
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

from extender.model.errors import UsageError

#: 65,536 nodes of 16 KiB, as `kubectl get nodes` prints them.
MAX_FILE_BYTES: Final = 2**30

#: A shell opens a named pipe for its writer before it runs the writer.
PIPE_WRITER_SECONDS: Final = 5.0

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
    no_writer: float = PIPE_WRITER_SECONDS,
) -> bytes:
    """The content, of `limit` bytes at the most. Raises FileError.

    With pipes, a pipe is read to its end; `no_writer` is the seconds until a program has opened it
    to write.
    """
    try:
        status = os.stat(path)
        is_pipe = stat.S_ISFIFO(status.st_mode)
        if not (stat.S_ISREG(status.st_mode) or (pipes and is_pipe)):
            raise FileError(f"is {_what(status.st_mode)}, expected a file")
        if status.st_size > limit:
            raise FileError(_too_large(limit))
        with open(_opened(path), "rb") as file:
            text = _begin_pipe(file.fileno(), no_writer) if is_pipe else b""
            text += file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise FileError(cause_of(error)) from None
    if len(text) > limit:
        raise FileError(_too_large(limit))
    return text


def _opened(path: str | Path) -> int:
    # Otherwise opening a pipe waits for its writer, also if it has just replaced a file.
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


def _begin_pipe(number: int, no_writer: float) -> bytes:
    """Wait for a program that writes; returns what has been read meanwhile."""
    poll, first = select.poll(), b""
    poll.register(number, select.POLLIN)
    if not poll.poll(no_writer * 1000):
        try:
            first = os.read(number, 1)
        except BlockingIOError:
            pass  # it has a writer, which has not written yet
        else:
            if not first:
                raise FileError("is a pipe that no program writes to")
    os.set_blocking(number, True)
    return first


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


#: The name of a file that stands for standard input.
STDIN: Final = "-"


def read_stdin(limit: int = MAX_FILE_BYTES) -> bytes:
    """All of standard input. Raises UsageError."""
    try:
        text = sys.stdin.buffer.read(limit + 1)
    except OSError as error:
        raise UsageError(f"-f -: standard input: {error.strerror}") from None
    if len(text) > limit:
        raise UsageError(f"-f -: {_too_large(limit)}")
    return text


_SUFFIXES: Final = (".yaml", ".yml", ".json")

#: Enough for 65,536 nodes and as many other objects, each in a file of its own.
MAX_FILES: Final = 2**17


class ManifestError(UsageError):
    """A manifest can't be used; one line that names the file, the object and the cause."""


def manifest_files(paths: Iterable[str]) -> list[Path]:
    """The files of --manifests: a file itself, and of a folder those with a manifest's extension.

    Names with a dot first, as ..data of a mounted ConfigMap, are skipped. Raises ManifestError.
    """
    files: list[Path] = []
    for name in paths:
        if not name:
            raise ManifestError("--manifests: the path is empty")
        path = Path(name)
        try:
            if stat.S_ISDIR(path.stat().st_mode):
                files += _in_folder(path)
            else:
                files.append(path)
        except (OSError, ValueError) as error:
            raise ManifestError(f"{path}: {cause_of(error)}") from None
        if len(files) > MAX_FILES:
            raise ManifestError(f"{path}: more than {MAX_FILES} files")
    return [file for file in files if not file.is_dir()]


def _in_folder(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        names = (each.name for each in entries)
        named = (each for each in names if not each.startswith(".") and each.endswith(_SUFFIXES))
        return [folder / name for name in sorted(islice(named, MAX_FILES + 1))]


def signatures(paths: Iterable[str]) -> tuple[Signature, ...]:
    """A value that differs once any of the files has changed. Raises ManifestError."""
    found = []
    for file in manifest_files(paths):
        try:
            found.append(signature_of(file))
        except OSError as error:
            raise ManifestError(f"{file}: {error.strerror}") from None
    return tuple(found)
