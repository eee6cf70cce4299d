"""Artifacts' files in a local folder: the artifact's own, or one copy of a remote one for all processes."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fsspec
import pytest

from infra.artifacts import Artifact, ArtifactStore, local_folder
from infra.errors import DamagedArtifactError, StorageFullError, UserError
from infra.stage import Output, StageParams, stage
from tests.support.text.stages import do

FILES = {"one.npy": b"1" * 100_000, "deep/two.json": b"{}"}


class NoParams(StageParams):
    pass


@stage(name="files", version=1, params=NoParams)
def files(inputs: Mapping[str, Any], params: NoParams, out: Output) -> None:
    for name, content in FILES.items():
        out.add_bytes(name, content)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def remote() -> Iterator[Artifact]:
    root = f"memory://{uuid.uuid4().hex}"
    yield do(ArtifactStore(root), files, NoParams())
    fsspec.filesystem("memory").rm(root, recursive=True)


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def test_local_artifact_is_used_where_it_is(store: ArtifactStore, temporary: Path) -> None:
    artifact = do(store, files, NoParams())
    assert local_folder(artifact) == artifact.path
    assert list(temporary.iterdir()) == []


def test_remote_artifact_is_fetched_once(remote: Artifact, temporary: Path) -> None:
    folder = local_folder(remote)
    assert content(folder) == FILES
    assert folder.relative_to(temporary).parts == (f"yiwen-{os.getuid()}", "files", remote.fingerprint)
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    fsspec.filesystem("memory").rm(f"{remote.path}/one.npy")
    assert local_folder(remote) == folder
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before


def test_processes_that_come_together_fetch_one_copy(remote: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    filesystem = fsspec.filesystem("memory")
    fetched, get = [], type(filesystem).get_file

    def counted(self: Any, source: str, target: str, *given: Any, **named: Any) -> None:
        fetched.append(source)
        time.sleep(0.1)  # so that all have come before the first is done
        get(self, source, target, *given, **named)

    monkeypatch.setattr(type(filesystem), "get_file", counted)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(local_folder(remote))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1
    assert len(fetched) == len(FILES)


@pytest.mark.parametrize("name", ["one.npy", "copied"])
def test_copy_that_is_not_whole_is_fetched_again(remote: Artifact, name: str) -> None:
    folder = local_folder(remote)
    (folder / name).unlink()
    assert content(local_folder(remote)) == FILES


def test_damaged_file_is_named_and_no_copy_remains(remote: Artifact, temporary: Path) -> None:
    with fsspec.open(f"{remote.path}/one.npy", "wb") as file:
        file.write(b"2" * 100_000)
    with pytest.raises(DamagedArtifactError, match=r"memory://.*one.npy: its SHA-256 differs"):
        local_folder(remote)
    assert not any(file.name == "one.npy" for file in temporary.rglob("*"))


def test_damaged_local_file_is_named(store: ArtifactStore) -> None:
    artifact = do(store, files, NoParams())
    Path(artifact.path, "one.npy").write_bytes(b"2" * 100_000)
    with pytest.raises(DamagedArtifactError, match=r"one.npy: its SHA-256 differs"):
        local_folder(artifact)
    Path(artifact.path, "one.npy").unlink()
    with pytest.raises(DamagedArtifactError, match=r"one.npy: the file is missing"):
        local_folder(artifact)


def test_full_disk_is_named(remote: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "get_file", full)
    with pytest.raises(StorageFullError, match=r"100,002 bytes.*TMPDIR"):
        local_folder(remote)


def test_folder_of_another_user_is_not_used(remote: Artifact, temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (temporary / f"yiwen-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="belongs to another user"):
        local_folder(remote)
