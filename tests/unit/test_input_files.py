"""Files that a person named, and pipes."""

import os
import threading
from pathlib import Path

import pytest

from extender.input_files import FileError, check_file, read_file


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_file(tmp_path / "a", 5) == b"12345"
    with pytest.raises(FileError, match="has more than 4 bytes"):
        read_file(tmp_path / "a", 4)


def test_a_pipe_is_read_to_its_end_where_one_may_stand(tmp_path: Path) -> None:
    """A shell's <(...) is one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = b"x" * 300_000

    def write() -> None:
        pipe.write_bytes(text)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_file(pipe, pipes=True) == text
    writer.join()
    with pytest.raises(FileError, match="is a pipe, expected a file"):
        read_file(pipe)
    with pytest.raises(FileError, match="is a pipe, expected a file"):
        check_file(pipe)


def test_an_endless_pipe_is_read_up_to_its_limit() -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "wb") as writing:
        writing.write(b"x" * 1000)
        writing.flush()
        with pytest.raises(FileError, match="has more than 999 bytes"):
            read_file(f"/dev/fd/{ours}", 999, pipes=True)


def test_a_pipe_that_stays_silent_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match=r"gave nothing for 0.01 s"):
        read_file(tmp_path / "pipe", pipes=True, silence=0.01)


@pytest.mark.parametrize(
    ("path", "said"),
    [("/none", "No such file"), ("/", "is a folder"), ("/dev/zero", "is a device")],
)
def test_what_is_no_file_is_told(path: str, said: str) -> None:
    for look in (read_file, check_file):
        with pytest.raises(FileError, match=said):
            look(path)
