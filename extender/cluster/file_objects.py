"""The objects of the files given to check and render, each with its place in the file."""

import codecs
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from msgspec import Raw

from extender.cluster.input_files import ManifestError
from extender.cluster.manifest_objects import FieldPath, documents_of, is_json, objects_in
from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.yaml_documents import YAML_PARSER, YamlError

_LINE_ENDS: Final = re.compile(r"\r\n|\n|\r")


def begins_of(text: str, wanted: Collection[int]) -> Iterator[tuple[int, FieldPath, int]]:
    """Yields (document, path, index of the first character) for each value in wanted documents.

    A value begins at its key. The values that an alias or a merge inserts have no path of their
    own. The first syntax error ends the iteration: callers that care parse the text before.
    """
    number, tree = -1, list[_Open]()
    events: Iterator[Any] = yaml.parse(text, Loader=YAML_PARSER)
    try:
        for event in events:
            kind, start = type(event), event.start_mark.index
            if kind is yaml.DocumentStartEvent:
                number += 1
            elif number not in wanted:
                continue
            elif kind in _ENDS:
                tree.pop()
            elif kind in _VALUES:
                begin = tree[-1].step_on(event, start) if tree else start
                if begin is None:
                    continue
                yield number, tuple(each.step for each in tree), begin
                if kind in _STARTS:
                    tree.append(_Open(is_list=kind is yaml.SequenceStartEvent))
    except yaml.YAMLError:
        return


_STARTS: Final = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_VALUES: Final = (*_STARTS, yaml.ScalarEvent, yaml.AliasEvent)
_ENDS: Final = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


class _Open:
    """An object or list that is still being read; step is its current key or index."""

    def __init__(self, *, is_list: bool) -> None:
        self.step: str | int = -1 if is_list else ""
        #: Where the current key begins; None if the next event is a key.
        self._key_begin: int | None = None

    def step_on(self, event: Any, start: int) -> int | None:
        """Take the next event. Returns where its value begins, None if the event is a key."""
        if isinstance(self.step, int):
            self.step += 1
            return start
        if self._key_begin is None:
            self.step, self._key_begin = getattr(event, "value", ""), start
            return None
        begin, self._key_begin = self._key_begin, None
        return begin


def decoded(text: bytes) -> str:
    """The text in the encoding that YAML would detect. Raises UnicodeDecodeError."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return text.decode("utf-16")
    return text.decode("utf-8-sig")


@dataclass(frozen=True, slots=True)
class FileObject:
    """One object. document: its number in the file, from 0. place: its path; () outside a List."""

    document: int
    place: FieldPath
    group: str
    kind: str
    raw: Raw


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file: its name as the user gave it, its text, and its objects in order."""

    name: str
    text: bytes = field(repr=False)
    objects: list[FileObject] = field(repr=False)

    @property
    def is_json(self) -> bool:
        return is_json(self.text)

    def plain_documents(self) -> dict[int, dict[str, Any]]:
        """The documents that are objects, by number."""
        found = documents_of(self.text, skip_others=True)
        return {number: decode(document, dict) for number, document in found}

    def lines(
        self, wanted: Iterable[tuple[FileObject, FieldPath]]
    ) -> Mapping[tuple[int, FieldPath], int]:
        """The line of each path, from 1, by document and whole path.

        A path that the file lacks has the line of the nearest value above it.
        """
        paths = {(each.document, each.place + path) for each, path in wanted}
        if not paths:
            return {}
        text = decoded(self.text)
        above = {(number, path[:depth]) for number, path in paths for depth in range(len(path) + 1)}
        begins = {
            (number, path): begin
            for number, path, begin in begins_of(text, {number for number, _ in paths})
            if (number, path) in above
        }
        starts = [0, *(match.end() for match in _LINE_ENDS.finditer(text))]
        found = {}
        for number, path in paths:
            upwards = ((number, path[:depth]) for depth in range(len(path), -1, -1))
            begin = next((begins[each] for each in upwards if each in begins), 0)
            found[number, path] = bisect_right(starts, begin)
        return found


def read_objects(name: str, text: bytes) -> GivenFile:
    """The objects of a text. Other documents are left out. Raises ManifestError."""
    objects: list[FileObject] = []
    try:
        for number, document in documents_of(text, skip_others=True):
            objects += (
                FileObject(number, place, header.group, header.kind or "", raw)
                for place, header, raw in objects_in(document)
            )
    except (ManifestError, DecodeError, YamlError, UnicodeDecodeError) as error:
        raise ManifestError(f"{name}: {error}") from None
    except RecursionError:
        raise ManifestError(f"{name}: nested too deeply") from None
    return GivenFile(name, text, objects)
