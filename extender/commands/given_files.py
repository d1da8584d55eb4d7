"""The files that -f names: a file, a folder, or - for standard input."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from extender.cluster.file_objects import GivenFile, read_objects
from extender.cluster.manifest_files import MAX_FILES, ManifestError, manifest_files
from extender.commands.named_pods import STDIN, read_stdin
from extender.commands.progress import showing
from extender.flags import CommandParser, UsageError
from extender.input_files import FileError, read_file

#: Bytes of all files together: they are held until the last finding has its line.
MAX_GIVEN_BYTES: Final = 256 * 2**20


def add_file_flags(parser: CommandParser, help: str) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help=f"{help}; of a folder its files, - is standard input; several after it, repeatable",
    )
    parser.boolean_flag("--recursive", short="-R", help="the folders in folders of -f too")


def read_given(
    names: Sequence[str],
    *,
    recursive: bool,
    limit: int = MAX_GIVEN_BYTES,
) -> list[GivenFile]:
    """All files, of `limit` bytes together. Raises UsageError, also where none has an object."""
    documents = 0

    def count() -> None:
        nonlocal documents
        documents += 1

    with showing(lambda: f"{documents:,} documents read"):
        files = [*_given_files(names, recursive, limit, count)]
    if not documents:
        raise UsageError(f"-f {names[0]}: holds no object: there is nothing to do")
    return files


def _given_files(
    names: Sequence[str], recursive: bool, left: int, on_document: Callable[[], None]
) -> Iterator[GivenFile]:
    if names.count(STDIN) > 1:
        raise UsageError("-f -: standard input can be read once only")
    for name in names:
        for file in _files(name, recursive):
            text = _text(file, left)
            left -= len(text)
            yield read_objects(file, text, on_document)


def _text(file: str, limit: int) -> bytes:
    if file == STDIN:
        return read_stdin(limit)
    try:
        return read_file(file, limit, pipes=True)
    except FileError as error:
        raise UsageError(f"-f {file}: {error}") from None


def _files(name: str, recursive: bool) -> list[str]:
    if name == STDIN:
        return [name]
    if not name:
        raise UsageError("-f: the path is empty")
    try:
        if not recursive or not Path(name).is_dir():
            return [str(each) for each in manifest_files([name])]
        found: list[str] = []
        for folder, folders, _ in os.walk(name):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            found += [str(each) for each in manifest_files([folder])]
            if len(found) > MAX_FILES:
                raise UsageError(f"-f {name}: more than {MAX_FILES} files")
    except ManifestError as error:
        raise UsageError(f"-f {str(error).removeprefix('--manifests: ')}") from None
    return found
