"""Reading YAML: as kubectl reads it, except where kubectl drops text without a word."""

from typing import Any, Final

import msgspec

from extender.cluster.input_files import ManifestError
from extender.cluster.manifest_objects import documents_of
from extender.kubernetes.yaml_documents import YamlError, yaml_documents
from tests.vectors_file import raw_vectors

REFUSED: Final = "refused"

#: What kubectl takes and this program refuses, or the reverse.
DIFFERENT: Final = {
    # Of what stands behind a document's end kubectl reads nothing up to the next ---.
    "a: 1\n...\nb: 2\n": REFUSED,
    "[a] b": REFUSED,
    "'a' b": REFUSED,
    # libyaml 0.2.5 is newer than the version that go.yaml.in/yaml/v2 was made of.
    "v: !,": REFUSED,
    'v: "a\\\'b"': REFUSED,
    "v: {a:}": REFUSED,
    "v: [a?, b]": [{"v": ["a?", "b"]}],
}


def _read(text: str) -> Any:
    try:
        if text.startswith("{"):
            return [msgspec.json.decode(raw) for _, raw in documents_of(text.encode())]
        return [each for each in yaml_documents(text.encode()) if each is not None]
    except (YamlError, ManifestError):
        return REFUSED


def _alike(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 is not true, and a number is what Go or Python writes for the same float."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if {type(one), type(other)} == {int, float}:
        return float(one) == float(other)
    return type(one) is type(other) and one == other


def test_a_text_is_read_as_kubectl_reads_it() -> None:
    recorded = raw_vectors("yaml")["cases"]
    cases = {text: answer[0] if answer else REFUSED for text, *answer in recorded}
    assert DIFFERENT.keys() <= cases.keys()
    wrong = [
        (text, expected, found)
        for text, expected in (cases | DIFFERENT).items()
        if not _alike(found := _read(text), expected)
    ]
    assert not wrong
