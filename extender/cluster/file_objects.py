"""The objects of a file as it was given, each with its place: to be judged, or to be rendered."""

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
from extender.kubernetes.yaml_documents import YamlError

_PARSER: Final[Any] = yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader

_LINE_ENDS: Final = re.compile(r"\r\n|\n|\r")


def begins_of(text: str, wanted: Collection[int]) -> Iterator[tuple[int, FieldPath, int]]:
    """(document, path, the character at which it begins) of each value of the wanted documents.

    A value begins with its key. What an alias or a merge stands for has no path of its own. The
    first syntax error ends the documents: callers that care have parsed the text before.
    """
    number, tree = -1, list[_Open]()
    events: Iterator[Any] = yaml.parse(text, Loader=_PARSER)
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
    """An object or list whose end has not come: its key or index at this moment."""

    def __init__(self, *, is_list: bool) -> None:
        self.step: str | int = -1 if is_list else ""
        #: Where the key begins whose value comes next; None where a key comes next.
        self._key_begin: int | None = None

    def step_on(self, event: Any, start: int) -> int | None:
        """Where the value of an event begins; None where the event is a key."""
        if isinstance(self.step, int):
            self.step += 1
            return start
        if self._key_begin is None:
            self.step, self._key_begin = getattr(event, "value", ""), start
            return None
        begin, self._key_begin = self._key_begin, None
        return begin


def decoded(text: bytes) -> str:
    """The text as YAML reads it. Raises UnicodeDecodeError."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return text.decode("utf-16")
    return text.decode("utf-8-sig")


@dataclass(frozen=True, slots=True)
class FileObject:
    """One object: in which document of its file, from 0, and where in it; () but for a List's."""

    document: int
    place: FieldPath
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
        return is_json(self.text)

    def plain_documents(self) -> dict[int, dict[str, Any]]:
        """Those that are objects, by number."""
        found = documents_of(self.text, skip_others=True)
        return {number: decode(document, dict) for number, document in found}

    def lines(
        self, wanted: Iterable[tuple[FileObject, FieldPath]]
    ) -> Mapping[tuple[int, FieldPath], int]:
        """The line of each path or of the object that would hold it, by document and whole path.

        Lines are counted from 1, as editors do.
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
    """The objects of a text; documents that are none are left out. Raises ManifestError."""
    objects: list[FileObject] = []
    try:
        for number, document in documents_of(text, skip_others=True):
            objects += (
                FileObject(number, place, header.api_version or "", header.kind or "", raw)
                for place, header, raw in objects_in(document)
            )
    except (ManifestError, DecodeError, YamlError, UnicodeDecodeError) as error:
        raise ManifestError(f"{name}: {error}") from None
    except RecursionError:
        raise ManifestError(f"{name}: nested too deeply") from None
    return GivenFile(name, text, objects)
