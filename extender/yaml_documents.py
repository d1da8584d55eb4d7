"""YAML → what JSON can say, straight from the parser's events and bounded in what it may become.

A loader that first composes a graph of the whole text takes a kilobyte for each word of it, and a
few lines of aliases can expand to more than any memory holds. Here one pass makes the values,
counts the size of each with its aliases expanded, and turns the elements of a List into JSON one by
one, so that a List of a whole cluster takes no more than its text.

It reads as Kubernetes does (sigs.k8s.io/yaml): times stay strings, keys become strings, `<<`
merges, and of two equal keys the last one counts.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml
from msgspec import Raw

#: The deepest nesting of lists and objects; Kubernetes objects have about 20 levels.
MAX_DEPTH: Final = 200

#: Characters of one object with its aliases expanded; a value counts one more than its length, a
#: list or object one. kube-apiserver and etcd take 1.5 MiB a request, as JSON, which is no shorter;
#: this is a little more than twice that. A word takes a hundred bytes of memory: 400 MB at the
#: worst.
MAX_OBJECT_SIZE: Final = 2**22

#: Characters to which the aliases of one text may expand: 65,536 objects that share 1 KiB.
MAX_ALIASED_SIZE: Final = 2**26

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"


class YamlError(ValueError):
    """The text is no YAML, or expands to too much; one line."""


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """The parser of events, and the types of plain words."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, regexp)
        for tag, regexp in resolvers
        if tag not in (f"{_TAG}timestamp", f"{_TAG}value")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

#: Longer words are text, whatever they look like; shorter ones are remembered with their type.
_LONGEST_NUMBER: Final = 400
_KEPT_WORDS: Final = 4096


def yaml_documents(
    text: bytes, *, pack_items: bool = False, duplicates: list[str] | None = None
) -> Iterator[object]:
    """The documents of a text. Raises YamlError.

    With pack_items, each object in the list under a document's `items` is its JSON, a Raw.
    duplicates receives the place and name of each key that stands twice in one object, before that
    document is yielded.
    """
    try:
        yield from _Builder(text, pack_items=pack_items, duplicates=duplicates).documents()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = error.problem or error.context or "not understood"
        raise YamlError(f"{_place(mark)}invalid YAML: {said}{_hint(text)}") from None
    except yaml.reader.ReaderError as error:
        raise YamlError(f"invalid YAML: {error.reason}, at byte {error.position}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        if isinstance(error, YamlError):
            raise YamlError(f"{error}{_hint(text)}") from None
        raise YamlError(f"invalid YAML: {' '.join(str(error).split())}") from None


#: An action of Go's text/template, as charts of Helm have them.
_ACTION: Final = re.compile(rb"\{\{.*?\}\}")


def _hint(text: bytes) -> str:
    """What to do about a chart's template, which is no YAML before it is rendered."""
    return "; a template must be rendered first (helm template)" if _ACTION.search(text) else ""


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


class _Open:
    """A list or object that is not complete yet."""

    __slots__ = ("anchor", "before", "height", "key", "merged", "value")

    def __init__(self, value: Any, anchor: str | None, before: int) -> None:
        self.value = value
        self.anchor = anchor
        #: The size of everything before it.
        self.before = before
        #: The key whose value comes next; None when a key comes next.
        self.key: Any = None
        self.merged: list[dict[str, Any]] = []
        self.height = 1


#: The key `<<`.
_MERGES: Final = object()


class _Builder:
    def __init__(self, text: bytes, *, pack_items: bool, duplicates: list[str] | None) -> None:
        loader: Any = _Loader(text)
        self._loader = loader
        self._numbers = {
            f"{_TAG}int": loader.construct_yaml_int,
            f"{_TAG}float": loader.construct_yaml_float,
            f"{_TAG}bool": loader.construct_yaml_bool,
            f"{_TAG}null": loader.construct_yaml_null,
        }
        self._pack_items = pack_items
        self._duplicates = duplicates
        self._open: list[_Open] = []
        #: (value, size, height) by anchor; None while it is not complete.
        self._anchors: dict[str, tuple[Any, int, int] | None] = {}
        #: Characters of the current object, of what has an anchor, and of all aliases.
        self._size = self._kept = self._aliased = 0
        self._event: Any = None
        self._words: dict[str, Any] = {}

    def documents(self) -> Iterator[object]:
        try:
            while True:
                event = self._loader.get_event()
                if event is None or type(event) is yaml.StreamEndEvent:
                    return
                if type(event) is yaml.DocumentStartEvent:
                    self._anchors.clear()
                    self._size = self._kept = 0
                    yield self._document()
        finally:
            self._loader.dispose()

    def _document(self) -> object:
        get_event = self._loader.get_event
        while True:
            self._event = event = get_event()
            kind = type(event)
            height = 0
            if kind is yaml.ScalarEvent:
                value = self._scalar(event)
                size = len(event.value) + 1
                self._size += size
                if event.anchor is not None:
                    self._keep(event.anchor, value, size, height)
            elif kind is yaml.MappingStartEvent:
                self._start(event, {})
                continue
            elif kind is yaml.SequenceStartEvent:
                self._start(event, [])
                continue
            elif kind is yaml.AliasEvent:
                value, height = self._alias(event.anchor)
            else:
                value, height = self._end()
            if self._size > MAX_OBJECT_SIZE:
                raise self._error(f"one object comes to more than {MAX_OBJECT_SIZE} characters")
            if not self._open:
                return value
            self._put(value, height)

    def _error(self, text: str) -> YamlError:
        return YamlError(f"{_place(self._event.start_mark)}{text}")

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        tag = event.tag
        if tag is None:
            # The first letter of most words shows that they are text.
            if not event.implicit[0] or text[:1] not in _Loader.yaml_implicit_resolvers:
                return text
            if text in self._words:
                return self._words[text]
            if len(text) > _LONGEST_NUMBER:
                return text
        value = self._resolved(event, text, tag)
        if tag is None and value is not _MERGES and len(self._words) < _KEPT_WORDS:
            self._words[text] = value
        return value

    def _resolved(self, event: Any, text: str, tag: str | None) -> Any:
        if tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)
            # 1:30 is a number to the base of 60 in YAML 1.1 only.
            if ":" in text and tag != _MERGE:
                return text
        if tag in (f"{_TAG}str", f"{_TAG}timestamp"):
            return text
        if tag == _MERGE:
            opened = self._open[-1] if self._open else None
            is_key = opened is not None and opened.key is None and type(opened.value) is dict
            return _MERGES if is_key else text
        if tag not in self._numbers:
            raise self._error(f"JSON has nothing like {tag}")
        node = yaml.ScalarNode(tag, text, event.start_mark, event.end_mark)
        try:
            value = self._numbers[tag](node)
            # A float, as in Go where 64 bits are too few.
            is_long = isinstance(value, int) and not -(2**63) <= value < 2**64
            return float(value) if is_long else value
        except (ArithmeticError, LookupError, ValueError):
            kind = tag.removeprefix(_TAG)
            raise self._error(f"invalid YAML: {text[:60]!r} can't be read as {kind}") from None

    def _start(self, event: Any, value: Any) -> None:
        if event.tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
            raise self._error(f"JSON has nothing like {event.tag}")
        if len(self._open) >= MAX_DEPTH:
            raise self._error(f"nested more than {MAX_DEPTH} levels deep")
        self._open.append(_Open(value, event.anchor, self._size))
        self._size += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _end(self) -> tuple[Any, int]:
        ended = self._open.pop()
        value = ended.value
        if ended.merged:
            # Keys of the object itself win over merged ones, and earlier merges over later ones.
            together: dict[str, Any] = {}
            for each in reversed(ended.merged):
                together.update(each)
            value = {**together, **value}
        if ended.anchor is not None:
            self._keep(ended.anchor, value, self._size - ended.before, ended.height)
        if self._size <= MAX_OBJECT_SIZE and self._is_item(value):
            return self._packed(value, ended.before)
        return value, ended.height

    def _is_item(self, value: Any) -> bool:
        return (
            self._pack_items
            and type(value) is dict
            and len(self._open) == 2
            and self._open[0].key == "items"
            and type(self._open[1].value) is list
        )

    def _packed(self, value: Any, before: int) -> tuple[Any, int]:
        """An object as JSON; its size does not count for the next one."""
        self._size = before + 1
        return Raw(msgspec.json.encode(value)), 1

    def _keep(self, anchor: str, value: Any, size: int, height: int) -> None:
        self._anchors[anchor] = (value, size, height)
        # A value with an anchor stays in memory.
        self._kept += size
        if self._kept > MAX_ALIASED_SIZE:
            raise self._error(f"anchors are on more than {MAX_ALIASED_SIZE} characters")

    def _alias(self, anchor: str) -> tuple[Any, int]:
        if anchor not in self._anchors:
            raise self._error(f"invalid YAML: there is no &{anchor} before *{anchor}")
        found = self._anchors[anchor]
        if found is None:
            raise self._error(f"*{anchor} stands within &{anchor} itself")
        value, size, height = found
        self._aliased += size
        if self._aliased > MAX_ALIASED_SIZE:
            raise self._error(f"aliases stand for more than {MAX_ALIASED_SIZE} characters")
        if len(self._open) + height > MAX_DEPTH:
            raise self._error(f"nested more than {MAX_DEPTH} levels deep by aliases")
        before = self._size
        self._size += size
        if self._size <= MAX_OBJECT_SIZE and self._is_item(value):
            return self._packed(value, before)
        return value, height

    def _put(self, value: Any, height: int) -> None:
        into = self._open[-1]
        if height >= into.height:
            into.height = height + 1
        target = into.value
        if type(target) is list:
            target.append(value)
        elif into.key is None:
            into.key = value if value is _MERGES else self._key(value)
            if self._duplicates is not None and value is not _MERGES and into.key in target:
                self._duplicates.append(f"{_place(self._event.start_mark)}{into.key}")
        else:
            if into.key is _MERGES:
                self._merge(into, value)
            else:
                target[into.key] = value
            into.key = None

    def _key(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return str(value)
        raise self._error("invalid YAML: a key is neither text nor a number")

    def _merge(self, into: _Open, value: Any) -> None:
        sources = value if type(value) is list else [value]
        if not all(type(each) is dict for each in sources):
            raise self._error("invalid YAML: << takes an object or a list of objects")
        into.merged += sources
