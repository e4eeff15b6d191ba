"""Files are written whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

from mccompile.ir.whole import written_whole


def test_a_file_is_replaced_at_the_end_only(tmp_path: Path) -> None:
    path = tmp_path / "net.txt"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError), written_whole(path) as staged:
        staged.write_text("half \udcff", encoding="utf-8")
    assert (path.read_text(), os.listdir(tmp_path)) == ("before", ["net.txt"])
    with written_whole(path) as staged:
        staged.write_text("after")
        assert path.read_text() == "before"
    assert (path.read_text(), os.listdir(tmp_path)) == ("after", ["net.txt"])


def test_what_is_no_file_keeps_its_place(tmp_path: Path) -> None:
    """As /dev/null, which a user with all rights would lose."""
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()), daemon=True)
    reader.start()
    with written_whole(path) as staged:
        staged.write_text("through")
    reader.join(timeout=10)
    assert (read, path.is_fifo(), os.listdir(tmp_path)) == (["through"], True, ["pipe"])


def test_a_folder_is_no_place_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "net.txt").mkdir()
    with pytest.raises(OSError, match="directory"), written_whole(tmp_path / "net.txt") as staged:
        staged.write_text("text")
    assert os.listdir(tmp_path) == ["net.txt"]


def test_no_name_is_no_file() -> None:
    """As an option gives it whose value is an empty variable."""
    with pytest.raises(OSError, match="directory"), written_whole(Path("")):
        pass
