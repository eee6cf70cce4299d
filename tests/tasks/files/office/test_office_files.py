"""DOCX, PDF and XLSX as text: what is read of sound files, in which order, and with which numbers."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import zipfile
from datetime import datetime
from pathlib import Path

import pytest

from infra.artifacts import Artifact
from infra.errors import UserError
from tests.support.text.office_files import LEADING, docx, paragraph, pdf, table_row, xlsx
from tests.support.text.reading import ingested, metas, rejects, zipped
from tests.support.text.stages import texts_of

SENTENCE = "患者因反复上腹痛三年，加重伴黑便两天入院，既往有高血压病史。"


def text_of(tmp_path: Path, name: str, data: bytes) -> str:
    (text,) = texts_of(ingested(tmp_path, {name: data}))
    return str(text)


def test_paragraphs_and_tables_of_a_docx_are_lines(tmp_path: Path) -> None:
    inner = f"<w:tc>{paragraph('甲')}<w:tbl>{table_row('一', '二')}</w:tbl></w:tc>"
    nested = f"<w:tr>{inner}<w:tc>{paragraph('乙')}</w:tc></w:tr>"
    body = (
        paragraph("主诉：头痛", '<w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr>')
        + f"<w:tbl>{table_row('项目', '结果')}{table_row('血压', '180/110')}</w:tbl>"
        + f"<w:tbl>{nested}</w:tbl>"
        + "<w:p><w:r><w:t>左</w:t><w:tab/><w:t>右</w:t><w:br/><w:t>下</w:t></w:r></w:p>"
    )
    text = text_of(tmp_path, "a.docx", docx(body))
    assert text == "主诉：头痛\n项目\t结果\n血压\t180/110\n甲 一\t二\t乙\n左\t右\n下"


def test_raised_digits_of_a_docx_keep_their_value(tmp_path: Path) -> None:
    def run(text: str, way: str) -> str:
        return f'<w:r><w:rPr><w:vertAlign w:val="{way}"/></w:rPr><w:t>{text}</w:t></w:r>'

    runs = [run("12×10", "baseline"), run("9", "superscript"), run("/L，CO", "baseline"), run("2", "subscript")]
    body = f"<w:p>{''.join(runs)}</w:p>"
    assert text_of(tmp_path, "a.docx", docx(body)) == "12×10⁹/L，CO₂"


def test_text_that_word_does_not_show_is_not_read(tmp_path: Path) -> None:
    body = (
        "<w:p><w:del><w:r><w:delText>删去</w:delText></w:r></w:del><w:moveFrom><w:r><w:t>移走</w:t></w:r></w:moveFrom>"
        "<w:r><w:instrText>PAGE</w:instrText><w:t>留下</w:t></w:r></w:p>"
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f"<mc:Choice>{paragraph('文本框')}</mc:Choice><mc:Fallback>{paragraph('文本框')}</mc:Fallback></mc:AlternateContent>"
    )
    assert text_of(tmp_path, "a.docx", docx(body)) == "留下\n文本框"


def test_the_text_part_of_a_docx_may_have_another_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(docx(paragraph("头痛")))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    moved = {
        "[Content_Types].xml": parts["[Content_Types].xml"].replace(b"document.xml", b"document2.xml"),
        "word/document2.xml": parts["word/document.xml"],
    }
    assert text_of(tmp_path, "a.docx", zipped(moved)) == "头痛"


def test_pages_of_a_pdf_are_in_order_and_raised_digits_keep_their_value(tmp_path: Path) -> None:
    raised = [
        ("白细胞12.5×10", 12.0, 0.0),
        ("9", 7.0, 5.0),
        ("/L，CO", 12.0, 0.0),
        ("2", 7.0, -2.0),
        ("正常", 12.0, 0.0),
    ]
    artifact = ingested(tmp_path, {"a.pdf": pdf([SENTENCE, raised], ["第二页。"])})
    assert texts_of(artifact) == [f"{SENTENCE}\n白细胞12.5×10⁹/L，CO₂正常\n第二页。"]
    assert metas(artifact) == [{"file": "a.pdf", "row": 1, "page_lines": True}]


def test_plain_digits_of_a_pdf_stay_plain(tmp_path: Path) -> None:
    assert LEADING == 20
    lines = [[("血压180/110", 12.0, 0.0)], [("9", 8.0, 0.0), ("月", 12.0, 0.0)], [("表1", 14.0, 0.0), (" 2", 9.0, 0.0)]]
    assert text_of(tmp_path, "a.pdf", pdf(lines)) == "血压180/110\n9月\n表1 2"


def test_a_long_pdf_is_cut_between_pages_and_named_by_its_first_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.files.rows.LONG_TEXT", 100_000)
    data = pdf(*[[SENTENCE] * 35] * 50)
    artifact = ingested(tmp_path, {"a.pdf": data})
    rows = [meta["row"] for meta in metas(artifact)]
    assert rows == [1, 20, 39]
    assert sum(text.count(SENTENCE) for text in texts_of(artifact)) == 35 * 50
    whole = ingested(tmp_path / "whole", {"a.pdf": data}, txt_documents="file")
    assert texts_of(whole) == ["\n".join(texts_of(artifact))]


def test_a_long_docx_is_cut_between_paragraphs(tmp_path: Path) -> None:
    data = docx("".join(paragraph(f"{number}{SENTENCE * 20}") for number in range(1, 900)))
    artifact = ingested(tmp_path, {"a.docx": data})
    assert [meta["row"] for meta in metas(artifact)][:2] == [1, 35]
    assert all(text.endswith("。") for text in texts_of(artifact))


def test_a_sheet_is_a_table_whose_values_are_text(tmp_path: Path) -> None:
    rows = [
        ["出院病历", None, None],
        ["姓名", "日期", "text"],
        ["甲", datetime(2026, 1, 2), "头痛三天。"],
        [None, datetime(2026, 1, 3, 4, 5), 12.0],
        [None, None, None],
        ["乙", True, "发热。"],
    ]
    artifact = ingested(tmp_path, {"a.xlsx": xlsx({"一": rows}, merged=["A1:C1", "A3:A4"])})
    assert texts_of(artifact) == ["头痛三天。", "12", "发热。"]
    assert metas(artifact) == [
        {"file": "a.xlsx", "row": 3, "姓名": "甲", "日期": "2026-01-02"},
        {"file": "a.xlsx", "row": 4, "姓名": "甲", "日期": "2026-01-03 04:05:00"},
        {"file": "a.xlsx", "row": 6, "姓名": "乙", "日期": "TRUE"},
    ]


def test_every_sheet_has_a_name_and_fields_of_its_own(tmp_path: Path) -> None:
    book = xlsx(
        {
            "病程": [["病历"], ["头痛。"], [None], ["  "]],
            "说明": [["本表由系统导出"]],
            "对话": [["ask", "answer"], ["疼吗", "疼"]],
        }
    )
    fields = {"*.xlsx/病程": "病历", "a.xlsx/对话": {"turns_field": ["ask", "answer"]}}
    artifact = ingested(tmp_path, {"a.xlsx": book}, fields=fields)
    assert texts_of(artifact) == ["头痛。", "患者：疼吗\n医生：疼"]
    assert [meta["file"] for meta in metas(artifact)] == ["a.xlsx/病程", "a.xlsx/对话"]
    assert rejects(artifact) == {}


@pytest.mark.parametrize("kind", ["docx", "pdf", "xlsx"])
def test_packed_files_give_the_same_documents(tmp_path: Path, kind: str) -> None:
    data = {"docx": docx(paragraph("头痛。")), "pdf": pdf(["头痛。"]), "xlsx": xlsx({"一": [["text"], ["头痛。"]]})}[
        kind
    ]
    files = {f"a.{kind}": data, f"b.{kind}.gz": gzip.compress(data), "c.zip": zipped({f"d.{kind}": data})}
    artifact = ingested(tmp_path, files)
    assert texts_of(artifact) == ["头痛。"] * 3
    assert [meta["file"] for meta in metas(artifact)] == [f"a.{kind}", f"b.{kind}.gz", f"c.zip/d.{kind}"]


@pytest.mark.parametrize("missing", ["pypdfium2", "pylopdf_fonts_zh_cn"])
def test_a_missing_package_is_named_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == missing else found(name))
    with pytest.raises(UserError, match=rf"{missing}, which is not installed.*yiwen\[documents\]"):
        ingested(tmp_path, {"a.pdf": pdf(["头痛。"]), "b.txt": "头痛。".encode()})


def read_counts(artifact: Artifact) -> list[dict[str, object]]:
    return artifact.to_table("files").to_pylist()


def test_what_is_read_of_each_file_is_counted(tmp_path: Path) -> None:
    lines = [{"text": "头痛。"}, {"备注": "无"}, {"text": ""}, {"text": " "}]
    artifact = ingested(
        tmp_path, {"a.jsonl": "\n".join(map(json.dumps, lines)).encode(), "b.png": b"x", "c.txt": b"abc"}
    )
    assert read_counts(artifact) == [
        {
            "file": "a.jsonl",
            "rows": 4,
            "documents": 1,
            "rejected": [{"reason": "empty_text", "rows": 2}, {"reason": "missing_text", "rows": 1}],
        },
        {"file": "b.png", "rows": 1, "documents": 0, "rejected": [{"reason": "unknown_kind", "rows": 1}]},
        {"file": "c.txt", "rows": 1, "documents": 1, "rejected": []},
    ]
