"""Changes fields of a YAML text in place, so that comments, order and everything else stay.

The new text is parsed again and compared with the expected objects. If they differ, or if a change
in place would change another place too (anchors, merges), the document is written anew.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from extender.cluster.manifest_files import ManifestError
from extender.cluster.reading_manifests import documents_of
from extender.cluster.yaml_places import Path, Placed, placed_documents
from extender.decoding.decoder import DecodeError, decode
from extender.yaml_documents import YamlError

Json = dict[str, Any]

#: The text that may follow a value in its line.
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?=\r?\n|\Z)")

#: Words that are strings to every YAML parser: not numbers, booleans or special characters.
_PLAIN: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9_./-]*|[0-9]+(?:m|[KMGTPE]i))")
_NO_WORDS: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf"}
)


class NotEditableError(ValueError):
    """The change can't be made in place."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of an object in a document: the old and the new value at `place`."""

    document: int
    place: Path
    before: Json
    after: Json


def edited(text: str, edits: Sequence[Edit], expected: Mapping[int, Json]) -> tuple[str, list[int]]:
    """(the new text, the documents that had to be written anew).

    expected: what each document that is an object says in the end, by its number.
    """
    anew: set[int] = set()
    while True:
        changed = _applied(text, edits, expected, anew)
        wrong = _wrong(changed, expected)
        if not wrong:
            return changed, sorted(anew)
        if wrong <= anew:
            # No place in the text can be trusted.
            return "---\n".join(map(dumped, expected.values())), sorted(expected)
        anew |= wrong


def _wrong(text: str, expected: Mapping[int, Json]) -> set[int]:
    """The documents that differ from the expected objects."""
    found: set[int] = set()
    try:
        for number, raw in documents_of(text.encode(), skip_others=True):
            if decode(raw, dict) == expected.get(number):
                found.add(number)
    except (ManifestError, YamlError, DecodeError):
        pass
    return set(expected) - found


def _applied(text: str, edits: Sequence[Edit], expected: Mapping[int, Json], anew: set[int]) -> str:
    by_document: dict[int, list[Edit]] = {}
    for each in edits:
        by_document.setdefault(each.document, []).append(each)
    wanted = dict.fromkeys([*by_document, *anew])
    pieces: list[_Piece] = []
    line_end = "\r\n" if "\r\n" in text else "\n"
    for number, root in placed_documents(text, wanted):
        if number not in anew:
            try:
                writer = _Writer(text, root, line_end)
                pieces += [piece for each in by_document[number] for piece in writer.pieces(each)]
                continue
            except NotEditableError:
                anew.add(number)
        lines = dumped(expected[number]).splitlines()
        pieces.append(_Piece(root.start, root.end, line_end.join(lines)))
    parts, done = [], 0
    for piece in sorted(pieces, key=lambda each: each.start):
        parts += [text[done : piece.start], piece.text]
        done = piece.end
    return "".join([*parts, text[done:]])


@dataclass(frozen=True, slots=True)
class _Piece:
    """The text that replaces the characters from start to end."""

    start: int
    end: int
    text: str


class _Writer:
    """Works out the pieces for one edit; raises NotEditableError."""

    def __init__(self, text: str, root: Placed, line_end: str) -> None:
        self._text = text
        self._root = root
        self._line_end = line_end

    def pieces(self, edit: Edit) -> list[_Piece]:
        spec = self._place(edit.place)
        assert isinstance(spec.fields, dict)
        new: Json = {}
        pieces = []
        for field, value in edit.after.items():
            if field in edit.before and edit.before[field] == value:
                continue
            placed = spec.fields.get(field)
            if placed is None:
                new[field] = value
            else:
                pieces.append(self._changed(placed, edit.before[field], value))
        if new:
            pieces.append(self._added(spec, new))
        return pieces

    def _place(self, path: Path) -> Placed:
        """The value to change, if none of the objects around it is shared with other places."""
        placed: Placed | None = self._root
        for depth in range(len(path) + 1):
            placed = self._root.at(path[:depth])
            if placed is None or placed.is_shared:
                raise NotEditableError
        if placed is None or not isinstance(placed.fields, dict):
            raise NotEditableError
        return placed

    def _changed(self, placed: Placed, before: Any, after: Any) -> _Piece:
        if placed.is_shared:
            raise NotEditableError
        if not placed.is_flow and placed.fields and after:
            indent = self._column(placed.start)
            more = _added_to(before, after)
            if more is not None:
                return self._behind(placed, dumped(more), indent)
            return _Piece(placed.start, placed.end, self._indented(dumped(after), indent))
        space = "" if self._text[placed.start - 1 : placed.start].isspace() else " "
        return _Piece(placed.start, placed.end, space + flow(after))

    def _added(self, spec: Placed, new: Json) -> _Piece:
        fields = spec.fields
        assert isinstance(fields, dict)
        if spec.is_flow:
            inside = flow(new)[1:-1] + (", " if fields else "")
            return _Piece(spec.start + 1, spec.start + 1, inside)
        indent = self._column(spec.start)
        text = dumped(new, indented=self._indents_lists(fields, indent))
        named = fields.get("runtimeClassName")
        if named is not None and not named.is_shared:
            return self._behind(named, text, indent)
        lines = self._indented(text, indent)
        return _Piece(spec.start, spec.start, f"{lines}{self._line_end}{' ' * indent}")

    def _behind(self, placed: Placed, text: str, indent: int) -> _Piece:
        """Lines after that of a value and the comment behind it."""
        rest = _REST_OF_LINE.match(self._text, placed.end)
        if rest is None:
            raise NotEditableError
        lines = self._line_end + " " * indent + self._indented(text, indent)
        return _Piece(rest.end(), rest.end(), lines)

    def _indents_lists(self, fields: Mapping[str, Placed], indent: int) -> bool:
        """Whether the document's lists are indented further than their keys."""
        lists = [each for each in fields.values() if isinstance(each.fields, list)]
        blocks = [each for each in lists if not each.is_flow and not each.is_shared]
        return any(self._column(each.start) > indent for each in blocks)

    def _column(self, index: int) -> int:
        return index - (self._text.rfind("\n", 0, index) + 1)

    def _indented(self, text: str, indent: int) -> str:
        """The text with all lines but the first indented."""
        return (self._line_end + " " * indent).join(text.splitlines())


def _added_to(before: Any, after: Any) -> Any:
    """The new last elements or keys; None where anything else changes too."""
    if isinstance(after, dict) and isinstance(before, dict):
        more = {key: value for key, value in after.items() if key not in before}
        return more if {**before, **more} == after else None
    if isinstance(after, list) and isinstance(before, list):
        return after[len(before) :] if after[: len(before)] == before else None
    return None


class _Dumper(yaml.SafeDumper):
    """Writes strings so that every YAML parser reads them as strings."""

    indents_lists = False

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless and not self.indents_lists)

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = '"'
        if "\n" in text:
            style = "|"
        elif _PLAIN.fullmatch(text) and text.lower() not in _NO_WORDS:
            style = ""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style or None)


class _IndentingDumper(_Dumper):
    indents_lists = True


_Dumper.add_representer(str, _Dumper.represent_text)
_IndentingDumper.add_representer(str, _Dumper.represent_text)


def dumped(value: object, *, indented: bool = False) -> str:
    """A value as a YAML block, in its own order."""
    return _dump(value, flow_style=False, indented=indented)


def flow(value: object) -> str:
    """A value in YAML's flow style, on one line."""
    return _dump(value, flow_style=True, indented=False).strip()


def _dump(value: object, *, flow_style: bool, indented: bool) -> str:
    text: str = yaml.dump(
        value,
        Dumper=_IndentingDumper if indented else _Dumper,
        default_flow_style=flow_style,
        sort_keys=False,
        allow_unicode=True,
        width=2**31,
    )
    return text
