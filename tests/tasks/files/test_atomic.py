"""Output files are atomic."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.files.atomic import whole_file


def write(target: Path, text: str = "new") -> None:
    with whole_file(target, Path("input")) as file:
        file.write(text)


def test_the_old_file_remains_until_the_end(tmp_path: Path) -> None:
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


def test_links_long_names_and_new_folders_are_supported(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    write(link)
    assert link.is_symlink() and real.read_text() == "new"
    long = tmp_path / "new" / ("诊" * 80 + ".csv")
    write(long)
    assert long.read_text() == "new"


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write(pipe)
    assert os.read(reader, 10) == b"new" and pipe.is_fifo()
    os.close(reader)


def test_an_unwritable_target_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("text")
    with (
        pytest.raises(UserError, match=r"is the input itself\. Give another file"),
        whole_file(tmp_path / "." / "in.txt", source),
    ):
        pass
    with pytest.raises(UserError, match=r"cannot be written: .*Give another file"):
        write(source / "below.txt")
    assert source.read_text() == "text"
