"""Reading artifacts: every kind of root; every kind of damage is reported with its remedy."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from infra import schemas
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import DamagedArtifactError, UserError
from infra.settings import REPOSITORY
from infra.stage import Output, StageParams, run, stage
from tests.support.processes.building import SampleParams, content_of, leftovers, run_sample

SMALL = SampleParams(parts=2)
FIRST_PART = "documents/part-00000-000.parquet"


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    return run_sample(tmp_path / "store", SMALL).artifact


@pytest.fixture(
    params=[
        "relative",
        "相对/根",
        "home",
        "file",
        "with [brackets]*? and x=y",
        "memory",
        "bucket",
    ]
)
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A root of each kind that a user may give."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    special = {
        "home": "~/store",
        "file": f"file://{tmp_path}/store",
        "memory": f"memory://{tmp_path.name}/根",
        "bucket": f"bucket://{tmp_path}/store",
    }
    yield special.get(request.param, request.param)
    if request.param == "memory":
        ArtifactStore(special["memory"]).filesystem.rm(f"/{tmp_path.name}", recursive=True)


def test_every_kind_of_root_has_the_same_content_and_no_leftovers(
    root: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ArtifactStore(root)
    made = run_sample(root, SMALL)
    # Workers have another working directory and another home; the artifact must still be found.
    monkeypatch.chdir("/")
    monkeypatch.setenv("HOME", "/")
    artifact = pickle.loads(pickle.dumps(made.artifact))

    assert content_of(artifact) == content_of(run_sample(tmp_path_factory.mktemp("plain"), SMALL).artifact)
    assert leftovers(store) == []
    found = store.get("sample", artifact.fingerprint)
    assert found is not None and found.manifest == artifact.manifest
    assert store.latest("sample").manifest == artifact.manifest
    assert [other.path for other in store.list()] == [artifact.path]
    table = artifact.to_table("documents")
    assert table.num_rows == artifact.rows("documents") == 180
    assert artifact.scan("documents").collect().equals(pl.DataFrame(table))
    assert artifact.scan("documents").filter(pl.col("doc_id") == "1-0-3").collect().height == 1
    assert sum(part.read().num_rows for part in artifact.parts()) == 180
    assert artifact.read_file("目录/说明.txt").decode() == "症状：头痛\n"
    artifact.verify()


def test_artifact_appears_by_one_rename_of_files_that_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy in place of the rename, or a rename before the data are on the disk, would survive most kills."""
    rename, fsync = os.rename, os.fsync
    events: list[tuple[str, str]] = []

    def renamed(source: str, target: str) -> None:
        assert (Path(source) / "manifest.json").is_file() and not Path(target).exists()
        rename(source, target)
        events.append(("renamed", target))

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        events.append(("synced", os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "fsync", synced)
    path = Path(run_sample(tmp_path / "store", SMALL).artifact.path)
    files = [file for file in path.rglob("*") if file.is_file()]
    moved = events.index(("renamed", str(path)))
    assert [event for event in events if event[0] == "renamed"] == [events[moved]]
    assert len([event for event in events[:moved] if event[0] == "synced"]) >= len(files) >= 2
    assert events[moved + 1] == ("synced", str(path.parent))


def test_path_is_a_path_on_disk_and_a_uri_elsewhere(tmp_path: Path) -> None:
    local = run_sample(tmp_path / "store", SMALL).artifact
    remote = run_sample(f"bucket://{tmp_path}/bucket", SMALL).artifact
    assert local.path == tmp_path / "store" / "sample" / local.fingerprint
    assert remote.path == f"bucket://{tmp_path}/bucket/sample/{remote.fingerprint}"


def test_unusable_root_error_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"YIWEN_HOME='nosuch://x'.*fsspec"):
        ArtifactStore("nosuch://x")
    with pytest.raises(UserError, match="must not contain"):
        ArtifactStore("memory://a[b]")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match=r"file.* cannot be written .*YIWEN_HOME"):
        run_sample(tmp_path / "file", SMALL)


def test_empty_or_foreign_root_has_no_artifacts(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    assert store.get("sample", "0" * 32) is None
    assert store.latest("sample") is None
    assert store.list() == []
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample" / "notes.txt").write_text("mine")
    (tmp_path / "sample" / "unfinished").mkdir()
    assert store.get("sample", "unfinished") is None
    assert store.get("notes.txt", "x") is None
    assert store.latest("sample") is None
    assert store.list() == []


def test_latest_returns_the_artifact_finished_last(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    made = [run_sample(tmp_path, SampleParams(parts=1, seed=seed)).artifact for seed in (3, 1, 2)]
    assert store.latest("sample").fingerprint == made[-1].fingerprint
    assert [artifact.fingerprint for artifact in store.list()] == [artifact.fingerprint for artifact in made]


def test_artifact_made_after_the_clock_was_set_back_is_the_latest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = ArtifactStore(tmp_path)
    ahead = run_sample(tmp_path, SampleParams(parts=1, seed=1)).artifact
    manifest = Path(ahead.path, "manifest.json")
    written = json.loads(manifest.read_text())
    written["created_at"] = "2999-01-01T00:00:00.000000+00:00"
    manifest.write_text(json.dumps(written))
    made = run_sample(tmp_path, SampleParams(parts=1, seed=2)).artifact
    assert made.manifest.created_at == "2999-01-01T00:00:00.000001+00:00"
    assert store.latest("sample").fingerprint == made.fingerprint
    assert f"{ahead.path} was made at 2999-01-01T00:00:00+00:00, after the clock's time" in caplog.text


def test_stage_folder_may_be_a_link_to_another_disk(tmp_path: Path) -> None:
    (tmp_path / "other disk").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "sample").symlink_to(tmp_path / "other disk")
    made = run_sample(tmp_path / "store", SMALL).artifact
    assert [artifact.manifest for artifact in ArtifactStore(tmp_path / "store").list()] == [made.manifest]


def test_final_folder_without_manifest_is_ignored_and_replaced(tmp_path: Path, artifact: Artifact) -> None:
    whole = content_of(artifact)
    os.remove(Path(artifact.path) / "manifest.json")
    (Path(artifact.path) / "stray").write_text("x")
    assert ArtifactStore(tmp_path / "store").list() == []

    again = run_sample(tmp_path / "store", SMALL)

    assert not again.reused
    assert content_of(again.artifact) == whole


class NoParams(StageParams):
    pass


@stage(name="empty", version=1, params=NoParams, tables=("segments", "examples"))
def empty(inputs: Any, params: NoParams, out: Output) -> None:
    """Writes no row."""


@pytest.mark.parametrize("prefix", ["", "bucket://"])
def test_empty_tables_have_their_columns(prefix: str, tmp_path: Path) -> None:
    artifact = run(empty, ArtifactStore(f"{prefix}{tmp_path}"), NoParams(), {}).artifact
    assert artifact.to_table("examples").schema == schemas.TABLES["examples"]
    assert artifact.scan("examples").collect_schema().names() == schemas.TABLES["examples"].names
    assert artifact.scan().collect().height == artifact.rows() == 0


def test_columns_can_be_selected_and_unknown_name_errors_list_the_known(artifact: Artifact) -> None:
    part = artifact.parts("documents")[1]
    assert part.read(columns=["text"]).column_names == ["text"]
    assert part.read(columns=["text", "doc_id"]).column_names == ["text", "doc_id"]
    with pytest.raises(UserError, match=r"no table 'segments'. Tables: documents, rejects, metrics"):
        artifact.scan("segments")
    with pytest.raises(UserError, match=r"no file 'nope'. Files: units.json, weights.bin, 目录/说明.txt"):
        artifact.read_file("nope")


READ = """
import os, pickle, sys
from infra.disk.parquet_batches import parquet_batches
def threads():
    return len(os.listdir("/proc/self/task"))
part, file = pickle.load(sys.stdin.buffer)
before = threads()
rows = part.read().num_rows
with open(file, "rb") as source:
    rows += sum(batch.num_rows for batch in parquet_batches(source))
print(rows, threads() - before)
"""


def test_reading_starts_no_thread_that_could_outlive_the_interpreter(artifact: Artifact) -> None:
    part = artifact.parts("documents")[0]
    asked = pickle.dumps((part, str(Path(artifact.path) / FIRST_PART)))
    done = subprocess.run([sys.executable, "-c", READ], input=asked, capture_output=True, check=True, cwd=REPOSITORY)
    assert done.stdout.split() == [b"%d" % (2 * part.rows), b"0"]


def test_extremes_of_a_column_come_from_the_footer(artifact: Artifact) -> None:
    for number, part in enumerate(artifact.parts()):
        ids = part.read(columns=["doc_id"])["doc_id"].to_pylist()
        assert part.unit == number
        assert part.extremes("doc_id") == {min(ids), max(ids)}
    part = artifact.parts()[0]
    (Path(artifact.path) / FIRST_PART).write_bytes(b"not parquet at all")
    with pytest.raises(DamagedArtifactError, match=re.escape(FIRST_PART)):
        part.extremes("doc_id")
    (Path(artifact.path) / FIRST_PART).unlink()
    with pytest.raises(DamagedArtifactError, match="missing"):
        part.extremes("doc_id")


def test_files_can_be_downloaded(artifact: Artifact, tmp_path: Path) -> None:
    artifact.download(tmp_path / "all")
    assert (tmp_path / "all" / "目录" / "说明.txt").read_text(encoding="utf-8") == "症状：头痛\n"
    assert (tmp_path / "all" / "weights.bin").stat().st_size == 5000
    artifact.download(tmp_path / "one", "目录")
    assert [path.name for path in (tmp_path / "one").rglob("*")] == ["说明.txt"]
    artifact.download(tmp_path / "none", "目")
    assert not (tmp_path / "none").exists()


# Damage. Each function damages the file at its path; every reader must detect it and name the file and the remedy.


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def delete(path: Path) -> None:
    path.unlink()


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


READERS: dict[str, Callable[[Artifact], object]] = {
    "scan": lambda artifact: artifact.scan(),
    "to_table": lambda artifact: artifact.to_table(),
    "part": lambda artifact: artifact.parts()[0].read(),
    "part with columns": lambda artifact: artifact.parts()[0].read(columns=["doc_id"]),
    "verify": lambda artifact: artifact.verify(),
}


@pytest.mark.parametrize("damage", [flip, truncate, delete, grow])
@pytest.mark.parametrize("reader", READERS)
def test_damaged_part_error_names_file_and_remedy(damage: Callable, reader: str, artifact: Artifact) -> None:
    READERS[reader](artifact)
    damage(Path(artifact.path) / FIRST_PART)
    fresh = ArtifactStore(artifact.store_root).get("sample", artifact.fingerprint)
    with pytest.raises(DamagedArtifactError) as raised:
        READERS[reader](fresh)
    if damage in (truncate, grow):
        assert re.search(r"it has [\d,]+ bytes instead of the [\d,]+ in the manifest", str(raised.value))
    assert str(Path(artifact.path) / FIRST_PART) in str(raised.value)
    assert f"Delete {artifact.path} and run again" in str(raised.value)


@pytest.mark.parametrize("damage", [flip, truncate, delete, grow])
@pytest.mark.parametrize("reader", ["read_file", "download", "verify"])
def test_damaged_file_error_names_file_and_remedy(
    damage: Callable, reader: str, artifact: Artifact, tmp_path: Path
) -> None:
    damage(Path(artifact.path) / "weights.bin")
    calls = {
        "read_file": lambda: artifact.read_file("weights.bin"),
        "download": lambda: artifact.download(tmp_path / "copy"),
        "verify": artifact.verify,
    }
    with pytest.raises(DamagedArtifactError) as raised:
        calls[reader]()
    assert str(Path(artifact.path) / "weights.bin") in str(raised.value)
    assert f"Delete {artifact.path} and run again" in str(raised.value)


def rename_column(table: pa.Table) -> pa.Table:
    return table.rename_columns(["doc_id", "source", "title", "content", "meta"])


def drop_column(table: pa.Table) -> pa.Table:
    return table.drop_columns(["title"])


def change_type(table: pa.Table) -> pa.Table:
    field = pa.field("text", pa.large_string(), nullable=False)
    return table.set_column(3, field, table["text"].cast(pa.large_string()))


def allow_nulls(table: pa.Table) -> pa.Table:
    return table.set_column(3, pa.field("text", pa.string(), nullable=True), table["text"])


def drop_row(table: pa.Table) -> pa.Table:
    return table.slice(1)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (rename_column, "missing ['text'], unknown ['content']"),
        (drop_column, "missing ['title']"),
        (change_type, "column 'text' is large_string not null instead of string not null"),
        (allow_nulls, "column 'text' is string instead of string not null"),
        (drop_row, "59 rows instead of 60"),
        (None, "Parquet"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("reader", READERS)
def test_part_of_another_table_is_reported(change: Any, named: str, reader: str, artifact: Artifact) -> None:
    """The hash in the manifest is right, as it would be if an older version of Yiwen had written the artifact."""
    part = Path(artifact.path) / FIRST_PART
    if change is None:
        part.write_bytes(b"not parquet at all")
    else:
        pyarrow.parquet.write_table(change(artifact.parts()[0].read()), part)
    data = part.read_bytes()
    _edit_manifest(
        artifact,
        lambda manifest: manifest["tables"]["documents"]["parts"][0].update(
            bytes=len(data), sha256=hashlib.sha256(data).hexdigest()
        ),
    )
    with pytest.raises(DamagedArtifactError) as raised:
        READERS[reader](ArtifactStore(artifact.store_root).list()[0])
    assert str(part) in str(raised.value)
    assert named in str(raised.value)
    assert f"Delete {artifact.path} and run again" in str(raised.value)


def _edit_manifest(artifact: Artifact, edit: Callable[[dict[str, Any]], object]) -> None:
    path = Path(artifact.path) / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    edit(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def not_utf8(path: Path) -> None:
    path.write_bytes("医文".encode("gb18030"))


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


def other_format(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace('"format_version": 1', '"format_version": 2'))


def other_params(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace('"seed": 7', '"seed": 8'))


@pytest.mark.parametrize("damage", [truncate, not_utf8, empty_file, other_format, other_params])
def test_damaged_manifest_error_names_file_and_remedy(damage: Callable, artifact: Artifact) -> None:
    store = ArtifactStore(artifact.store_root)
    damage(Path(artifact.path) / "manifest.json")
    calls: list[Callable[[], object]] = [
        lambda: store.get("sample", artifact.fingerprint),
        lambda: store.latest("sample"),
        lambda: store.list(),
        lambda: run_sample(store.root, SMALL),
    ]
    for call in calls:
        with pytest.raises(DamagedArtifactError) as raised:
            call()
        assert f"{artifact.path}/manifest.json" in str(raised.value)
        assert f"Delete {artifact.path} and run again" in str(raised.value)


def test_artifact_copied_to_another_address_is_rejected(artifact: Artifact) -> None:
    other = Path(artifact.path).with_name("0" * 32)
    shutil.copytree(artifact.path, other)
    with pytest.raises(DamagedArtifactError, match="work that belongs at this address"):
        ArtifactStore(artifact.store_root).get("sample", other.name)


def test_remedy_repairs_the_damage(artifact: Artifact) -> None:
    whole = content_of(artifact)
    flip(Path(artifact.path) / FIRST_PART)
    shutil.rmtree(artifact.path)
    again = run_sample(artifact.store_root, SMALL)
    assert not again.reused
    again.artifact.verify()
    assert content_of(again.artifact) == whole


def test_damage_on_a_remote_root_is_reported_with_its_uri(tmp_path: Path) -> None:
    artifact = run_sample(f"bucket://{tmp_path}/store", SMALL).artifact
    flip(Path(str(artifact.path).removeprefix("bucket://")) / FIRST_PART)
    with pytest.raises(DamagedArtifactError) as raised:
        artifact.scan()
    assert f"{artifact.path}/{FIRST_PART}" in str(raised.value)
    assert f"Delete {artifact.path} and run again" in str(raised.value)
