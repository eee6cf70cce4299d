"""Hostile and broken DOCX, PDF and XLSX files: each is rejected by name with a remedy, and no other file is lost."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from openpyxl.utils import get_column_letter

from infra.limits import VARIABLE
from tests.support.processes.limited import limited
from tests.support.text.office_files import (
    docx,
    entity_docx,
    locked_package,
    locked_pdf,
    long_docx,
    nested_pdf,
    paragraph,
    pdf,
    scanned_pdf,
    table_row,
    xlsx,
)
from tests.support.text.reading import ingested, rejects, written
from tests.support.text.stages import texts_of

GOOD = "患者头痛三天。"
SHEET = {"一": [["text"], [GOOD]]}


def without(data: bytes, part: str) -> bytes:
    return rewritten(data, part, None)


def rewritten(data: bytes, part: str, content: bytes | None) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            if name != part:
                target.writestr(name, source.read(name))
            elif content is not None:
                target.writestr(name, content)
    return sink.getvalue()


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def sheet_with(more: str, before: str = "</sheetData>", part: str = "xl/worksheets/sheet1.xml") -> bytes:
    """A workbook with more XML in one of its parts."""
    whole = xlsx(SHEET)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        content = archive.read(part).decode()
    assert before in content
    return rewritten(whole, part, content.replace(before, more + before).encode())


def attributes(count: int) -> str:
    return " ".join(f'a{number}="1"' for number in range(count))


BROKEN: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "locked.docx": (locked_package, "encrypted_file", "protected by a password; save it without one"),
    "locked.xlsx": (locked_package, "encrypted_file", "protected by a password; save it without one"),
    "locked.pdf": (locked_pdf, "encrypted_file", "protected by a password; save it without one"),
    "old.docx": (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(999), "unreadable_file", "save it as .docx"),
    "old.xlsx": (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(999), "unreadable_file", "save it as .xlsx"),
    "scan.pdf": (scanned_pdf, "no_text_layer", "2 of its 2 pages are pictures, as of a scan; recognise the text"),
    "blank.pdf": (lambda: pdf([]), "no_text_layer", "none of the 1 pages of the file has text"),
    "text.pdf": (lambda: b"no PDF at all", "unreadable_file", "print it to a new PDF"),
    "text.docx": (lambda: b"no zip at all", "unreadable_file", "no list of its parts"),
    "text.xlsx": (lambda: b"no zip at all", "unreadable_file", "Save it again, or as CSV"),
    "empty.pdf": (lambda: b"", "unreadable_file", "print it to a new PDF"),
    "other.docx": (lambda: xlsx(SHEET), "unreadable_file", "no text part; save it again as .docx"),
    "parts.docx": (lambda: without(docx(paragraph("头")), "word/document.xml"), "unreadable_file", "no text part"),
    "xml.docx": (lambda: docx("<w:p>"), "unreadable_file", "mismatched tag.*save it again"),
    "entities.docx": (entity_docx, "unreadable_file", "declares the entity 'a'"),
    "strings.xlsx": (lambda: without(xlsx(SHEET), "xl/workbook.xml"), "unreadable_file", "Save it again, or as CSV"),
    "header.xlsx": (lambda: xlsx({"一": [["text"]]}), "empty_file", "contains no row"),
}


def test_broken_files_are_rejected_by_name_and_no_other_is_lost(tmp_path: Path) -> None:
    sound = {"a.docx": docx(paragraph(GOOD)), "n.pdf": pdf([GOOD]), "n.xlsx": xlsx(SHEET), "z.txt": GOOD.encode()}
    artifact = ingested(tmp_path, {name: make() for name, (make, *_) in BROKEN.items()} | sound)
    assert texts_of(artifact) == [GOOD] * len(sound)
    found = {row["doc_id"].split("#")[0]: row for row in artifact.to_table("rejects").to_pylist()}
    assert found.keys() == BROKEN.keys()
    for name, (_, reason, detail) in BROKEN.items():
        assert found[name]["reason"] == reason, name
        assert re.search(detail, found[name]["detail"]), found[name]["detail"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(b"startxref\n", b"startxref\n9"),
        lambda data: data[: data.index(b"xref\n0 1")] + data[data.index(b"trailer") :],
        lambda data: data.replace(b"/Count 1", b"/Count 9"),
        lambda data: b"junk of a mail program\n" + data,
    ],
    ids=["startxref", "no table", "count", "junk"],
)
def test_a_damaged_table_of_objects_is_rebuilt(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    assert texts_of(ingested(tmp_path, {"a.pdf": damage(pdf([GOOD]))})) == [GOOD]


def test_what_is_readable_of_a_damaged_docx_is_kept(tmp_path: Path) -> None:
    whole = docx("".join(paragraph(f"第{number}段，{GOOD}") for number in range(2_000)))
    artifact = ingested(tmp_path, {"a.docx": flipped(whole, len(whole) // 2), "b.txt": GOOD.encode()})
    damaged, sound = texts_of(artifact)
    assert sound == GOOD
    assert damaged.startswith(f"第0段，{GOOD}\n第1段，{GOOD}\n")
    assert list(rejects(artifact).values()) in (["damaged_archive"], ["unreadable_file"])


ELEMENTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "many.xlsx": (lambda: sheet_with("<a/>" * 5_000_000), "more than 524,288 elements outside of rows and strings"),
    "nested.xlsx": (lambda: sheet_with("<a>" * 3_000_000), "more than 256 elements within one another"),
    "tag.xlsx": (lambda: sheet_with(f"<row {attributes(400_000)}/>"), "a tag or comment of more than 1,048,576 bytes"),
    "comment.xlsx": (lambda: sheet_with(f"<!--{'a' * (20 << 20)}-->"), "a tag or comment of more than 1,048,576 bytes"),
    "attributes.xlsx": (lambda: sheet_with(f"<row {attributes(300)}/>"), "an element of more than 256 attributes"),
    "cells.xlsx": (
        lambda: sheet_with(f"<row>{'<c/>' * 3_000_000}</row>"),
        "a row or string of more than 262,144 elements",
    ),
    "rows.xlsx": (lambda: sheet_with("<row><c/></row>" * 3_000_000), "more than [0-9,]+ (elements|rows or strings)"),
    "lines.xlsx": (lambda: sheet_with("\n" * (40 << 20)), "a text of more than 16,777,216 bytes"),
    "names.xlsx": (
        lambda: sheet_with("".join(f"<a{number}/>" for number in range(50_000))),
        "more than 10,000 names of elements and attributes",
    ),
    "styles.xlsx": (
        lambda: sheet_with("<xf/>" * 3_000_000, "</cellXfs>", "xl/styles.xml"),
        "part xl/styles.xml has more than 524,288 elements",
    ),
    "merged.xlsx": (lambda: sheet_with(f"<!--{'<mergeCell ' * 2_000_000}-->"), "a tag or comment of more than"),
    "nested.docx": (lambda: docx("<a>" * 3_000_000), "more than 256 elements within one another"),
    "cells.docx": (lambda: docx("<w:tr>" + "<w:tc/>" * 3_000_000), "or a row of a table, counting each element as 64"),
    "tag.docx": (lambda: docx(f"<w:p {attributes(400_000)}/>"), "a tag or comment of more than 1,048,576 bytes"),
}


@pytest.mark.slow
def test_elements_without_end_are_rejected_in_memory_and_time(tmp_path: Path) -> None:
    files = {name: make() for name, (make, _) in ELEMENTS.items()}
    assert all(len(data) < 1_000_000 for data in files.values())
    written(tmp_path / "corpus", files | {"z.txt": GOOD.encode()})
    rejected, texts = limited(INGEST, str(tmp_path), mib=700, seconds=300)
    assert rejected.keys() == ELEMENTS.keys()
    for name, (_, detail) in ELEMENTS.items():
        reason, found = rejected[name]
        assert reason == "unreadable_file", name
        assert re.search(detail, found), found
        assert re.search(r"YIWEN_LIMITS if you trust it|split it", found), found
    assert texts[-1] == GOOD


def test_limits_on_elements_are_beyond_large_sheets_and_tables(tmp_path: Path) -> None:
    """A row with all columns of Excel, with formats and formulas, and a long table with a table in a cell."""
    wide = "".join(f'<c r="{get_column_letter(n)}3" s="0"><f>1+{n}</f><v>{n}</v></c>' for n in range(1, 16_385))
    inner = f"<w:tc><w:tbl>{table_row(GOOD, GOOD) * 2_000}</w:tbl></w:tc>"
    table = f"<w:tbl><w:tr>{inner}</w:tr>{table_row(GOOD, '') * 20_000}</w:tbl>"
    artifact = ingested(
        tmp_path,
        {
            "a.docx": docx(table),
            "b.xlsx": sheet_with(f'<row r="3">{wide}</row>'),
            "c.xlsx": xlsx(SHEET, merged=["A3:C9"]),
        },
        txt_documents="file",
    )
    assert rejects(artifact) == {}
    first, *others = texts_of(artifact)
    assert first.count(GOOD) == 24_000
    assert others == [GOOD, "1", GOOD]


INGEST = """
import sys
from pathlib import Path
from infra.artifacts import ArtifactStore
from infra.stage import run
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
folder = Path(sys.argv[1])
made = run(ingest, ArtifactStore(folder / "store"), IngestParams(), {"corpus": RawInput(folder / "corpus")}).artifact
rejected = {row["doc_id"].split("#")[0]: [row["reason"], row["detail"]] for row in made.to_table("rejects").to_pylist()}
report([rejected, made.to_table("documents")["text"].to_pylist()])
"""


@pytest.mark.slow
def test_bombs_are_rejected_by_name(tmp_path: Path) -> None:
    cells = "".join(f'<row r="{n}"><c r="XFD{n}"><v>1</v></c></row>' for n in range(3, 9_000))
    sheet = xlsx(SHEET)
    with zipfile.ZipFile(io.BytesIO(sheet)) as archive:
        content = archive.read("xl/worksheets/sheet1.xml").decode()
    wide = content.replace("</sheetData>", cells + "</sheetData>").encode()
    merged = content.replace(
        "</sheetData>", '</sheetData><mergeCells><mergeCell ref="A1:XFD99999"/></mergeCells>'
    ).encode()
    files = {
        "long.docx": long_docx(),
        "forms.pdf": nested_pdf(),
        "wide.xlsx": rewritten(sheet, "xl/worksheets/sheet1.xml", wide),
        "merged.xlsx": rewritten(sheet, "xl/worksheets/sheet1.xml", merged),
        "spaces.xlsx": rewritten(sheet, "xl/worksheets/sheet1.xml", content.encode() + b" " * (300 << 20)),
        "z.txt": GOOD.encode(),
    }
    assert all(len(data) < 1_000_000 for data in files.values())
    written(tmp_path / "corpus", files)
    rejected, texts = limited(INGEST, str(tmp_path), mib=1_500, seconds=800, **{VARIABLE: "pdf_seconds=2"})
    assert {name: reason for name, (reason, _) in rejected.items()} == {
        "long.docx": "unreadable_file",
        "forms.pdf": "archive_bomb",
        "wide.xlsx": "unreadable_file",
        "merged.xlsx": "unreadable_file",
        "spaces.xlsx": "unreadable_file",
    }
    assert "a paragraph is longer than" in rejected["long.docx"][1]
    assert "takes more than 2 seconds" in rejected["forms.pdf"][1]
    assert "more than 50,000,000 cells" in rejected["wide.xlsx"][1]
    assert "expands from" in rejected["spaces.xlsx"][1]
    assert texts[-1] == GOOD
    assert len(texts) <= 2, "of the wide sheet the rows before are read"
