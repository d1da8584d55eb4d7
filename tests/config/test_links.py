"""The links of the pages lead somewhere: to a file that is there, and to a heading that it has."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.processes import ROOT

_INDEX: Final = ROOT / "docs" / "README.md"
_PAGES: Final = sorted(
    page for at in ("", "docs/**/", "scheduler-config/**/") for page in ROOT.glob(f"{at}*.md")
)
_FENCED: Final = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def _prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text())


def _anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    seen: Counter[str] = Counter()
    for heading in _HEADING.findall(_prose(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def _local_links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """(link, file, heading) of each link that stays in the repository."""
    for link in _LINK.findall(_prose(page)):
        if "://" not in link and not link.startswith("mailto:"):
            path, _, anchor = link.partition("#")
            yield link, (page.parent / path).resolve() if path else page, anchor


@pytest.mark.parametrize(
    "page", [pytest.param(each, id=str(each.relative_to(ROOT))) for each in _PAGES]
)
def test_every_link_of_a_page_leads_to_something(page: Path) -> None:
    astray = [
        link
        for link, target, anchor in _local_links(page)
        if not target.exists() or (anchor and anchor not in _anchors(target))
    ]
    assert astray == []


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = {target for _, target, _ in _local_links(_INDEX)}
    pages = {page for page in (ROOT / "docs").glob("*.md") if page != _INDEX}
    assert sorted(page.name for page in pages - listed) == []


def test_every_alert_leads_to_what_to_do() -> None:
    rules = yaml.safe_load((ROOT / "chart" / "files" / "rules.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert anchor in _anchors(ROOT / page), rule["alert"]
