"""docs/performance.md holds the output of the benchmarks, and nothing else is touched."""

from pathlib import Path

import pytest

from loadtest import publish


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for name in publish.NAMES:
        (tmp_path / f"{name}.md").write_text(f"| {name} |\n\\1 as it is\n")
    for name in publish.PLOTS:
        (tmp_path / name).write_bytes(b"PNG")
    return tmp_path


def test_what_stands_between_the_marks_is_replaced(out: Path) -> None:
    document = out / "performance.md"
    document.write_text(
        "# Head\n"
        + "".join(f"<!-- {name} -->\nold\n<!-- end {name} -->\ntext\n" for name in publish.NAMES)
    )
    assert publish.main(["--out", str(out), "--document", str(document)]) == 0
    text = document.read_text()
    assert "old" not in text
    assert text.count("text\n") == len(publish.NAMES)
    assert "<!-- start -->\n| start |\n\\1 as it is\n<!-- end start -->" in text
    assert (out / "performance" / "bench.png").read_bytes() == b"PNG"


def test_what_was_not_measured_stays_as_it_is(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = out / "performance.md"
    marked = "".join(f"<!-- {name} -->\nold\n<!-- end {name} -->\n" for name in publish.NAMES)
    document.write_text(marked)
    for left in (out / "scheduler.md", out / "scheduler.png"):
        left.unlink()
    assert publish.main(["--out", str(out), "--document", str(document)]) == 0
    assert document.read_text().count("old") == 1
    assert "<!-- scheduler -->\nold\n<!-- end scheduler -->" in document.read_text()
    assert "scheduler: not measured, left as it was" in capsys.readouterr().out


def test_where_nothing_was_measured_nothing_is_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "performance.md"
    document.write_text("# Head\n")
    assert publish.main(["--out", str(tmp_path / "none"), "--document", str(document)]) == 1
    assert "nothing to publish" in capsys.readouterr().err


def test_a_document_without_marks_is_left_alone(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = out / "performance.md"
    document.write_text("# Head\n")
    assert publish.main(["--out", str(out), "--document", str(document)]) == 1
    assert document.read_text() == "# Head\n"
    assert "no <!-- bench -->" in capsys.readouterr().err


def test_the_document_of_this_repository_has_the_marks() -> None:
    text = publish.DOCUMENT.read_text()
    for name in publish.NAMES:
        assert publish.with_output(text, name, "new") != text
