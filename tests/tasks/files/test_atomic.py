"""Output files are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.files.atomic import whole_file


def write(target: Path, text: str = "new") -> None:
    with whole_file(target, Path("input")) as file:
        file.write(text)


def test_what_was_there_stays_until_the_end(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    write(target, "old")
    target.chmod(0o640)
    with pytest.raises(RuntimeError), whole_file(target, Path("input")) as file:
        file.write("new")
        raise RuntimeError
    assert target.read_text() == "old"
    write(target)
    assert target.read_text() == "new" and target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_links_long_names_and_new_folders_are_as_with_any_file(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    write(link)
    assert link.is_symlink() and real.read_text() == "new"
    long = tmp_path / "new" / ("诊" * 80 + ".csv")
    write(long)
    assert long.read_text() == "new"


def test_what_is_no_file_is_written_as_it_comes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write(pipe)
    assert os.read(reader, 10) == b"new" and pipe.is_fifo()
    os.close(reader)


def test_the_input_and_places_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("text")
    with pytest.raises(UserError, match="is the input itself"), whole_file(tmp_path / "." / "in.txt", source):
        pass
    with pytest.raises(UserError, match=r"cannot be written: .*Give another file"):
        write(source / "below.txt")
    assert source.read_text() == "text"
