"""The profiles of runtimes say what docs/runtimes.md gives a source for, and nothing else."""

import re

from extender.decoding.class_annotations import FEATURES, ISOLATION_LEVELS, rules_of
from tests.config.shipped import FOLDER, documents
from tests.processes import ROOT

PROFILES = FOLDER / "samples" / "runtimes" / "runtimeclasses.yaml"

_ROW = re.compile(r"^\| (?:`([a-z-]+)`)? ?\| (`.*`) \| .+ \|$", re.MULTILINE)


def test_each_word_of_a_profile_has_a_source() -> None:
    page = (ROOT / "docs" / "runtimes.md").read_text()
    section = page.partition("### Profiles")[2].partition("\n## ")[0]
    told: dict[str, set[str]] = {}
    name = ""
    for new, words in _ROW.findall(section):
        name = new or name
        told.setdefault(name, set()).update(re.findall(r"`([^`]+)`", words))
    said = {}
    for each in documents(PROFILES):
        rules = rules_of(each["metadata"]["annotations"])
        assert rules is not None
        assert not rules.faults
        assert rules.isolation in ISOLATION_LEVELS
        said[each["metadata"]["name"]] = set(rules.unsupported)
    assert said == told


def test_the_page_explains_every_word() -> None:
    page = (ROOT / "docs" / "runtimes.md").read_text()
    assert [word for word in (*FEATURES, "resource:NAME") if f"`{word}`" not in page] == []
