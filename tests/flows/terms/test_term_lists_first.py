"""A term list is looked at before anything else is done: a mistake in it costs a second, and not a fusion of graphs."""

from __future__ import annotations

from pathlib import Path

import openpyxl
import pytest

from flows.normalise import normalise
from flows.term_mapping import normalise as mapping
from infra.errors import UserError
from tasks.normalise.terms.term_list import LOOKED_AT, check_term_list, read_term_list

RIGHT = "编码,名称\nI10,高血压\n"
WRONG = [
    ("甲,乙\nx,高血压\n", "list.csv has no columns for"),
    ("编码,名称\n", "list.csv has a header, but no terms below it"),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_list_is_checked_before_graphs_are_fused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: str
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    (tmp_path / "list.csv").write_text(content, encoding="utf-8")
    (tmp_path / "right.csv").write_text(RIGHT, encoding="utf-8")
    given, right = str(tmp_path / "list.csv"), str(tmp_path / "right.csv")
    with pytest.raises(UserError, match=message):
        normalise.fn(rank=False, terms=given)
    for source, target in ((given, right), (right, given)):
        with pytest.raises(UserError, match=message):
            mapping.fn(source=source, target=target)
    assert not (tmp_path / "home").exists(), "nothing was fused"


def test_columns_without_titles_may_be_known_by_later_rows() -> None:
    odd = "".join(f"行{row},说明\n" for row in range(60))
    plain = "".join(f"E{row % 100:02d}.{row // 100 % 10},病{row}\n" for row in range(3 * LOOKED_AT))
    content = ("A00.0,霍乱\n" + odd + plain).encode()
    check_term_list(content, "list.csv")
    assert len(read_term_list(content, "list.csv")[0]) == 3 * LOOKED_AT + 61


def test_long_workbook_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = openpyxl.Workbook()
    for row in [("编码", "名称"), *((f"E{at}", f"病{at}") for at in range(3 * LOOKED_AT))]:
        book.active.append(row)
    book.save(tmp_path / "list.xlsx")
    read: list[int] = []
    rows_of = __import__("tasks.normalise.terms.sheets", fromlist=["x"]).streamed_rows

    def counted(*given: object) -> object:
        for row in rows_of(*given):
            read.append(row[0])
            yield row

    monkeypatch.setattr("tasks.normalise.terms.sheets.streamed_rows", counted)
    check_term_list((tmp_path / "list.xlsx").read_bytes(), "list.xlsx")
    assert len(read) <= LOOKED_AT + 1
