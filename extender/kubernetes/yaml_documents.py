"""Converts YAML to the values of JSON, and values to YAML.

PyYAML's composer needs a kilobyte per scalar, and a few lines of aliases can expand to more than
fits into memory. So the items of a List become JSON one by one, and the size of aliases is limited.

Scalars are read as kubectl reads them (sigs.k8s.io/yaml v1.6.0, resolve.go of go.yaml.in/yaml/v2
v2.4.3): `y` is true, `0o14` is 12, timestamps and scalars with an unknown tag are text, `<<` merges
at its own position, and the last of several equal keys wins.
"""

import math
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import msgspec
import yaml
from msgspec import Raw

#: The limit for all alias values of a text, in characters of JSON: 16,384 objects of 1 KiB.
MAX_ALIASED_SIZE: Final = 2**24

YAML_PARSER: Final[Any] = yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader
_DUMPER: Final[Any] = yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper

_NAMED: Final[dict[str, Any]] = {
    word: value
    for value, words in (
        (True, "y Y yes Yes YES true True TRUE on On ON"),
        (False, "n N no No NO false False FALSE off Off OFF"),
        (None, "~ null Null NULL"),
    )
    for word in words.split()
} | {"": None}
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_INT: Final = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]{0,19})")
_OCTAL: Final = re.compile(r"\A([-+]?)0(?=[0-9])")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_TAG: Final = "tag:yaml.org,2002:"
#: A scalar with any other tag is text.
_TYPES: Final = frozenset(f"{_TAG}{name}" for name in ("bool", "float", "int", "null"))


class YamlError(ValueError):
    """The text is not YAML, or its aliases expand to too much. The message is one line."""


def yaml_documents(text: bytes, *, pack_items: bool = False) -> Iterator[object]:
    """The documents. pack_items: objects in a document's list `items` are Raw. Raises YamlError."""
    try:
        yield from _Builder(text, pack_items=pack_items).documents()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = error.problem or error.context or "not understood"
        raise YamlError(f"{_place(mark)}invalid YAML: {said}{_hint(text)}") from None
    except yaml.reader.ReaderError as error:
        raise YamlError(f"invalid YAML: {error.reason}, at byte {error.position}") from None
    except RecursionError:
        raise YamlError("nested too deeply") from None
    except YamlError as error:
        raise YamlError(f"{error}{_hint(text)}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise YamlError(f"invalid YAML: {' '.join(str(error).split())}") from None


def _hint(text: bytes) -> str:
    """A hint if the text is a chart's template: it then has actions of Go's text/template."""
    is_template = re.search(rb"\{\{.*?\}\}", text)
    return "; a template must be rendered first (helm template)" if is_template else ""


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def plain_word(text: str) -> Any:
    """The value of a scalar without quotes."""
    if text in _NAMED:
        return _NAMED[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    digits = text.replace("_", "")
    if _INT.fullmatch(digits):
        whole = int(_OCTAL.sub(r"\g<1>0o", digits), 0)
        if -(2**63) <= whole < 2**64:
            return whole
    if not _FLOAT.fullmatch(digits) or math.isinf(real := float(digits)):
        return text
    # Go writes 1e3 as 1000, which is then read as an integer.
    return int(real) if real.is_integer() and abs(real) < 2**53 else real


class _Builder:
    def __init__(self, text: bytes, *, pack_items: bool) -> None:
        self._events = yaml.parse(text, Loader=YAML_PARSER)
        self._pack_items = pack_items
        #: The values by anchor, and the JSON sizes of the values that aliases have used.
        self._anchors: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}
        self._aliased = 0

    def documents(self) -> Iterator[object]:
        for event in self._events:
            if type(event) is yaml.DocumentStartEvent:
                self._anchors.clear()
                self._sizes.clear()
                yield self._value(next(self._events), is_document=True)

    def _value(self, event: Any, *, is_document: bool = False) -> Any:
        kind = type(event)
        if kind is yaml.AliasEvent:
            return self._alias(event)
        if kind is yaml.ScalarEvent:
            is_plain = event.implicit[0] if event.tag is None else event.tag in _TYPES
            value = plain_word(event.value) if is_plain else event.value
        elif kind is yaml.MappingStartEvent:
            value = self._mapping(is_document=is_document)
        else:
            value = self._sequence()
        if event.anchor is not None:
            self._anchors[event.anchor] = value
            self._sizes.pop(event.anchor, None)
        return value

    def _sequence(self) -> list[Any]:
        found = []
        while type(event := next(self._events)) is not yaml.SequenceEndEvent:
            found.append(self._value(event))
        return found

    def _mapping(self, *, is_document: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while type(event := next(self._events)) is not yaml.MappingEndEvent:
            if type(event) is yaml.ScalarEvent and event.value == "<<" and event.implicit[0]:
                self._merge(found, next(self._events))
                continue
            key, first = self._key(event), next(self._events)
            is_list = type(first) is yaml.SequenceStartEvent and first.anchor is None
            if is_document and self._pack_items and key == "items" and is_list:
                found[key] = list(self._packed_items())
            else:
                found[key] = self._value(first)
        return found

    def _packed_items(self) -> Iterator[Any]:
        while type(event := next(self._events)) is not yaml.SequenceEndEvent:
            value = self._value(event)
            yield Raw(msgspec.json.encode(value)) if type(value) is dict else value

    def _key(self, event: Any) -> str:
        """A key, which is text even if the same scalar is a number or boolean as a value."""
        key = event.value if type(event) is yaml.ScalarEvent else self._value(event)
        if not isinstance(key, str):
            raise _error(event, "invalid YAML: a key is neither text nor a number")
        if type(event) is yaml.ScalarEvent and event.anchor is not None:
            self._anchors[event.anchor] = key
        return key

    def _merge(self, target: dict[str, Any], event: Any) -> None:
        value = self._value(event)
        sources = value if type(value) is list else [value]
        if not all(type(each) is dict for each in sources):
            raise _error(event, "invalid YAML: << takes an object or a list of objects")
        # Earlier objects of a list win over later ones.
        for each in reversed(sources):
            target.update(each)

    def _alias(self, event: Any) -> Any:
        name = event.anchor
        if name not in self._anchors:
            raise _error(event, f"invalid YAML: there is no &{name} complete before *{name}")
        value = self._anchors[name]
        if name not in self._sizes:
            self._sizes[name] = len(msgspec.json.encode(value))
        self._aliased += self._sizes[name]
        if self._aliased > MAX_ALIASED_SIZE:
            raise _error(event, f"aliases stand for more than {MAX_ALIASED_SIZE:,} characters")
        return value


def _error(event: Any, text: str) -> YamlError:
    return YamlError(f"{_place(event.start_mark)}{text}")


class YamlDumper(_DUMPER):  # type: ignore[misc]  # the base is chosen when the program starts
    """Quotes text that Kubernetes would read as a number or boolean. Writes no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        # PyYAML alone does not quote y, 1e3 and 0o14, which its own YAML 1.1 reads as text.
        style = None if plain_word(text) == text else '"'
        if "\n" in text:
            style = "|"
        node: yaml.ScalarNode = self.represent_scalar(f"{_TAG}str", str(text), style)
        return node


YamlDumper.add_representer(str, YamlDumper.represent_text)
YamlDumper.add_multi_representer(StrEnum, YamlDumper.represent_text)


def yaml_text(value: object) -> str:
    """A value in YAML's block style, with its keys in their order, without folded lines."""
    text: str = yaml.dump(
        value,
        Dumper=YamlDumper,
        default_flow_style=False,
        sort_keys=False,
        allow_unicode=True,
        width=2**31 - 1,
    )
    return text
