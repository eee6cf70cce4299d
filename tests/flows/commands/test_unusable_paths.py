"""Paths that this user may not read or write: an error with path and remedy, never a traceback."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.cli import main
from infra.errors import UserError, output_error, path_error
from tasks.own.files import OwnFiles
from tests.support.processes.permissions import without_override


@pytest.fixture
def unreadable(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file of mode 000, while permissions hold for root too."""
    folder = tmp_path / "noread"
    folder.mkdir()
    for name in ("a.txt", "v.csv"):
        (folder / name).write_text("text,label\n咳嗽,1\n发热,0\n", encoding="utf-8")
        (folder / name).chmod(0)
    with without_override():
        yield folder


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err


def test_text_that_cannot_be_read_is_named(unreadable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = failed(capsys, "deidentify", str(unreadable / "a.txt"))
    assert shown == (
        f"error: {unreadable / 'a.txt'} cannot be used (Permission denied). "
        "Give this user access to it, or another path.\n"
    )


def test_file_in_a_folder_that_cannot_be_entered_is_not_taken_for_a_text(
    unreadable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unreadable.chmod(0)
    try:
        assert f"error: {unreadable / 'a.txt'} cannot be used" in failed(
            capsys, "deidentify", str(unreadable / "a.txt")
        )
    finally:
        unreadable.chmod(0o700)


def test_data_that_cannot_be_read_are_named(
    unreadable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "bert", "hidden_size": 8}')
    data = unreadable / "v.csv"
    shown = failed(capsys, "run", "finetune/classify", "--param", f"data={data}", "--param", f"model={model}")
    assert f"error: {data} cannot be read: Permission denied. Grant read permission, or give another file." in shown
    with pytest.raises(UserError, match=r"v\.csv cannot be read: Permission denied"):
        _ = OwnFiles(data).fingerprint


def test_folder_that_cannot_be_written_is_named(
    unreadable: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = tmp_path / "noperm"
    closed.mkdir()
    closed.chmod(0)
    shown = failed(capsys, "export", "--model", str(tmp_path), "--onnx", "--output", str(closed / "x"))
    closed.chmod(0o700)
    assert shown.startswith(f"error: {closed / 'x'} cannot be used (Permission denied). ")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EACCES, "Give this user access to it, or another path."),
        (errno.EROFS, "Give a path on a disk that can be written to."),
        (errno.ENOTDIR, "A file is where a folder should be: give another path."),
    ],
)
def test_error_of_a_path_has_its_remedy(number: int, remedy: str) -> None:
    found = path_error(OSError(number, os.strerror(number), "/data/x"))
    assert str(found) == f"/data/x cannot be used ({os.strerror(number)}). {remedy}"


@pytest.mark.parametrize("error", [OSError(errno.EIO, "I/O error", "/x"), OSError(errno.EACCES, "no"), ValueError("x")])
def test_other_errors_are_not_those_of_a_path(error: Exception) -> None:
    assert path_error(error) is None


def test_only_a_terminal_s_encoding_and_a_full_device_are_errors_of_output() -> None:
    found = output_error(UnicodeEncodeError("ascii", "王", 0, 1, "ordinal not in range(128)"))
    assert found is not None and "is ascii" in str(found)
    assert output_error(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")) is None
    assert output_error(OSError(errno.ENOSPC, "No space left on device")) is not None
    assert output_error(OSError(errno.ENOSPC, "No space left on device", "/data/x")) is None
    assert output_error(OSError(errno.EIO, "Input/output error")) is None
