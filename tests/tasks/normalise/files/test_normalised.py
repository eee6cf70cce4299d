"""Files of diagnoses: workbooks in and out, the review file and its way back, and bad input. All data are synthetic."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from flows.cli import main
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.settings import REPOSITORY
from infra.stage import run
from tasks.files.raw_input import RawInput
from tasks.normalise.files import ADDED, HEADER, Summary, normalise_file
from tasks.normalise.index import CandidateIndexParams, candidate_index
from tasks.normalise.normaliser import Normaliser
from tasks.normalise.terms.terminology import TerminologyParams, terminology

LIST = """编码,名称
J18.9,肺炎
J15.9,细菌性肺炎
I10,高血压
E11.9,2型糖尿病
I25.1,冠状动脉粥样硬化性心脏病
K29.7,胃炎
K25.9,胃溃疡
N20.0,肾结石
C34.9,肺恶性肿瘤
S82.9,小腿骨折
S72.9,股骨骨折
H25.9,老年性白内障
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("list")
    (place / "list.csv").write_text(LIST, encoding="utf-8")
    store = ArtifactStore(place / "store")
    listed = run(terminology, store, TerminologyParams(format="list"), {"list": RawInput(place / "list.csv")}).artifact
    return Path(run(candidate_index, store, CandidateIndexParams(), {"terminology": listed}).artifact.path)


@pytest.fixture(scope="module")
def normaliser(folder: Path) -> Normaliser:
    return Normaliser(folder)


def book(path: Path, rows: list[list[Any]], merged: tuple[str, ...] = ()) -> Path:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    for area in merged:
        made.active.merge_cells(area)
    made.save(path)
    return path


def rows_of(path: Path) -> list[list[Any]]:
    return [list(row) for row in openpyxl.load_workbook(path).active.iter_rows(values_only=True)]


def column(path: Path, name: str) -> list[Any]:
    header, *rows = rows_of(path)
    return [row[header.index(name)] for row in rows]


def test_workbook_keeps_its_columns_and_gets_codes(normaliser: Normaliser, tmp_path: Path) -> None:
    rows = [["7 月出院", None, None], ["病历号", "诊断", "费用"], [7, "肺炎、高血压", 12.5], [8, "胃炎\n肾结石", None]]
    source, target = book(tmp_path / "in.xlsx", rows), tmp_path / "out.xlsx"
    summary = normalise_file(normaliser, source, target)
    assert str(summary) == "2 diagnoses: 2 coded, 0 uncertain, 0 refused, 0 empty"
    title, header, *written = rows_of(target)
    assert title[:3] == rows[0] and header == [*rows[1], *ADDED]
    assert [row[:3] for row in written] == rows[2:]
    codes = [row[header.index("normalised_code")].split("##") for row in written]
    assert [sorted(own) for own in codes] == [["I10", "J18.9"], ["K29.7", "N20.0"]]


@pytest.mark.parametrize(("merged", "title"), [((), "门诊诊断表"), (("A1:B1",), "门诊诊断表"), ((), "7 月")])
def test_column_below_a_title_is_found_by_the_end_of_its_name(
    normaliser: Normaliser, tmp_path: Path, merged: tuple[str, ...], title: str
) -> None:
    rows = [[title, None], ["序号", "出院诊断"], [1, "肺炎"], [2, "胃炎"]]
    source, target = book(tmp_path / "in.xlsx", rows, merged), tmp_path / "out.xlsx"
    summary = normalise_file(normaliser, source, target)
    assert (summary.rows, summary.coded, summary.column) == (2, 2, "出院诊断")
    (tmp_path / "in.csv").write_text("序号,出院诊断\n1,肺炎\n", encoding="utf-8")
    assert normalise_file(normaliser, tmp_path / "in.csv", tmp_path / "out.csv").coded == 1


def test_two_columns_that_end_so_are_for_a_person_to_choose(normaliser: Normaliser, tmp_path: Path) -> None:
    rows = [["门诊诊断表", None], ["入院诊断", "出院诊断"], ["肺炎", "胃炎"]]
    source, target = book(tmp_path / "in.xlsx", rows), tmp_path / "out.xlsx"
    with pytest.raises(UserError, match=r"its columns are 入院诊断, 出院诊断\. Give the column with --column"):
        normalise_file(normaliser, source, target)
    assert normalise_file(normaliser, source, target, "入院诊断").column == "入院诊断"


def test_csv_and_workbook_get_the_same_answers(normaliser: Normaliser, tmp_path: Path) -> None:
    texts = ["肺炎", "否认高血压", "肺部炎症", "", "冠心病伴2型糖尿病"]
    source = book(tmp_path / "in.xlsx", [["诊断"], *([text] for text in texts)])
    (tmp_path / "in.csv").write_text("诊断\n" + "".join(f'"{text}"\n' for text in texts), encoding="utf-8")
    normalise_file(normaliser, source, tmp_path / "a.xlsx")
    normalise_file(normaliser, tmp_path / "in.csv", tmp_path / "b.csv")
    with (tmp_path / "b.csv").open(encoding="utf-8-sig", newline="") as file:
        written = list(csv.reader(file))
    assert [[cell or "" for cell in row] for row in rows_of(tmp_path / "a.xlsx")] == written


def test_answers_in_a_file_are_those_of_python(normaliser: Normaliser, tmp_path: Path) -> None:
    texts = ["肺炎伴高血压", "胃溃疡？", "小腿骨折"]
    source = book(tmp_path / "in.xlsx", [["诊断"], *([text] for text in texts)])
    normalise_file(normaliser, source, tmp_path / "out.xlsx")
    answers = normaliser.normalise(texts)
    assert column(tmp_path / "out.xlsx", "normalised_code") == [
        "##".join(one.code for one in own.answers) or None for own in answers
    ]
    assert column(tmp_path / "out.xlsx", "status") == ["##".join(own.statuses) for own in answers]


def test_statuses_and_their_parts_are_columns(normaliser: Normaliser, tmp_path: Path) -> None:
    texts = ["肺炎，否认高血压", "母亲有高血压", "胃炎待排", "低盐饮食", None]
    source = book(tmp_path / "in.xlsx", [["诊断", "备注"], *([text, "x"] for text in texts)])
    summary = normalise_file(normaliser, source, tmp_path / "out.xlsx")
    assert column(tmp_path / "out.xlsx", "status") == [
        "coded##negated", "family", "uncertain", "not_diagnosis", "empty"
    ]  # fmt: skip
    assert column(tmp_path / "out.xlsx", "refused")[0] == "否认高血压 (negated)"
    assert summary == Summary(5, 1, 1, 2, 1, 0, summary.statuses)


UNSURE = ["肺炎球菌", "骨头断了", "肺炎球菌", "胃部不适反酸", "肺炎"]


def reviewed(normaliser: Normaliser, folder: Path, suffix: str) -> tuple[Summary, Path]:
    source = book(folder / "in.xlsx", [["诊断"], *([text] for text in UNSURE)])
    strict = Normaliser(normaliser._own.folder, threshold=0.999)
    review = folder / f"review{suffix}"
    return normalise_file(strict, source, folder / f"out{suffix}", review=review), review


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_what_is_below_the_threshold_goes_to_the_review_file_and_back(
    normaliser: Normaliser, folder: Path, tmp_path: Path, suffix: str
) -> None:
    summary, review = reviewed(normaliser, tmp_path, suffix)
    if suffix == ".xlsx":
        rows = rows_of(review)
    else:
        with review.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
    assert tuple(rows[0]) == HEADER and len(rows) - 1 == summary.to_review >= 3
    text, choice, count, places = (rows[1][HEADER.index(name)] for name in ("text", "choice", "count", "rows"))
    assert (text, choice or "", int(count), places) == ("肺炎球菌", "", 2, "2 4"), "the most frequent text comes first"
    assert "confidence below 0.999; found by" in rows[1][HEADER.index("reason")]
    chosen = {"肺炎球菌": "2", "骨头断了": "S82.9##股骨骨折", "胃部不适反酸": "-"}
    assert chosen.keys() <= {row[0] for row in rows[1:]}
    second = rows[1][HEADER.index("candidates")].split("\n")[1].split(" ")[1]
    for row in rows[1:]:
        row[1] = chosen.get(row[0], "")
    if suffix == ".xlsx":
        book(review, rows)
    else:
        with review.open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows(rows)
    again = Normaliser(folder, names=review).normalise(["肺炎球菌", "骨头断了", "胃部不适反酸", "肾结石、骨头断了"])
    assert [[one.code for one in own.answers] for own in again[:3]] == [[second], ["S82.9", "S72.9"], []]
    assert again[2].statuses == ("not_diagnosis",)
    assert {one.code for one in again[3].answers} == {"N20.0", "S82.9", "S72.9"}
    assert again[0].answers[0].confidence == 1.0 and again[0].matches[0].source == "user"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,codes\n肺炎,I10\n", "has no column 'choice'"),
        ("text,choice\n肺炎,Z99.9\n", "'Z99.9', chosen for '肺炎', is neither a code nor a term"),
        ("text,choice\n肺炎,I10\n肺炎,J18.9\n", "rows 2 and 3: two choices for '肺炎'"),
        ("text,choice\n,I10\n", "row 2: there is a choice, but no text"),
        ("text,choice\n甲,Z1\n乙,I10\n丙,Z2\n", "2 choices cannot be used:\n.*row 2: 'Z1'.*\n.*row 4: 'Z2'"),
        ("text,choice\n甲,##\n,I10\n甲乙,;\n", "3 choices cannot be used:\n.*row 2: .*\n.*row 3: .*\n.*row 4: "),
        ("text,choice,candidates\n肺炎,4,1. I10 高血压\n", "row 2: there is no candidate 4"),
    ],
)
def test_unusable_names_are_reported(folder: Path, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "names.csv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        Normaliser(folder, names=tmp_path / "names.csv")


def test_command_writes_workbook_and_review_and_says_so(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = book(tmp_path / "in.xlsx", [["诊断"], *([text] for text in UNSURE)]), tmp_path / "out.xlsx"
    asked = ["normalise", "--model", str(folder), "--input", str(source), "--output", str(target)]
    assert main([*asked, "--threshold", "0.999"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{target}: 5 diagnoses: ")
    review = tmp_path / "out.review.xlsx"
    assert any(line.startswith(f"{review}: ") and "give it with --names" in line for line in lines)
    assert review.is_file() and main([*asked, "--names", str(review)]) == 0
    assert main([*asked, "--threshold", "2"]) == 2
    assert "2 is not a valid threshold" in capsys.readouterr().err
    assert main([*asked, "--review", str(target)]) == 2
    assert "is the input or the output" in capsys.readouterr().err


def test_cells_with_only_a_code_are_reviewed_and_finer_codes_are_kept(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["I10", "C34.903 肺恶性肿瘤", "Z99.9", "S82", "肺炎"]
    source, target = book(tmp_path / "in.xlsx", [["诊断"], *([text] for text in texts)]), tmp_path / "out.xlsx"
    asked = ["normalise", "--model", str(folder), "--input", str(source), "--output", str(target)]
    assert main(asked) == 0
    out = capsys.readouterr().out
    assert "1 row with a finer code than the answer" in out and "5 diagnoses: 2 coded, 3 uncertain" in out
    assert column(target, "written_code") == ["I10", "C34.903", None, "S82", None]
    assert column(target, "written_code_is") == [None, "finer", None, None, None]
    reviewed = {row[0]: row for row in rows_of(tmp_path / "out.review.xlsx")[1:]}
    place = HEADER.index("candidates")
    assert reviewed["I10"][place] == "1. I10 高血压" and reviewed["I10"][place - 1] == "only a code"
    assert reviewed["S82"][place - 1] == "only a code, which the list lacks"


def test_file_of_a_header_only_is_warned_of(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.csv").write_text("诊断\n", encoding="utf-8")
    asked = ["--input", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out.csv")]
    assert main(["normalise", "--model", str(folder), *asked]) == 0
    assert "in.csv has a header, but no rows below it" in capsys.readouterr().err


def test_index_keeps_threshold_and_names(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("text,choice\n富贵病,E11.9\n", encoding="utf-8")
    (tmp_path / "list.csv").write_text(LIST, encoding="utf-8")
    store = ArtifactStore(tmp_path / "store")
    listed = run(terminology, store, TerminologyParams(format="list"), {"list": RawInput(tmp_path / "list.csv")})
    inputs = {"terminology": listed.artifact, "names": RawInput(tmp_path / "names.csv")}
    own = Normaliser(run(candidate_index, store, CandidateIndexParams(threshold=0.75), inputs).artifact.path)
    assert own.threshold == 0.75 and [one.code for one in own.normalise(["富贵病"])[0].answers] == ["E11.9"]
    assert Normaliser(own._own.folder, threshold=0.1).threshold == 0.1


def test_a_column_of_numbers_gets_no_code(normaliser: Normaliser, tmp_path: Path) -> None:
    source = book(tmp_path / "in.xlsx", [["诊断"], [123], [4.5], [20231123], [0]])
    summary = normalise_file(normaliser, source, tmp_path / "out.xlsx")
    assert (summary.coded, summary.rows) == (0, 4)
    assert column(tmp_path / "out.xlsx", "诊断") == [123, 4.5, 20231123, 0], "numbers stay numbers"


def test_ten_thousand_characters_in_a_cell(normaliser: Normaliser, tmp_path: Path) -> None:
    long = ("肺炎、高血压；" * 2_000)[:10_000]
    source = book(tmp_path / "in.xlsx", [["诊断"], [long], ["胃炎"]])
    assert normalise_file(normaliser, source, tmp_path / "out.xlsx").coded == 2
    assert column(tmp_path / "out.xlsx", "诊断") == [long, "胃炎"]


def test_cells_that_a_spreadsheet_would_run_are_inert(normaliser: Normaliser, tmp_path: Path) -> None:
    dangerous = ["=1+1", "+cmd", "-2+3", "@SUM(A1)"]
    (tmp_path / "in.csv").write_text("诊断\n" + "\n".join(dangerous) + "\n", encoding="utf-8")
    normalise_file(normaliser, tmp_path / "in.csv", tmp_path / "out.xlsx", review=tmp_path / "review.xlsx")
    for path in tmp_path.glob("*.xlsx"):
        cells = [cell for row in openpyxl.load_workbook(path).active.iter_rows() for cell in row]
        assert all(cell.data_type != "f" for cell in cells)
        assert not any(str(cell.value).startswith(("=", "+", "@")) for cell in cells)
    assert column(tmp_path / "out.xlsx", "诊断") == [f"'{cell}" for cell in dangerous]


def with_formula(path: Path, value: str | None) -> Path:
    """Write a workbook whose A2 is a formula with this stored value, as a spreadsheet program stores it."""
    book(path, [["诊断"], ["=B2"], ["胃炎"]])
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(packed, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            if value is not None and name == "xl/worksheets/sheet1.xml":
                bare = b'<c r="A2"><f>B2</f><v></v></c>' if b"<v></v>" in content else b'<c r="A2"><f>B2</f><v /></c>'
                assert bare in content
                content = content.replace(bare, f'<c r="A2" t="str"><f>B2</f><v>{value}</v></c>'.encode())
            after.writestr(name, content)
    path.write_bytes(packed.getvalue())
    return path


def test_formula_counts_as_its_stored_value(normaliser: Normaliser, tmp_path: Path) -> None:
    summary = normalise_file(normaliser, with_formula(tmp_path / "in.xlsx", "肺炎"), tmp_path / "out.xlsx")
    assert column(tmp_path / "out.xlsx", "normalised_code") == ["J18.9", "K29.7"] and summary.without_value == ()


def test_formula_without_a_value_is_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = with_formula(tmp_path / "in.xlsx", None), tmp_path / "out.xlsx"
    assert main(["normalise", "--model", str(folder), "--input", str(source), "--output", str(target)]) == 0
    assert "1 cells have a formula without a stored value and count as empty: A2" in capsys.readouterr().out
    assert column(target, "status") == ["empty", "coded"]


def test_merged_cells_have_their_value_in_every_row(normaliser: Normaliser, tmp_path: Path) -> None:
    rows = [["病区", "诊断"], ["三", "肺炎"], [None, None], ["四", "胃炎"]]
    source = book(tmp_path / "in.xlsx", rows, ("A2:A3", "B2:B3"))
    normalise_file(normaliser, source, tmp_path / "out.xlsx")
    assert column(tmp_path / "out.xlsx", "病区") == ["三", "三", "四"]
    assert column(tmp_path / "out.xlsx", "normalised_code") == ["J18.9", "J18.9", "K29.7"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "protected by a password"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"Workbook", "an old format"),
        (b"PK\x03\x04 broken", "cannot be read as XLSX"),
    ],
)
def test_workbooks_that_cannot_be_read_are_named(
    normaliser: Normaliser, tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "in.xlsx").write_bytes(content)
    with pytest.raises(UserError, match=f"in.xlsx .*{message}"):
        normalise_file(normaliser, tmp_path / "in.xlsx", tmp_path / "out.xlsx")


def test_two_codes_of_one_name_leave_the_answer_unsure(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(f"{LIST}A01.0,伤寒\nX99.0,伤寒\n", encoding="utf-8")
    store = ArtifactStore(tmp_path / "store")
    raw = {"list": RawInput(tmp_path / "list.csv")}
    listed = run(terminology, store, TerminologyParams(format="list"), raw).artifact
    own = Normaliser(run(candidate_index, store, CandidateIndexParams(), {"terminology": listed}).artifact.path)
    twice, once = (Normaliser(own._own.folder, threshold=0).normalise([text])[0].answers for text in ("伤寒", "胃炎"))
    assert len(twice) == 1 and {one.code for one in twice[0].candidates[:2]} == {"A01.0", "X99.0"}
    assert twice[0].confidence < once[0].confidence


def test_example_of_the_documents_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (REPOSITORY / "docs" / "terms.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(from tasks\.normalise.*?)```", page, flags=re.DOTALL)
    assert len(example.splitlines()) <= 11
    exec(example.replace("artifacts/candidate_index/…", str(folder)), {})
    lines = capsys.readouterr().out.splitlines()
    texts = ["2型糖尿病伴视网膜病变", "左侧肺部感染", "否认高血压"]
    found = Normaliser(folder).normalise(texts)
    assert len(lines) == sum(len(one.answers) + len(one.unsure) + len(one.refused) for one in found)
    assert "否认高血压 否认高血压 negated" in lines and lines[0].startswith(
        "2型糖尿病伴视网膜病变 2型糖尿病视网膜病变 E11.9"
    )


def test_merged_area_that_would_fill_memory_is_refused(normaliser: Normaliser, tmp_path: Path) -> None:
    source = book(tmp_path / "in.xlsx", [["诊断"], ["肺炎"], [None]], ("A2:A3",))
    packed = io.BytesIO()
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(packed, "w") as after:
        for name in before.namelist():
            after.writestr(name, before.read(name).replace(b'ref="A2:A3"', b'ref="A2:XFD1048576"'))
    source.write_bytes(packed.getvalue())
    with pytest.raises(UserError, match=r"in.xlsx, sheet .*more than .* cells"):
        normalise_file(normaliser, source, tmp_path / "out.xlsx")
