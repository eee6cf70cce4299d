"""Zip archives: members are files of their own, and damage to one does not affect the others."""

from __future__ import annotations

import gzip
import io
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.limits import VARIABLE
from tests.support.text.reading import COMPRESSIONS, FORMATS, ingested, jsonl, metas, rejects, zipped
from tests.support.text.stages import reasons_of, texts_of

ROWS = [{"title": f"标题{n}", "text": f"第{n}篇：患者年龄{n}岁。"} for n in range(50)]


def noisy(count: int, seed: int) -> list[dict[str, str]]:
    draw = random.Random(seed)
    return [{"text": f"{seed} " + "".join(draw.choices("患者头痛血压糖尿病abc123", k=60))} for _ in range(count)]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_members_of_every_kind_are_files_of_their_own(tmp_path: Path, method: int) -> None:
    files = {f"folder/{kind}.{kind}": make(ROWS) for kind, make in FORMATS.items()}
    files |= {"b.jsonl.gz": gzip.compress(jsonl(ROWS)), "c.txt": "纯文本".encode()}
    artifact = ingested(tmp_path, {"all.zip": zipped(files, method)})
    assert artifact.rows("rejects") == 0
    assert texts_of(artifact) == [row["text"] for row in ROWS] * 7 + ["纯文本"]
    assert metas(artifact)[0] == {"file": "all.zip/folder/jsonl.jsonl", "row": 1}


def test_unsupported_members_are_rejected(tmp_path: Path) -> None:
    files = {
        "a.jsonl": jsonl(ROWS),
        "inner.zip": zipped({"x.txt": b"x"}),
        "inner.tar": b"x",
        "picture.png": b"x",
        "__MACOSX/._a.jsonl": b"x",
        ".DS_Store": b"x",
        "empty.txt": b"",
        "folder/": b"",
    }
    artifact = ingested(tmp_path, {"a.zip": zipped(files), "b.zip": zipped({}), "c.zip.gz": gzip.compress(zipped({}))})
    assert artifact.rows("documents") == 50
    assert rejects(artifact) == {
        "a.zip/inner.zip": "nested_archive",
        "a.zip/inner.tar": "nested_archive",
        "a.zip/picture.png": "unknown_kind",
        "a.zip/empty.txt": "empty_file",
        "b.zip": "empty_file",
        "c.zip.gz": "nested_archive",
    }


def test_names_in_gb18030_are_decoded(tmp_path: Path) -> None:
    data = zipped({"AABB/x.txt": "甲".encode(), "utf八.txt": "乙".encode()})
    artifact = ingested(tmp_path, {"a.zip": data.replace(b"AABB", "病历".encode("gb18030"))})
    assert [meta["file"] for meta in metas(artifact)] == ["a.zip/病历/x.txt", "a.zip/utf八.txt"]


def test_equal_names_remain_distinct(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w") as archive:
            archive.writestr("x.txt", "甲")
            archive.writestr("x.txt", "乙")
    artifact = ingested(tmp_path, {"a.zip": sink.getvalue()})
    assert texts_of(artifact) == ["甲", "乙"]
    assert len({meta["file"] for meta in metas(artifact)}) == 2


def test_a_damaged_member_does_not_affect_the_others(tmp_path: Path) -> None:
    files = {f"{n}.jsonl": jsonl(noisy(300, n)) for n in range(3)}
    data = bytearray(zipped(files))
    middle = data.index(b"1.jsonl") + 2000
    data[middle : middle + 50] = bytes(50)
    artifact = ingested(tmp_path, {"a.zip": bytes(data)})
    texts = texts_of(artifact)
    assert sum(text.startswith("0 ") for text in texts) == sum(text.startswith("2 ") for text in texts) == 300
    assert "damaged_archive" in reasons_of(artifact)
    assert all(place.startswith("a.zip/1.jsonl#") for place in rejects(artifact))


def test_an_encrypted_member_does_not_affect_the_others(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.txt": "甲".encode(), "b.txt": "乙".encode()}))
    central = data.index(b"PK\1\2")
    data[central + 8] |= 1
    data[6] |= 1
    artifact = ingested(tmp_path, {"a.zip": bytes(data)})
    assert texts_of(artifact) == ["乙"]
    assert rejects(artifact) == {"a.zip/a.txt": "damaged_archive"}


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_truncated_archive_keeps_everything_before_the_damage(tmp_path: Path, share: float, streamed: bool) -> None:
    class Pipe(io.BytesIO):
        """A stream without seek: the sizes then follow the members."""

        def seekable(self) -> bool:
            return False

        def seek(self, *_: Any) -> int:
            raise io.UnsupportedOperation

        def tell(self) -> int:
            raise io.UnsupportedOperation

    rows = [noisy(400, n) for n in range(5)]
    sink = Pipe() if streamed else io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(5):
            archive.writestr(f"{n}.jsonl", jsonl(rows[n]))
    data = sink.getvalue()
    artifact = ingested(tmp_path, {"a.zip": data[: int(len(data) * share)], "b.jsonl": jsonl(ROWS)})
    texts = texts_of(artifact)[:-50]
    wanted = [row["text"] for some in rows for row in some]
    assert texts == wanted[: len(texts)]
    assert len(texts) > 0.75 * share * len(wanted)
    assert reasons_of(artifact) == ["damaged_archive"]


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst", "a.txt.bz2", "a.zip"])
def test_a_bomb_is_stopped_and_rejected(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "expanded_bytes=1MiB")
    bomb = b"0\n" * (8 << 20)
    packed = zipped({"x.txt": bomb}) if name == "a.zip" else COMPRESSIONS[name[5:]](bomb)
    artifact = ingested(tmp_path, {name: packed, "b.jsonl": jsonl(ROWS)}, txt_documents="blank_lines")
    assert texts_of(artifact)[-50:] == [row["text"] for row in ROWS]
    assert reasons_of(artifact) == ["archive_bomb"]


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    data = zipped({"a.txt": "甲".encode() * 100, "b.txt": "乙".encode()})
    central = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
    overlapping = data[: central + 42] + struct.pack("<I", 0) + data[central + 46 :]
    artifact = ingested(tmp_path, {"a.zip": overlapping, "b.jsonl": jsonl(ROWS)})
    assert "archive_bomb" in reasons_of(artifact)
    assert artifact.rows("documents") == 51


def test_a_member_larger_than_its_stated_size_is_cut_there(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.jsonl": jsonl(ROWS)}))
    central = data.index(b"PK\1\2")
    data[central + 24 : central + 28] = struct.pack("<I", 10)
    artifact = ingested(tmp_path, {"a.zip": bytes(data), "b.jsonl": jsonl(ROWS)})
    assert "damaged_archive" in reasons_of(artifact)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damage_anywhere_never_crashes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    archive = bytearray(
        zipped({"a.jsonl": jsonl(ROWS[:5]), "病.txt": "乙".encode(), "c.json.gz": gzip.compress(b"[]")})
    )
    for _ in range(data.draw(st.integers(1, 5))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(archive)))
    files = {"a.zip": bytes(archive[:cut]), "b.jsonl": jsonl([{"text": "另一个文件。"}])}
    artifact = ingested(tmp_path_factory.mktemp("damage"), files)
    assert texts_of(artifact)[-1] == "另一个文件。"
