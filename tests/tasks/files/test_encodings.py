"""Encodings: each line is decoded in its own, and undecodable lines are reported with the position of their byte."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tasks.clean.stage import CleanParams, clean
from tasks.files import lines as text_files
from tasks.files.encodings import detect_encoding
from tasks.files.lines import Lines
from tests.support.text.reading import FORMATS, SENTENCES, ingested, jsonl, rejects, table
from tests.support.text.stages import do, texts_of

ROWS = [{"title": f"标题{n}", "text": f"第{n}篇：患者年龄{n}岁。"} for n in range(50)]


def test_lines_in_another_encoding_are_accepted_and_counted(tmp_path: Path) -> None:
    lines = [f"{n}{SENTENCES[n % 4]}".encode("utf-8" if n % 3 else "gb18030") for n in range(60)]
    artifact = ingested(tmp_path, {"a.txt": b"\n".join(lines)}, txt_documents="lines")
    assert texts_of(artifact) == [f"{n}{SENTENCES[n % 4]}" for n in range(60)]
    assert artifact.manifest.counters["lines_in_other_encoding"] == 20


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "tsv"])
@pytest.mark.parametrize("first", ["utf-8", "gb18030"])
def test_rows_in_another_encoding_are_accepted(tmp_path: Path, kind: str, first: str) -> None:
    content = FORMATS[kind](ROWS).decode()
    other = {"utf-8": "gb18030", "gb18030": "utf-8"}[first]
    cut = content.index("第30篇") if kind == "json" else content.index("\n", len(content) * 2 // 3) + 1
    mixed = content[:cut].encode(first) + content[cut:].encode(other)
    artifact = ingested(tmp_path, {f"a.{kind}": mixed})
    assert texts_of(artifact) == [row["text"] for row in ROWS]
    assert artifact.manifest.counters["lines_in_other_encoding"] > 5


@pytest.mark.parametrize("encoding", ["utf-8-sig", "gb18030", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "tsv"])
def test_every_kind_of_text_is_read_in_every_encoding(tmp_path: Path, kind: str, encoding: str) -> None:
    files = {f"a.{kind}": FORMATS[kind](ROWS).decode().encode(encoding)}
    for named in (None, encoding):
        artifact = ingested(tmp_path, files, encoding=named)
        assert texts_of(artifact) == [row["text"] for row in ROWS]
        assert artifact.rows("rejects") == 0


@pytest.mark.parametrize("first", ["utf-8", "gb18030"])
def test_a_text_in_two_encodings_loses_nothing(tmp_path: Path, first: str) -> None:
    half = "\n".join(SENTENCES * 10)
    other = {"utf-8": "gb18030", "gb18030": "utf-8"}[first]
    artifact = ingested(tmp_path, {"a.txt": half.encode(first) + b"\n" + half.encode(other)})
    assert texts_of(artifact) == [f"{half}\n{half}"]


def test_characters_written_as_surrogate_pairs_are_read(tmp_path: Path) -> None:
    said = ["患者𠮷野头痛三天。", "谢谢医生😀", "糖尿病患者应控制血糖。", "高血压患者应限盐。", "😀"]
    rows = [{"text": text} for text in said]
    pairs = {character: pair(character) for character in "𠮷😀"}

    def written_by_oracle(content: bytes) -> bytes:
        for character, bytes_of_pair in pairs.items():
            content = content.replace(character.encode(), bytes_of_pair)
        return content

    artifact = ingested(tmp_path, {"a.jsonl": written_by_oracle(jsonl(rows))})
    assert texts_of(artifact) == said
    assert artifact.manifest.counters["lines_in_other_encoding"] == 3
    broken = ingested(tmp_path / "2", {"a.jsonl": jsonl(rows[:4]).replace("😀".encode(), pairs["😀"][:3])})
    assert rejects(broken) == {"a.jsonl#2": "undecodable"}


def pair(character: str) -> bytes:
    """Return a character in CESU-8."""
    halves = character.encode("utf-16-be")
    return b"".join(chr(int.from_bytes(halves[at : at + 2])).encode("utf-8", "surrogatepass") for at in (0, 2))


def test_an_undecodable_row_is_rejected_with_the_position_of_its_byte(tmp_path: Path) -> None:
    good = jsonl(ROWS[:5])
    bad = '{"text": "头'.encode() + b"\xff\xfe" + '痛三天"}\n'.encode()
    files = {
        "a.jsonl": good + bad + good,
        "a.csv": table(ROWS[:5]) + "x,头痛".encode() + b"\xff\n" + table(ROWS[:2])[12:],
    }
    artifact = ingested(tmp_path, files)
    assert texts_of(artifact) == [row["text"] for row in ROWS[:5] + ROWS[:2] + ROWS[:5] + ROWS[:5]]
    assert rejects(artifact) == {"a.jsonl#6": "undecodable", "a.csv#7": "undecodable"}
    details = {row["doc_id"]: row["detail"] for row in artifact.to_table("rejects").to_pylist()}
    assert f"byte {len(good) + bad.index(0xFF):,} " in details["a.jsonl#6"]


def test_an_undecodable_element_of_an_array_is_rejected_alone(tmp_path: Path) -> None:
    content = FORMATS["json"](ROWS).replace("第20篇".encode(), b"\xff\xfe").replace("第31篇".encode(), b"\xff")
    artifact = ingested(tmp_path, {"a.json": content})
    assert texts_of(artifact) == [row["text"] for row in ROWS if row["title"] not in ("标题20", "标题31")]
    assert rejects(artifact) == {"a.json#21": "undecodable", "a.json#32": "undecodable"}
    details = [row["detail"] for row in artifact.to_table("rejects").to_pylist()]
    assert f"byte {content.index(0xFF):,} " in details[0] and f"byte {content.rindex(0xFF):,} " in details[1]


@pytest.mark.parametrize(("way", "kept"), [("lines", 120), ("blank_lines", 40), ("file", 1)])
def test_a_few_undecodable_bytes_lose_no_document(tmp_path: Path, way: str, kept: int) -> None:
    """A book was once lost to one broken character; `clean` decides how many of them are too many."""
    lines = [line.encode() for n in range(40) for line in (f"{n}甲", f"{n}乙", f"{n}丙", "")]
    lines[21] += b"\xff"
    page = "<p>头痛</p>\n".encode() * 20 + b"<p>\xd5\xff</p>"
    artifact = ingested(tmp_path, {"a.txt": b"\n".join(lines), "b.html": page}, txt_documents=way)
    assert artifact.rows("rejects") == 0 and artifact.rows("documents") == kept + 1
    assert "5乙\ufffd" in "\n".join(texts_of(artifact)) and texts_of(artifact)[-1] == "头痛\n" * 20 + "\ufffd\ufffd"
    assert artifact.manifest.counters["undecodable_characters"] == 3


def test_a_book_keeps_its_good_lines_through_ingest_and_clean(tmp_path: Path) -> None:
    book = "\n".join(f"{n} {SENTENCES[n % 4]}" for n in range(1_480)).encode("gb18030")
    place = book.index("700 患".encode("gb18030")) + 4
    broken = book[:place] + b"\xff" + book[place + 1 :]
    documents = ingested(tmp_path, {"a.txt": broken})
    (text,) = texts_of(do(ArtifactStore(tmp_path / "s"), clean, CleanParams(), documents=documents))
    assert text.count("\n") == 1_479 and text.count("\ufffd") in (1, 2)


def test_a_file_in_no_supported_encoding_is_rejected_alone_with_a_remedy(tmp_path: Path) -> None:
    foreign = b"\n".join(b"\xff\xfd" + line.encode() for line in SENTENCES)
    files = {"a.txt": foreign, "b.txt": SENTENCES[0].encode(), "c.jsonl": jsonl(ROWS[:1]), "d.jsonl": foreign * 50}
    for size in (1 << 24, 500):
        artifact = ingested(tmp_path / str(size), files, bytes_per_part=size)
        assert texts_of(artifact) == [SENTENCES[0], ROWS[0]["text"]]
        assert rejects(artifact) == {"a.txt": "wrong_encoding", "d.jsonl": "wrong_encoding"}
        assert all("Convert the file to UTF-8" in row["detail"] for row in artifact.to_table("rejects").to_pylist())


def test_a_program_named_as_a_text_is_told_for_no_text(tmp_path: Path) -> None:
    program = b"\x7fELF\x02\x01\x01\0\0\xff\xfd\xfe\n\x81\xff\xfe\0\xff\xfd\n" * 200
    artifact = ingested(tmp_path, {"a.txt": program, "b.txt": SENTENCES[0].encode()})
    assert texts_of(artifact) == [SENTENCES[0]]
    (row,) = artifact.to_table("rejects").to_pylist()
    assert row["reason"] == "wrong_encoding" and "is no text: it holds zero bytes" in row["detail"]


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "tsv"])
def test_a_broken_row_that_is_the_only_one_outside_ascii_is_rejected_alone(tmp_path: Path, kind: str) -> None:
    """A file of escapes was once rejected because of it: most of its characters outside ASCII were broken."""
    content = FORMATS[kind]([{"title": f"row {n}", "text": f"text of row {n}"} for n in range(1_000)])
    broken = content.replace(b"text of row 500", "患者主诉头痛三天".encode().replace("诉".encode(), b"\xe8\xaf"))
    artifact = ingested(tmp_path, {f"a.{kind}": broken})
    assert artifact.rows("documents") == 999
    assert list(rejects(artifact).values()) == ["undecodable"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_and_without_line_ends_is_detected(tmp_path: Path, encoding: str) -> None:
    text = "患者主诉头痛三天，伴有恶心呕吐。查体神志清楚，瞳孔等大等圆，对光反射灵敏。" * 20
    artifact = ingested(tmp_path, {"a.txt": text.encode(encoding)})
    assert texts_of(artifact) == [text]


TRADITIONAL = "患者王大明，四十五歲，因反覆咳嗽、發燒三日入院。\n診斷：肺炎，建議住院觀察。\n"


@pytest.mark.parametrize("encoding", ["big5", "cp950", "big5hkscs"])
def test_big5_shows_by_its_marks(tmp_path: Path, encoding: str) -> None:
    text = TRADITIONAL + {"big5": "", "cp950": "碁銹裏€。", "big5hkscs": "喺嚟咗。"}[encoding]
    artifact = ingested(tmp_path, {"a.txt": text.encode(encoding), "b.txt": TRADITIONAL.encode("gb18030")})
    assert texts_of(artifact) == [text.strip(), TRADITIONAL.strip()]
    assert artifact.rows("rejects") == 0


def test_without_marks_and_with_broken_bytes_nothing_is_taken_for_big5() -> None:
    assert detect_encoding("患者頭痛三日發燒".encode("big5")) == "gb18030"
    for text in ("患者頭痛，發燒", "患者頭痛、發燒", "患者頭痛發燒。"):
        assert detect_encoding(text.encode("big5")) == "big5hkscs"
    assert detect_encoding(TRADITIONAL.encode("big5") + b"\xff\xff\xff") not in ("big5hkscs", "cp950")


def test_two_letters_are_not_mistaken_for_a_chinese_character_of_utf16(tmp_path: Path) -> None:
    text = "Le patient a été hospitalisé à l'hôpital, où l'état général s'est amélioré" * 9
    files = {"a.txt": text.encode("latin-1"), "b.txt": "好".encode()}
    assert rejects(ingested(tmp_path, files)) == {"a.txt": "wrong_encoding"}


def test_a_file_in_the_wrong_encoding_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.txt is not in utf-8: .* at byte \d.*ingest\.encoding"):
        ingested(tmp_path, {"a.txt": b"\n".join(b"\xff\xfd" + line.encode() for line in SENTENCES)})


def test_a_broken_character_of_utf8_is_not_read_as_gb18030(tmp_path: Path) -> None:
    lines = [sentence.encode() * 3 for sentence in SENTENCES * 5]
    lines[7] = lines[7][:-4] + lines[7][-3:]
    artifact = ingested(tmp_path, {"a.txt": b"\n".join(lines)}, txt_documents="lines")
    whole = {sentence * 3 for sentence in SENTENCES}
    assert set(texts_of(artifact)) - whole == {(SENTENCES[3] * 3)[:-2] + "\ufffd。"}


def test_a_broken_line_of_utf8_loses_one_character_in_a_gb18030_file(tmp_path: Path) -> None:
    """GB18030 fails at one byte of such a line and decodes the rest to wrong characters, which are not counted."""
    good, line = SENTENCES * 200, "糖尿病患者应控制血糖，每日监测四次"
    broken = line.encode()[:20] + line.encode()[21:]
    book = ("\n".join(good) + "\n").encode("gb18030")
    for name, tail, last in [
        ("broken", broken, "糖尿病患者应\ufffd制血糖，每日监测四次"),
        ("whole", line.encode(), line),
    ]:
        artifact = ingested(tmp_path / name, {"a.txt": book + tail})
        assert texts_of(artifact) == ["\n".join((*good, last))]
        assert artifact.manifest.counters.get("undecodable_characters", 0) == last.count("\ufffd")
        assert not artifact.manifest.counters.get("cut_characters")


@given(st.data())
def test_a_broken_pasted_line_of_utf8_produces_no_other_characters(data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(SENTENCES)) * 3
    place = data.draw(st.integers(0, len(line.encode()) - 1).filter(lambda place: line.encode()[place] > 0x7F))
    broken = line.encode()[:place] + line.encode()[place + 1 :]
    _, read, _ = Lines(iter(["头痛\n".encode("gb18030") + broken + b"\nx"]), "a", "gb18030")
    mark = read.index(text_files.UNREADABLE)
    assert line.startswith(read[:mark]) and line.endswith(read[mark:].lstrip(text_files.UNREADABLE))
    assert len(line) <= len(read) <= len(line) + 1


def test_a_line_in_neither_encoding_is_replaced_completely() -> None:
    """An accented letter and the next one look like a Chinese character; `clean` counts the replaced characters."""
    french = "Le patient a été hospitalisé à l'hôpital".encode("latin-1")
    _, read = Lines(iter(["头痛\n".encode("gb18030") + french]), "a", "gb18030")
    assert read.startswith("Le patient a ") and set(read) <= set(
        french.decode("ascii", "ignore") + text_files.UNREADABLE
    )


def test_a_character_cut_by_the_end_of_a_file_loses_no_document(tmp_path: Path) -> None:
    artifact = ingested(tmp_path, {"a.txt": "糖尿病患者".encode()[:-1]})
    assert texts_of(artifact) == ["糖尿病患"]
    assert artifact.manifest.counters["cut_characters"] == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_lone_surrogate_of_utf16_spoils_one_line(tmp_path: Path, encoding: str) -> None:
    text = "\n".join(f"{n} {SENTENCES[n % 4]} ok" for n in range(30))
    order = "big" if encoding.endswith("be") else "little"
    data = text.encode(encoding).replace("7 口".encode(f"utf-16-{order[0]}e"), b"7\0" + (0xD800).to_bytes(2, order), 1)
    if order == "big":
        data = text.encode(encoding).replace("7 口".encode("utf-16-be"), b"\x007" + (0xD800).to_bytes(2, order), 1)
    artifact = ingested(tmp_path, {"a.txt": data}, txt_documents="lines")
    assert artifact.rows("documents") == 30 and artifact.rows("rejects") == 0
    assert texts_of(artifact)[7].startswith("7\ufffd") and texts_of(artifact)[8] == f"8 {SENTENCES[0]} ok"


def test_a_byte_order_mark_in_the_middle_of_a_file_is_removed(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    files = {
        "a.jsonl": mark + jsonl(ROWS[:2]) + mark + jsonl(ROWS[2:4]),
        "b.csv": mark + table(ROWS[:2]) + mark + table(ROWS[2:4])[12:],
        "c.txt": mark + "甲\n".encode() + mark + "乙".encode(),
        "d.json": mark + b"[" + mark + b"]" + mark + b'{"text": "\xe4\xb8\x99"}',
    }
    artifact = ingested(tmp_path, files)
    assert texts_of(artifact) == [*[row["text"] for row in ROWS[:4]] * 2, "甲\n乙", "丙"]
    assert artifact.rows("rejects") == 0


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
@pytest.mark.parametrize("piece", ["患者主诉头痛。", "患者 主诉, 头痛。", "患者主诉头痛。\n", "患者a"])
@pytest.mark.parametrize("shift", range(4))
def test_the_encoding_of_a_long_file_is_detected_wherever_its_samples_begin(
    tmp_path: Path, encoding: str, piece: str, shift: int
) -> None:
    text = "x" * shift + piece * 60_000
    artifact = ingested(tmp_path, {"a.txt": text.encode(encoding)}, txt_documents="lines", bytes_per_part=100_000)
    assert "\n".join(texts_of(artifact)) == text.rstrip("\n")
    assert artifact.rows("rejects") == 0


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"))


@settings(max_examples=150, deadline=None)
@given(TEXT, st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"]), st.integers(1, 9), st.sampled_from("\n,"))
def test_lines_do_not_depend_on_the_blocks(text: str, encoding: str, size: int, separator: str) -> None:
    data = text.encode(encoding)
    blocks = iter([data[start : start + size] for start in range(0, len(data), size)])
    lines = text.split(separator)
    if not lines[-1]:
        lines.pop()
    if separator == "\n":
        lines = [line.removesuffix("\r") for line in lines]
    assert list(Lines(blocks, "lines.txt", encoding, separator=separator)) == lines


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(SENTENCES), st.sampled_from(["utf-8", "gb18030"])), min_size=1),
    st.integers(1, 30),
    st.sampled_from(["utf-8", "gb18030"]),
)
def test_mixed_lines_are_all_read(lines: list[tuple[str, str]], size: int, encoding: str) -> None:
    data = b"\n".join(text.encode(encoding) for text, encoding in lines)
    counts: Counter[str] = Counter()
    read = Lines(iter([data[start : start + size] for start in range(0, len(data), size)]), "a", encoding, counts)
    assert list(read) == [text for text, _ in lines]
    assert counts["lines_in_other_encoding"] == sum(own != encoding for _, own in lines)
    assert not read.problems


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 40), st.sampled_from(["utf-8", "gb18030", "utf-16-le", "big5"]))
def test_any_bytes_are_decoded_or_reported(data: bytes, size: int, encoding: str) -> None:
    blocks = iter([data[start : start + size] for start in range(0, len(data), size)])
    lines = Lines(blocks, "a", encoding)
    read = [(line, lines.take_problem()) for line in lines]
    for line, problem in read:
        assert (problem is None) == (text_files.UNREADABLE not in line)


@given(st.lists(st.sampled_from(SENTENCES), min_size=1), st.sampled_from(["utf-8", "gb18030", "utf-16"]))
def test_the_encoding_of_any_sentences_is_detected(sentences: list[str], encoding: str) -> None:
    detected = detect_encoding("\n".join(sentences).encode(encoding))
    assert detected == {"utf-16": "utf-16-le"}.get(encoding, encoding)
