"""The documents hold the output of the benchmarks, and nothing else is touched."""

from pathlib import Path

import pytest

from loadtest import publish

_NAMES = [name for names in publish.NAMES.values() for name in names]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for name in _NAMES:
        (tmp_path / f"{name}.md").write_text(f"| {name} |\n\\1 as it is\n")
    for names in publish.PLOTS.values():
        for name in names:
            (tmp_path / name).write_bytes(b"PNG")
    return tmp_path


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Each part of each document between its marks."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for document, names in publish.NAMES.items():
        marked = "".join(f"<!-- {name} -->\nold\n<!-- end {name} -->\ntext\n" for name in names)
        (folder / document).write_text(f"# Head\n{marked}")
    return folder


def test_what_stands_between_the_marks_is_replaced(out: Path, docs: Path) -> None:
    assert publish.main(["--out", str(out), "--docs", str(docs)]) == 0
    for document, names in publish.NAMES.items():
        text = (docs / document).read_text()
        assert "old" not in text
        assert text.count("text\n") == len(names)
        for name in names:
            assert f"<!-- {name} -->\n| {name} |\n\\1 as it is\n<!-- end {name} -->" in text
        for plot in publish.PLOTS[document]:
            assert (docs / Path(document).stem / plot).read_bytes() == b"PNG"


def test_what_was_not_measured_stays_as_it_is(
    out: Path, docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for left in ("scheduler.md", "scheduler.png", "sizing.md"):
        (out / left).unlink()
    assert publish.main(["--out", str(out), "--docs", str(docs)]) == 0
    text = (docs / "performance.md").read_text()
    assert text.count("old") == 1
    assert "<!-- scheduler -->\nold\n<!-- end scheduler -->" in text
    assert "old" in (docs / "sizing.md").read_text()
    assert not (docs / "sizing").exists()
    assert "scheduler: not measured, left as it was" in capsys.readouterr().out


def test_where_nothing_was_measured_nothing_is_published(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert publish.main(["--out", str(tmp_path / "none"), "--docs", str(docs)]) == 1
    assert "nothing to publish" in capsys.readouterr().err
    assert "old" in (docs / "sizing.md").read_text()


def test_a_document_without_marks_is_left_alone(
    out: Path, docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = docs / "performance.md"
    document.write_text("# Head\n")
    assert publish.main(["--out", str(out), "--docs", str(docs)]) == 1
    assert document.read_text() == "# Head\n"
    assert "no <!-- bench -->" in capsys.readouterr().err


def test_the_documents_of_this_repository_have_the_marks() -> None:
    for document, names in publish.NAMES.items():
        text = (publish.DOCS / document).read_text()
        for name in names:
            assert publish.with_output(text, name, "new") != text
