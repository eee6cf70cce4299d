"""What an object store refuses or does not answer, as errors with a remedy; on a local root nothing is explained."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import fsspec
import pytest

from flows.cli import app
from infra.artifacts import make_folder, open_for_writing, store_error, store_explained
from infra.errors import DamagedArtifactError, StoreLostError, UserError

ROOT = "s3://hospital/home"


def of_driver(name: str) -> Exception:
    """An error as botocore's are: of a class of its own, without a number."""
    kind = type(name, (Exception,), {"__module__": "botocore.exceptions"})
    return type("Special", (kind,), {"__module__": "botocore.exceptions"})("no such host")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EBUSY, "Please reduce your request rate"),
        TimeoutError(),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        of_driver("ConnectionError"),
        of_driver("HTTPClientError"),
    ],
    ids=repr,
)
def test_silent_store_may_answer_later(error: Exception) -> None:
    found = store_error(ROOT, error)
    assert type(found) is StoreLostError
    assert str(found).startswith("s3://hospital does not answer, or only with failures: ")


@pytest.mark.parametrize("error", [PermissionError("Access Denied"), of_driver("NoCredentialsError")], ids=repr)
def test_refusal_names_credentials_and_clock(error: Exception) -> None:
    found = store_error(ROOT, error)
    assert type(found) is UserError
    assert "refuses what we ask" in str(found) and "expired" in str(found) and "clock" in str(found)


def test_missing_bucket_is_named() -> None:
    found = store_error(ROOT, FileNotFoundError("The specified bucket does not exist"))
    assert type(found) is UserError and "YIWEN_HOME=s3://hospital/home" in str(found)


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied", "/etc/shadow"),  # of a file of the user's, not of the store
        FileNotFoundError(errno.ENOENT, "No such file or directory", "bucket.txt"),
        FileNotFoundError("no key of this name"),
        OSError(errno.EBUSY, "Device or resource busy", "/mnt/disk"),
        ValueError("a defect"),
    ],
    ids=repr,
)
def test_other_errors_pass(error: Exception) -> None:
    assert store_error(ROOT, error) is None
    with pytest.raises(type(error)) as raised, store_explained(ROOT):
        raise error
    assert raised.value is error


@pytest.mark.parametrize("root", ["/data/artifacts", "file:///data/artifacts"])
def test_nothing_is_explained_on_a_local_root(root: str) -> None:
    assert store_error(root, PermissionError("Access Denied")) is None


def test_explained_error_keeps_its_cause_and_users_errors_stay() -> None:
    cause = TimeoutError("30 s")
    with pytest.raises(StoreLostError) as raised, store_explained(ROOT):
        raise cause
    assert raised.value.__cause__ is cause
    with pytest.raises(DamagedArtifactError), store_explained(ROOT):
        raise DamagedArtifactError("a part")


@pytest.mark.parametrize(("home", "explained"), [("s3://hospital/home", True), ("/data", False)])
def test_command_line_explains_what_is_about_the_store(
    home: str, explained: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost() -> None:
        raise TimeoutError("30 s")

    monkeypatch.setenv("YIWEN_HOME", home)
    monkeypatch.setattr(app, "make_app", lost)
    if not explained:
        with pytest.raises(TimeoutError):
            app.main(["runs"])
        return
    assert app.main(["runs"]) == 2
    assert capsys.readouterr().err.startswith("error: s3://hospital does not answer, or only with failures: 30 s. Run")


class Recorded:
    """A filesystem that notes the folders that are made."""

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.made: list[str] = []

    def makedirs(self, path: str, exist_ok: bool) -> None:
        assert exist_ok
        self.made.append(path)


@pytest.mark.parametrize(("protocol", "made"), [(("s3", "s3a"), []), ("gs", []), (("hdfs", "arrow_hdfs"), ["a/b"])])
def test_folders_are_made_where_there_are_folders(protocol: Any, made: list[str]) -> None:
    filesystem: Any = Recorded(protocol)
    make_folder(filesystem, "a/b")
    assert filesystem.made == made


def test_file_is_written_with_its_folder(tmp_path: Path) -> None:
    with open_for_writing(f"{tmp_path}/new/folder/file") as file:
        file.write(b"text")
    assert (tmp_path / "new" / "folder" / "file").read_bytes() == b"text"


def test_folder_of_a_filesystem_in_memory() -> None:
    filesystem = fsspec.filesystem("memory")
    make_folder(filesystem, "/store_errors/folder")
    assert filesystem.isdir("/store_errors/folder")
    filesystem.rm("/store_errors", recursive=True)
