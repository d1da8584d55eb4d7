"""The objects of a file as it was given, each with its place: to be judged, or to be rendered."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from extender.cluster.manifest_files import ManifestError
from extender.cluster.manifest_objects import objects_in
from extender.cluster.reading_manifests import documents_of
from extender.cluster.yaml_places import Lines, Path, decoded, placed_documents
from extender.decoding.decoder import DecodeError, decode
from extender.yaml_documents import YamlError


@dataclass(frozen=True, slots=True)
class FileObject:
    """One object: in which document of its file, from 0, and where in it; () but for a List's."""

    document: int
    place: Path
    api_version: str
    kind: str
    raw: Raw

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file by the name that it was given by, and its objects in order."""

    name: str
    text: bytes = field(repr=False)
    objects: list[FileObject] = field(repr=False)

    @property
    def is_json(self) -> bool:
        """Whether it is JSON: one document, without comments."""
        if self.text.lstrip()[:1] != b"{":
            return False
        try:
            msgspec.json.decode(self.text, type=Raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        return True

    def plain_documents(self) -> dict[int, dict[str, Any]]:
        """Those that are objects, by number."""
        found = documents_of(self.text, skip_others=True)
        return {number: decode(document, dict) for number, document in found}

    def lines(self, wanted: Iterable[tuple[FileObject, Path]]) -> Mapping[tuple[int, Path], int]:
        """The line of each path within its object, by document and whole path.

        For an absent field it is the line of the object that would hold it.
        """
        by_document: dict[int, list[tuple[FileObject, Path]]] = {}
        for each, path in wanted:
            by_document.setdefault(each.document, []).append((each, path))
        if not by_document:
            return {}
        text = decoded(self.text)
        line_of = Lines(text)
        found = {
            (document, each.place + path): 1
            for document, paths in by_document.items()
            for each, path in paths
        }
        for document, root in placed_documents(text, _items_of(by_document)):
            for each, path in by_document[document]:
                whole = each.place + path
                found[document, whole] = line_of(root.nearest(whole).begin)
        return found


def _items_of(
    by_document: Mapping[int, Iterable[tuple[FileObject, Path]]],
) -> Mapping[int, set[int] | None]:
    """For each document the elements of `items` that are read; None for a plain object."""
    items: dict[int, set[int] | None] = {}
    for document, wanted in by_document.items():
        indices = {each.place[1] for each, _ in wanted if each.place}
        items[document] = {index for index in indices if isinstance(index, int)} or None
    return items


def read_objects(
    name: str, text: bytes, on_document: Callable[[], None] = lambda: None
) -> GivenFile:
    """The objects of a text; other documents, such as lists, are left out.

    on_document is called for each document. Raises ManifestError.
    """
    objects: list[FileObject] = []
    try:
        for number, document in documents_of(text, skip_others=True):
            on_document()
            objects += (
                FileObject(number, place, header.api_version or "", header.kind or "", raw)
                for place, header, raw in objects_in(document)
            )
    except (ManifestError, DecodeError, YamlError, UnicodeDecodeError) as error:
        raise ManifestError(f"{name}: {error}") from None
    except RecursionError:
        raise ManifestError(f"{name}: nested too deeply") from None
    return GivenFile(name, text, objects)
