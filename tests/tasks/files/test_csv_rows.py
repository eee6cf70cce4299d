"""CSV files: well-formed files are read as by the csv module, and a missing quote spoils only its own line."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from infra.limits import VARIABLE
from tasks.files import csv_rows
from tasks.files.csv_rows import read_csv
from tasks.files.lines import Lines
from tasks.files.slices import Problem
from tests.support.text.reading import ingested, rejects
from tests.support.text.stages import reasons_of, texts_of

CELL = st.text(alphabet='头痛a1,\t" \n', max_size=12)
"""All characters with a meaning in CSV except carriage returns, which are not part of lines."""


def rows_of(content: str, delimiter: str = ",") -> list[tuple[int, Any]]:
    return list(read_csv(Lines(iter([content.encode()]), "a.csv", "utf-8"), delimiter))


def documents_in(content: str) -> list[dict[str, Any]]:
    return [dict(row) for _, row in rows_of(content) if not isinstance(row, Problem)]


def problems_in(content: str) -> list[tuple[int, str]]:
    return [(number, row.reason) for number, row in rows_of(content) if isinstance(row, Problem)]


def written(rows: list[list[str]], quoting: Any = csv.QUOTE_MINIMAL, delimiter: str = ",") -> str:
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows(rows)
    return stream.getvalue()


@given(
    st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), max_size=8)),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from([",", "\t"]),
)
def test_well_formed_files_are_read_as_the_csv_module_reads_them(
    rows: list[list[str]], quoting: Any, delimiter: str
) -> None:
    header = [f"列{number}" for number in range(len(rows[0]) if rows else 2)]
    content = written([header, *rows], quoting, delimiter)
    found = rows_of(content, delimiter)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter)
    assert next(reader) == header
    assert [dict(row) for _, row in found] == [dict(zip(header, row, strict=True)) for row in reader if row]
    starts = [content[: content.index("\n") + 1].count("\n")]
    for row in rows:
        starts.append(starts[-1] + written([row], quoting, delimiter).count("\n"))
    assert [number for number, _ in found] == [start + 1 for start in starts[:-1]]


@settings(max_examples=300)
@given(st.data())
def test_a_missing_quote_spoils_no_other_row(data: st.DataObject) -> None:
    """No cell begins with a line break: its quote would look like the missing one."""
    plain = st.text(alphabet="头痛发热a1\n", max_size=12)
    cells = data.draw(st.lists(st.lists(plain, min_size=2, max_size=2), min_size=1, max_size=8))
    rows = [[f"{number}:{title}", f"文{text}"] for number, (title, text) in enumerate(cells)]
    lines = [written([row], data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))) for row in rows]
    broken = data.draw(st.integers(0, len(rows) - 1))
    quotes = [place for place, character in enumerate(lines[broken]) if character == '"']
    assume(quotes)
    lost = data.draw(st.sampled_from(quotes))
    lines[broken] = lines[broken][:lost] + lines[broken][lost + 1 :]
    found = documents_in("title,text\n" + "".join(lines))
    others = [{"title": title, "text": text} for number, (title, text) in enumerate(rows) if number != broken]
    assert [row for row in found if row in others] == others


@pytest.mark.parametrize("rest", [3, 5000])
def test_a_quote_that_is_never_closed_spoils_its_line(tmp_path: Path, rest: int) -> None:
    """Otherwise everything that follows would become one document about several patients."""
    content = 'text,title\n糖尿病五年。,甲\n"头痛三天。,乙\n' + "咳嗽一周。,丙\n" * rest
    artifact = ingested(tmp_path, {"a.csv": content.encode()})
    assert texts_of(artifact) == ["糖尿病五年。"] + ["咳嗽一周。"] * rest
    assert {row["title"] for row in artifact.to_table("documents").to_pylist()} == {"甲", "丙"}
    assert rejects(artifact) == {"a.csv#3": "lost_quote"}
    assert artifact.to_table("rejects")["excerpt"].to_pylist() == ['"头痛三天。,乙']


def test_a_missing_quote_before_rows_with_quotes() -> None:
    content = 'title,text\n甲,"一\n乙,"二\n三"\n"丙",四\n丁,"五, 六"\n'
    assert documents_in(content) == [
        {"title": "乙", "text": "二\n三"},
        {"title": "丙", "text": "四"},
        {"title": "丁", "text": "五, 六"},
    ]
    assert problems_in(content) == [(2, "lost_quote")]


def test_a_quote_closed_by_the_stray_quote_of_another_row() -> None:
    content = 'text,title\n"一,甲\n二,乙"\n三,丙\n'
    assert documents_in(content) == [{"text": "二", "title": '乙"'}, {"text": "三", "title": "丙"}]
    assert problems_in(content) == [(2, "lost_quote")]


def test_a_quote_that_looks_like_the_missing_one_spoils_one_row_more() -> None:
    lines = [f'{number},"\n文{number}"\n' for number in range(5)]
    found = documents_in("title,text\n" + lines[0].replace('0"', "0") + "".join(lines[1:]))
    assert [row for row in found if row["text"]][-3:] == [{"title": f"{n}", "text": f"\n文{n}"} for n in (2, 3, 4)]


def test_a_row_over_lines_may_lack_its_last_fields() -> None:
    assert documents_in('title,text,note\n甲,"一\n二"\n') == [{"title": "甲", "text": "一\n二", "note": None}]


def test_stray_quotes_within_a_line_are_read_as_by_the_csv_module() -> None:
    content = 'title,text\n甲,5"支架\n"乙"型,肝炎\n"丙"丁,"戊\n己,庚\n'
    assert [row["title"] for row in documents_in(content)] == ["甲", "乙型", "己"]
    assert problems_in(content) == [(4, "lost_quote")]


def test_a_row_over_lines_has_a_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "MAX_ROW", 150)
    line = "长" * 99
    content = written([["title", "text"], ["甲", f"{line}\n终"], ["乙", f"{line}\n{line}\n终"], ["丙", "短"]])
    assert documents_in(content) == [
        {"title": "甲", "text": f"{line}\n终"},
        {"title": line, "text": None},
        {"title": '终"', "text": None},
        {"title": "丙", "text": "短"},
    ]
    assert problems_in(content) == [(4, "lost_quote")]


def test_many_open_quotes_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given_out = 0
    feed = csv_rows._Feed.__next__

    def counted(self: Any) -> str:
        nonlocal given_out
        given_out += 1
        return feed(self)

    monkeypatch.setattr(csv_rows._Feed, "__next__", counted)
    content = "title,text\n" + '"甲"",乙\n' * 2000 + "丙,丁\n"
    assert documents_in(content) == [{"title": "丙", "text": "丁"}]
    assert len(problems_in(content)) == 2000
    assert given_out < 6 * 2 * 2000


def test_a_header_with_a_missing_quote_still_names_the_fields() -> None:
    content = '"title,text\n甲,一\n乙,二\n'
    assert documents_in(content) == [{"title": "甲", "text": "一"}, {"title": "乙", "text": "二"}]
    assert problems_in(content) == [(1, "lost_quote")]


def test_an_unreadable_line_is_rejected_with_its_row_but_alone_after_a_missing_quote(tmp_path: Path) -> None:
    fine = "咳嗽一周,丙\n".encode() * 3
    within = 'text,title\n"一\n'.encode() + b"\xff\n" + '二",甲\n'.encode() + fine
    behind = 'text,title\n"一,甲\n'.encode() + b"\xff,x\n" + fine
    artifact = ingested(tmp_path, {"a.csv": within, "b.csv": behind})
    assert texts_of(artifact) == ["咳嗽一周"] * 6
    assert rejects(artifact) == {"a.csv#2": "undecodable", "b.csv#2": "lost_quote", "b.csv#3": "undecodable"}


def test_a_line_too_long_for_its_closing_quote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "row_bytes=1MiB")
    content = written([["text"], ["前"], ["长, " * 1_000_000], ["后"]])
    artifact = ingested(tmp_path, {"a.csv": content.encode()})
    assert texts_of(artifact) == ["前", "后"]
    assert rejects(artifact) == {"a.csv#3": "line_too_long"}


def test_rows_between_a_missing_quote_and_damage_to_the_archive_are_kept(tmp_path: Path) -> None:
    rows = [f"第{number}位患者头痛{number * 7919 % 1000}天,{number}" for number in range(5000)]
    content = gzip.compress("\n".join(["text,title", '"一,甲', *rows]).encode())
    artifact = ingested(tmp_path, {"a.csv.gz": content[: len(content) // 2]})
    texts = texts_of(artifact)
    assert len(texts) > 1000
    assert texts == [row.partition(",")[0] for row in rows[: len(texts)]]
    assert sorted(reasons_of(artifact)) == ["damaged_archive", "lost_quote"]
