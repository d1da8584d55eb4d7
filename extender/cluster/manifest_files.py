"""Which files --manifests means, and whether any of them has changed."""

import itertools
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from extender.flags import UsageError
from extender.input_files import Signature, cause_of, signature_of

_SUFFIXES: Final = (".yaml", ".yml", ".json")

#: Enough for 65,536 nodes and as many other objects, each in a file of its own.
MAX_FILES: Final = 2**17


class ManifestError(UsageError):
    """A manifest can't be used; one line that names the file, the object and the cause."""


def manifest_files(paths: Iterable[str]) -> list[Path]:
    """The files of --manifests: a file itself, and of a folder those with a manifest's extension.

    A mounted ConfigMap is a folder of links into ..data; names that begin with a dot are skipped.
    Raises ManifestError.
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
        return [folder / name for name in sorted(itertools.islice(named, MAX_FILES + 1))]


def signatures(paths: Iterable[str]) -> tuple[Signature, ...]:
    """A value that differs once any of the files has changed. Raises ManifestError."""
    found = []
    for file in manifest_files(paths):
        try:
            found.append(signature_of(file))
        except OSError as error:
            raise ManifestError(f"{file}: {error.strerror}") from None
    return tuple(found)
