"""Raw input is identified by its content."""

from __future__ import annotations

import os
from pathlib import Path

import fsspec
import pytest

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tests.support.text.reading import COMPRESSIONS, FORMATS, jsonl, table, zipped
from tests.support.text.stages import do, texts_of

MEMORY = fsspec.filesystem("memory")


def corpus(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def test_the_same_files_have_the_same_fingerprint_in_any_folder(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", a="甲", b__c="乙")
    two = corpus(tmp_path / "two", b__c="乙", a="甲")
    assert RawInput(one).fingerprint == RawInput(two).fingerprint
    assert [file.name for file in RawInput(one).files] == ["a", "b/c"]
    assert RawInput(one / "a").fingerprint == RawInput(two / "a").fingerprint


@pytest.mark.parametrize("change", [{"a": "丙"}, {"c": ""}])
def test_content_and_names_change_the_fingerprint(tmp_path: Path, change: dict[str, str]) -> None:
    one = corpus(tmp_path / "one", a="甲")
    two = corpus(tmp_path / "two", **{"a": "甲", **change})
    renamed = corpus(tmp_path / "three", b="甲")
    assert len({RawInput(folder).fingerprint for folder in (one, two, renamed)}) == 3


def test_hidden_files_are_ignored(tmp_path: Path) -> None:
    one = corpus(tmp_path / "one", a="甲")
    before = RawInput(one).fingerprint
    corpus(one, **{".DS_Store": "x", ".git__config": "y"})
    assert RawInput(one).fingerprint == before


def test_a_missing_or_empty_folder_error_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing does not exist\. Give an existing file or folder\.$"):
        _ = RawInput(tmp_path / "missing").fingerprint
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty contains no files\. Put some there"):
        _ = RawInput(tmp_path / "empty").files


def test_an_unreadable_file_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = corpus(tmp_path / "one", a="甲")
    real = Path.open

    def refuse(path: Path, *arguments: str, **options: str) -> object:
        if path.name == "a":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)  # the tests may run as root, whom no permission stops
    with pytest.raises(UserError, match=r"one/a cannot be read: Permission denied"):
        _ = RawInput(folder).files


def test_links_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    folder, other = corpus(tmp_path / "one", a="甲", b__c="乙"), corpus(tmp_path / "two", d="丙", e__f="丁")
    (folder / "linked").symlink_to(other)
    (folder / "b" / "file").symlink_to(other / "d")
    (folder / "b" / "loop").symlink_to(folder)
    (other / "e" / "loop").symlink_to(other / "e")
    raw = RawInput(folder)
    assert [file.name for file in raw.files] == ["a", "b/c", "b/file", "linked/d", "linked/e/f"]
    assert [file.read().decode() for file in raw.files] == ["甲", "乙", "丙", "丙", "丁"]
    (tmp_path / "emr").symlink_to(other)
    assert {file.sub_domain for file in RawInput(tmp_path / "emr").files} == {"emr"}


def test_a_broken_link_error_names_the_link(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "one", a="甲")
    (folder / ".hidden").symlink_to(tmp_path / "gone")
    assert len(RawInput(folder).files) == 1
    (folder / "b").symlink_to(tmp_path / "gone")
    with pytest.raises(UserError, match=r"one/b is a broken link\. Repair it"):
        _ = RawInput(folder).files


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = corpus(tmp_path / "one", a="甲", b__c="乙")
    real = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)  # the tests may run as root, whom no permission stops
    with pytest.raises(UserError, match=r"one/b cannot be listed: Permission denied"):
        _ = RawInput(folder).files


@pytest.mark.parametrize("given", ["file://{0}", "{0}", "memory://{1}"])
def test_files_behind_uris_are_the_same_input(tmp_path: Path, given: str) -> None:
    folder = corpus(tmp_path / "one", a="甲", b__c="乙", **{".hidden": "x", "b__.git": "y"})
    memory = f"raw-input/{tmp_path.name}"
    for path in (path for path in folder.rglob("*") if path.is_file()):
        MEMORY.pipe_file(f"/{memory}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    raw = RawInput(given.format(folder, memory))
    assert [file.name for file in raw.files] == ["a", "b/c"]
    assert raw.fingerprint == RawInput(folder).fingerprint
    assert RawInput(given.format(folder, memory) + "/b/c").fingerprint == RawInput(folder / "b" / "c").fingerprint


def test_files_of_several_inputs_are_prefixed_with_their_last_names(tmp_path: Path) -> None:
    one = corpus(tmp_path / "emr", a="甲")
    two = corpus(tmp_path / "notes", a="乙", b="丙")
    listed, joined = RawInput([one, str(two / "a")]), RawInput(f"{one}, {two / 'a'}")
    assert [file.name for file in listed.files] == ["a", "emr/a"]
    assert listed.fingerprint == joined.fingerprint
    assert [file.name for file in RawInput(f"{one},file://{two}").files] == ["emr/a", "notes/a", "notes/b"]


def test_inputs_with_equal_last_names_remain_distinct(tmp_path: Path) -> None:
    roots = [corpus(tmp_path / number / "raw", a=number) for number in ("1", "2")]
    assert [file.name for file in RawInput(roots).files] == ["1/raw/a", "2/raw/a"]
    assert [file.name for file in RawInput([root / "a" for root in roots]).files] == ["1/a", "2/a"]
    assert len(RawInput([roots[0], roots[0]]).files) == 1


def test_a_comma_may_be_part_of_a_name(tmp_path: Path) -> None:
    assert [file.name for file in RawInput(str(corpus(tmp_path / "a,b", c="甲"))).files] == ["c"]


@pytest.mark.parametrize("given", ["memory://nothing/here", "nowhere://x", "", []])
def test_an_input_that_cannot_be_found_or_opened_is_an_error(given: str) -> None:
    with pytest.raises(UserError, match=r"does not exist|cannot be opened|No corpus"):
        _ = RawInput(given).files


@pytest.mark.parametrize("bytes_per_part", [300, 1 << 24])
def test_every_kind_is_read_behind_a_uri(tmp_path: Path, bytes_per_part: int) -> None:
    rows = [{"text": f"第{n}篇"} for n in range(50)]
    base = f"raw-rows/{tmp_path.name}-{bytes_per_part}"
    files = {f"a.{kind}": make(rows) for kind, make in FORMATS.items()}
    files |= {"b.zip": zipped({"x.jsonl": jsonl(rows)}), "c.csv.bz2": COMPRESSIONS[".bz2"](table(rows))}
    for name, content in files.items():
        MEMORY.pipe_file(f"/{base}/{name}", content)
    params = IngestParams(bytes_per_part=bytes_per_part)
    artifact = do(ArtifactStore(tmp_path / "store"), ingest, params, corpus=RawInput(f"memory://{base}"))
    assert texts_of(artifact) == [row["text"] for row in rows] * len(files)


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "zip"])
def test_a_changed_file_behind_a_uri_is_detected(tmp_path: Path, kind: str) -> None:
    rows = [{"text": f"第{n}篇"} for n in range(50)]
    path = f"/raw-changed/{tmp_path.name}/a.{kind}"
    content = zipped({"x.jsonl": jsonl(rows)}) if kind == "zip" else FORMATS[kind](rows)
    MEMORY.pipe_file(path, content)
    raw = RawInput(f"memory:/{path}")
    _ = raw.fingerprint
    MEMORY.pipe_file(path, content[:-1] + b" ")
    with pytest.raises(UserError, match="Run the command again"):
        do(ArtifactStore(tmp_path / "store"), ingest, IngestParams(), corpus=raw)


def test_a_small_file_must_have_its_hashed_content(tmp_path: Path) -> None:
    (file,) = RawInput(corpus(tmp_path / "one", a="甲")).files
    assert file.read() == "甲".encode()
    (tmp_path / "one" / "a").write_text("乙", encoding="utf-8")
    with pytest.raises(UserError, match="Run the command again"):
        file.read()
