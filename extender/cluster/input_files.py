"""Reads the files that a flag names: regular files and pipes, of bounded size.

Reading anything else, such as a device or a socket, may block for ever or never end.
"""

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from extender.model.errors import UsageError

#: 65,536 nodes of 16 KiB, as `kubectl get nodes` prints them.
MAX_FILE_BYTES: Final = 2**30

#: A value that differs once a file is rewritten or replaced: its path, inode, size in bytes, and
#: modification time in nanoseconds.
Signature = tuple[str, int, int, int]


def signature_of(file: str | Path) -> Signature:
    """Raises OSError."""
    status = os.stat(file)
    return str(file), status.st_ino, status.st_size, status.st_mtime_ns


class FileError(Exception):
    """The file can't be read; the text follows its name in a message."""


def read_file(path: str | Path, limit: int = MAX_FILE_BYTES, *, pipes: bool = False) -> bytes:
    """The content, at most `limit` bytes. pipes: the file may be a pipe. Raises FileError."""
    try:
        status = os.stat(path)
        mode = status.st_mode
        if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
            kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
            raise FileError(f"is a {kinds.get(stat.S_IFMT(mode), 'device')}, expected a file")
        if status.st_size > limit:
            raise FileError(_too_large(limit))
        with open(path, "rb") as file:
            text = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise FileError(cause_of(error)) from None
    if len(text) > limit:
        raise FileError(_too_large(limit))
    return text


def _too_large(limit: int) -> str:
    return f"has more than {limit} bytes"


def cause_of(error: OSError | ValueError) -> str:
    """Why a file can't be opened, in words that follow its name."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


#: The file name that means standard input.
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


class ManifestError(UsageError):
    """A manifest can't be used. The text is one line that names the file, object and cause."""


def manifest_files(paths: Iterable[str]) -> list[Path]:
    """The named files, and in each named folder the files with a manifest's extension.

    A folder's names with a leading dot are skipped, as a ConfigMap's ..data. Raises ManifestError.
    """
    files: list[Path] = []
    for name in paths:
        if not name:
            raise ManifestError("--manifests: the path is empty")
        path = Path(name)
        try:
            if stat.S_ISDIR(path.stat().st_mode):
                found = (each for each in path.iterdir() if each.suffix in _SUFFIXES)
                files += sorted(each for each in found if not each.name.startswith("."))
            else:
                files.append(path)
        except (OSError, ValueError) as error:
            raise ManifestError(f"{path}: {cause_of(error)}") from None
    return [file for file in files if not file.is_dir()]


def signatures(paths: Iterable[str]) -> tuple[Signature, ...]:
    """A value that changes when any of the files changes. Raises ManifestError."""
    try:
        return tuple(map(signature_of, manifest_files(paths)))
    except OSError as error:
        raise ManifestError(f"{error.filename}: {error.strerror}") from None
