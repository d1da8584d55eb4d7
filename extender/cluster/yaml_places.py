"""The positions of the values in a YAML text: for a finding's line, and to edit a text in place.

The text is one that `yaml_documents` has accepted, so its expanded size is bounded; here aliases
stay references, and of a List only the wanted elements are kept.
"""

import codecs
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

#: Keys of objects and indices of lists, from the document down.
Path = tuple[str | int, ...]

_PARSER: Final[Any] = yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader

_LINE_ENDS: Final = re.compile(r"\r\n|\n|\r")

#: Halves of surrogate pairs, which JSON may have and YAML may not; another letter is as long.
_HALVES: Final = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


class Placed:
    """A value and its place; all numbers are characters from the beginning of the text.

    begin: where its key or itself begins. start and end: of the value; that of a block ends with
    its last word, before comments. fields: what is in it, None of a word. is_flow: it is written
    with brackets. is_shared: it has an anchor, or is reached by an alias or a merge, so that a
    change here would change another place too.
    """

    __slots__ = ("begin", "end", "fields", "is_flow", "is_shared", "start")

    def __init__(self, begin: int, start: int, end: int) -> None:
        self.begin = begin
        self.start = start
        self.end = end
        self.fields: dict[str, Placed] | list[Placed] | None = None
        self.is_flow = False
        self.is_shared = False

    def at(self, path: Sequence[str | int]) -> "Placed | None":
        """The value at a path; None where there is none."""
        found: Placed | None = self
        for step in path:
            found = found._child(step) if found is not None else None
        return found

    def nearest(self, path: Sequence[str | int]) -> "Placed":
        """The value at a path, else the object that would hold it."""
        found = self
        for step in path:
            child = found._child(step)
            if child is None:
                break
            found = child
        return found

    def _child(self, step: str | int) -> "Placed | None":
        fields = self.fields
        if isinstance(fields, dict):
            return fields.get(step) if isinstance(step, str) else None
        if fields is None or not isinstance(step, int) or step >= len(fields):
            return None
        return fields[step]


def decoded(text: bytes) -> str:
    """The text as YAML reads it. Raises UnicodeDecodeError."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return text.decode("utf-16")
    return text.decode("utf-8-sig")


class Lines:
    """Which line a character stands in, counted from 1 as editors do."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in _LINE_ENDS.finditer(text))]

    def __call__(self, index: int) -> int:
        return bisect_right(self._starts, index)


def placed_documents(
    text: str, wanted: Mapping[int, Collection[int] | None]
) -> Iterator[tuple[int, Placed]]:
    """The wanted documents of a text by their numbers from 0, in order.

    wanted: of each document the elements of its `items` to keep, None for all. The first syntax
    error ends the documents: callers that care have parsed the text before.
    """
    whole = _HALVES.sub(r"\1\\u0041\\u0041", text) if "\\u" in text else text
    number = -1
    try:
        events = yaml.parse(whole, Loader=_PARSER)
        for event in events:
            if type(event) is yaml.DocumentStartEvent:
                number += 1
                if number in wanted:
                    yield number, _Builder(wanted[number]).build(events)
    except yaml.YAMLError:
        return


class _Builder:
    """Makes one document of its events."""

    def __init__(self, kept_items: Collection[int] | None) -> None:
        self._kept_items = kept_items
        self._anchors: dict[str, Placed] = {}
        #: The lists and objects that are still open.
        self._open: list[Placed] = []
        #: Of each object that is open the key whose value comes next, and where it begins; the key
        #: is None for a merge.
        self._keys: list[tuple[str | None, int] | None] = []
        self._merged: list[list[Placed]] = []

    def build(self, events: Iterator[Any]) -> Placed:
        for event in events:
            kind = type(event)
            start, end = event.start_mark.index, event.end_mark.index
            if kind is yaml.AliasEvent:
                placed = self._alias(event.anchor, start, end)
            elif kind is yaml.ScalarEvent:
                if self._takes_key():
                    merges = event.value == "<<" and event.implicit[0]
                    self._keys[-1] = None if merges else event.value, start
                    if event.anchor is not None:
                        self._anchors[event.anchor] = Placed(start, start, end)
                    continue
                placed = Placed(start, start, end)
            elif kind in (yaml.MappingStartEvent, yaml.SequenceStartEvent):
                self._start(event, {} if kind is yaml.MappingStartEvent else [], start, end)
                continue
            else:
                placed = self._end(start, end)
            if getattr(event, "anchor", None) is not None and kind is yaml.ScalarEvent:
                placed.is_shared = True
                self._anchors[event.anchor] = placed
            if not self._open:
                return placed
            self._put(placed)
        raise yaml.YAMLError("the document has no end")

    def _takes_key(self) -> bool:
        return bool(
            self._open and self._keys[-1] is None and isinstance(self._open[-1].fields, dict)
        )

    def _start(self, event: Any, fields: Any, start: int, end: int) -> None:
        # The place of a value with an anchor is that of its text.
        placed = Placed(start, end if event.anchor is not None and event.flow_style else start, end)
        placed.fields = fields
        placed.is_flow = bool(event.flow_style)
        if event.anchor is not None:
            placed.is_shared = True
            self._anchors[event.anchor] = placed
        self._open.append(placed)
        self._keys.append(None)
        self._merged.append([])

    def _end(self, start: int, end: int) -> Placed:
        placed = self._open.pop()
        self._keys.pop()
        fields = placed.fields
        if placed.is_flow:
            placed.end = end
        elif fields:
            inside = fields.values() if isinstance(fields, dict) else fields
            placed.end = max(placed.end, *(each.end for each in inside))
        merged = self._merged.pop()
        if merged and isinstance(fields, dict):
            placed.is_shared = True
            for each in merged:
                for key, value in each.fields.items() if isinstance(each.fields, dict) else ():
                    fields.setdefault(key, value)
        return placed

    def _alias(self, anchor: str, start: int, end: int) -> Placed:
        placed = Placed(start, start, end)
        placed.is_shared = True
        if anchor in self._anchors:
            placed.fields = self._anchors[anchor].fields
        return placed

    def _put(self, placed: Placed) -> None:
        into = self._open[-1]
        fields = into.fields
        if isinstance(fields, list):
            fields.append(self._without_unwanted(placed, len(fields)))
            return
        assert isinstance(fields, dict)
        key = self._keys[-1]
        if key is None:
            # The key is an alias, a list or an object.
            self._keys[-1] = "", placed.start
            return
        self._keys[-1] = None
        name, placed_begin = key
        into.end = max(into.end, placed.end)
        if name is None:
            self._merged[-1] += placed.fields if isinstance(placed.fields, list) else [placed]
            return
        placed.begin = placed_begin
        fields[name] = placed

    def _without_unwanted(self, placed: Placed, index: int) -> Placed:
        """The element, of a List without what is in it unless it is one of those asked for."""
        if self._kept_items is None or index in self._kept_items or len(self._open) != 2:
            return placed
        key = self._keys[0]
        if key is None or key[0] != "items":
            return placed
        return Placed(placed.begin, placed.start, placed.end)
