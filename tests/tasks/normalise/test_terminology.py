"""Terminologies: lists in the formats of users, missing labels, and names from a graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from kg.sources import cmekg, icd10
from tasks.downstream.catalogue import task
from tasks.downstream.task_data import load_task_data
from tasks.files.raw_input import RawInput
from tasks.knowledge.fuse import FuseGraphsParams, fuse_graphs
from tasks.knowledge.read import ReadGraphParams, read_graph
from tasks.normalise.terms.columns import listed_code, plain_code
from tasks.normalise.terms.term_list import MAX_NAME, read_term_list
from tasks.normalise.terms.terminology import TerminologyParams, entries_of, labels_in, terminology
from tasks.retrieve.candidates import Entry

LIST = "诊断编码,诊断名称,备注\nA00.900,霍乱,x\n E11.9 00 ,２型糖尿病,\nI10.x00,高血压病,\n"


def read(text: str | bytes, name: str = "list.csv", **columns: str) -> list[tuple[str, str]]:
    data = text.encode() if isinstance(text, str) else text
    return [(row.code, row.term) for row in read_term_list(data, name, **columns)[0]]


def sheet(path: Path, rows: list[list[Any]]) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path.read_bytes()


def made(store: ArtifactStore, text: str | bytes, folder: Path, **inputs: Any) -> Artifact:
    file = folder / "list.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return run(terminology, store, TerminologyParams(format="list"), {"list": RawInput(file), **inputs}).artifact


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_list_in_any_encoding_is_read(encoding: str) -> None:
    assert read(LIST.encode(encoding)) == [("A00.900", "霍乱"), ("E11.900", "２型糖尿病"), ("I10.x00", "高血压病")]


@pytest.mark.parametrize(
    "header", ["编码,名称", "代码,疾病名称", "ICD-10编码,诊断名称", "Code,Name", "主要编码,诊断名称", "icd10, term"]
)
def test_usual_titles_of_columns_are_recognised(header: str) -> None:
    assert read(f"{header}\nA00,霍乱\n") == [("A00", "霍乱")]


def test_given_columns_take_precedence_over_usual_ones() -> None:
    text = "编码,名称,旧码,旧名\nA00,霍乱,001,虎列拉\n"
    assert read(text, code_column="旧码", name_column="旧名") == [("001", "虎列拉")]


def test_title_above_the_header_is_skipped(tmp_path: Path) -> None:
    rows = [
        ["国家临床版 2.0"],
        [],
        ["序号", "诊断编码", "诊断名称"],
        [1, "A00.900", "霍乱"],
        [2, None, None],
        [3, 12, "痛"],
    ]
    data = sheet(tmp_path / "list.xlsx", rows)
    assert read(data, "list.xlsx") == [("A00.900", "霍乱"), ("12", "痛")]
    assert read_term_list(data, "list.xlsx")[1][0][:2] == (5, "empty_name")


def test_first_sheet_with_the_columns_is_read(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["说明", "本表由…"])
    book.create_sheet("空")
    book.create_sheet("目录").append(["编码", "名称"])
    book["目录"].append(["A00", "霍乱"])
    book.save(tmp_path / "list.xlsx")
    assert read((tmp_path / "list.xlsx").read_bytes(), "list.xlsx") == [("A00", "霍乱")]


def test_tabs_and_quoted_cells_are_read() -> None:
    assert read("编码\t名称\nA00\t霍乱, 未特指\n", "list.tsv") == [("A00", "霍乱, 未特指")]
    assert read("编码\t名称\nA00\t霍乱\n", "list.txt") == [("A00", "霍乱")]
    assert read('编码,名称\nA00,"霍乱, ""古典"""\n') == [("A00", '霍乱, "古典"')]


def test_missing_columns_error_lists_the_columns() -> None:
    with pytest.raises(UserError, match=r"list\.csv has no columns for a code .* it has 序号, 诊断名称"):
        read("序号,诊断名称\n1,霍乱\n")
    with pytest.raises(UserError, match=r"has no columns for 国标码"):
        read(LIST, code_column="国标码")


OFFICIAL = [["A00.000", "霍乱，由于O1群霍乱弧菌"], ["A00.100x001", "霍乱，埃尔托生物型"]]
"""Rows in the form of CHIP-CDN's list, which has no header."""


@pytest.mark.parametrize("suffix", ["xlsx", "csv", "tsv"])
def test_list_without_a_header_is_recognised_by_its_codes(tmp_path: Path, suffix: str) -> None:
    rows = [*OFFICIAL, *([f"B{number:02}.900", f"第{number}种病"] for number in range(40)), ["合计", "42种"]]
    text = "\n".join(("\t" if suffix == "tsv" else ",").join(row) for row in rows)
    data = sheet(tmp_path / "list.xlsx", rows) if suffix == "xlsx" else text.encode()
    found = read(data, f"list.{suffix}")
    assert len(found) == len(rows) and found[:2] == [(code, term) for code, term in rows[:2]]


@pytest.mark.parametrize("header", ["ICD-10,疾病", "诊断码,病名"])
def test_header_with_unknown_titles_is_not_a_term(header: str) -> None:
    rows = "".join(f"B{number:02}.9,第{number}种病\n" for number in range(40))
    with pytest.raises(UserError, match="insert a first row with titles"):
        read(f"{header}\n{rows}")


def test_columns_with_most_distinct_cells_are_read_without_a_header() -> None:
    text = "1,A00,A00.0,传染病,古典霍乱\n2,A00,A00.1,传染病,埃尔托霍乱\n"
    assert read(text) == [("A00.0", "古典霍乱"), ("A00.1", "埃尔托霍乱")]
    with pytest.raises(UserError, match="insert a first row with titles"):
        read("古典霍乱,001\n埃尔托霍乱,002\n")
    with pytest.raises(UserError, match="has no columns for 编码"):
        read(text, code_column="编码")


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (b"", "list.csv", "it has nothing"),
        (b"PK\x03\x04no zip", "list.xlsx", "cannot be read as XLSX"),
        (b"x", "list.doc", "a term list must be a .csv"),
        ("编码,名称\nA00,霍乱\n".encode() + b"\xff\xff\xff,\x81\n", "list.csv", "line 3"),
    ],
)
def test_unreadable_list_is_reported(data: bytes | str, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(data, name)


def test_missing_quote_rejects_one_row() -> None:
    terms, rejects = read_term_list(('编码,名称\nA00,霍乱\nA01,"伤寒\n' + "A02,痢疾\n" * 40_000).encode(), "list.csv")
    assert [term.term for term in terms] == ["霍乱"]
    assert [(reject.row, reject.reason) for reject in rejects] == [(3, "long_name")]


def test_empty_and_long_names_are_rejected_with_their_row_number() -> None:
    terms, rejects = read_term_list(f"编码,名称\nA00,\nA01,伤寒\nA02,{'长' * (MAX_NAME + 1)}\n".encode(), "list.csv")
    assert [(term.row, term.term) for term in terms] == [(3, "伤寒")]
    assert [(reject.row, reject.reason) for reject in rejects] == [(2, "empty_name"), (4, "long_name")]


@pytest.mark.parametrize(
    ("code", "plain"),
    [("ｅ１４.9 †", "E14.9"), (" k25.900 x001", "K25.900X001"), ("A17.0*", "A17.0"), ("", ""), ("12", "12")],
)
def test_codes_are_compared_in_capitals_and_kept_as_listed(code: str, plain: str) -> None:
    assert plain_code(code) == plain
    assert plain_code(listed_code(code)) == plain


def test_codes_stay_as_their_list_writes_them() -> None:
    given = ("k25.900 x001", "Ｅ14.9 †", "A17.0*", "E11.300x001+H36.0*")
    assert [listed_code(code) for code in given] == ["k25.900x001", "E14.9†", "A17.0*", "E11.300x001+H36.0*"]


def test_terms_with_the_same_code_are_kept_and_counted(store: ArtifactStore, tmp_path: Path) -> None:
    text = "编码,名称\nA00,霍乱\nA00,虎列拉\nA00,霍乱\nB00,霍乱\n,无码\nA01,\n"
    artifact = made(store, text, tmp_path)
    rows = [(row["code"], row["term"], row["origin"]) for row in artifact.to_table("terms").to_pylist()]
    assert rows == [("", "无码", "list"), ("A00", "虎列拉", "list"), ("A00", "霍乱", "list"), ("B00", "霍乱", "list")]
    assert artifact.manifest.counters == {
        "terms_listed": 4,
        "repeated_rows": 1,
        "codes_with_several_terms": 1,
        "terms_with_several_codes": 1,
        "terms_without_code": 1,
        "labels_added": 0,
        "labels_with_code": 0,
        "rejected_empty_name": 1,
    }
    (reject,) = artifact.to_table("rejects").to_pylist()
    assert (reject["doc_id"], reject["reason"]) == ("list.csv#7", "empty_name")


def test_list_without_terms_is_an_error(store: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="contains no term"):
        made(store, "编码,名称\nA00,\n", tmp_path)


def test_labels_missing_from_the_list_are_added(store: ArtifactStore, tmp_path: Path) -> None:
    rows = [
        {"text": "霍乱腹泻", "normalized_result": "霍乱##腹泻"},
        {"text": "泻", "normalized_result": " 腹泻 "},
    ]
    labels = tmp_path / "CHIP-CDN_train.json"
    labels.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    artifact = made(store, "编码,名称\nA00,霍乱\n", tmp_path, labels=RawInput(labels))
    terms = [(row["code"], row["term"], row["origin"]) for row in artifact.to_table("terms").to_pylist()]
    assert terms == [("", "腹泻", "label"), ("A00", "霍乱", "list")]
    assert entries_of(artifact) == [Entry("", "腹泻"), Entry("A00", "霍乱")]
    assert artifact.manifest.counters["labels_added"] == 1


def test_label_in_other_spelling_gets_the_code_of_its_term(store: ArtifactStore, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text('２型糖尿病\n"高血压病"\n霍乱\n腹泻\n？\n', encoding="utf-8")
    listed = "编码,名称\nA00,霍乱\nE11,2型糖尿病\nI10,高血压病\nI15,“高血压病”\n,腹泻。\n"
    artifact = made(store, listed, tmp_path, labels=RawInput(labels))
    terms = {row["term"]: row["code"] for row in artifact.to_table("terms").to_pylist() if row["origin"] == "label"}
    assert terms == {"２型糖尿病": "E11", '"高血压病"': "I10", "腹泻": "", "？": ""}
    assert artifact.manifest.counters["labels_added"] == 4 and artifact.manifest.counters["labels_with_code"] == 2


def test_labels_are_read_from_lines() -> None:
    assert labels_in("霍乱\n\n 腹泻\r\n".encode("gb18030"), "labels.txt") == {"霍乱", "腹泻"}


LABELLED = [
    {"text": "霍乱腹泻", "normalized_result": "霍乱##腹泻"},
    {"text": "泻", "normalized_result": None},
    {"text": "未标", "normalized_result": ""},
    {"text": "无"},
]


@pytest.mark.parametrize(
    "text",
    [json.dumps(LABELLED), "\n".join(map(json.dumps, LABELLED)), "\ufeff" + json.dumps(LABELLED, ensure_ascii=False)],
)
def test_labels_agree_with_fine_tuning(tmp_path: Path, text: str) -> None:
    for split in ("train", "dev"):
        (tmp_path / f"CHIP-CDN_{split}.json").write_text(text, encoding="utf-8")
    records = load_task_data(task("chip-cdn"), tmp_path).train
    assert labels_in(text.encode(), "CHIP-CDN_train.json") == {"霍乱", "腹泻"} == set(records[0].answer or ())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", r"train\.json, line 1: not JSON"),
        (b'{"a": 1}', r"train\.json, line 1, field text: it is missing"),
        (b'[{"text": "x", "normalized_result": 1}]', r"record 1, field normalized_result: expected a text"),
        (b"[1]", r"train\.json, record 1: expected a JSON object"),
    ],
)
def test_invalid_label_file_is_reported(data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        labels_in(data, "train.json")


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A small graph, read and fused by the stages."""
    folder = tmp_path_factory.mktemp("graph")
    rows = [
        "head\trelation\ttail",
        "霍乱病\tICD10\tA00.9",
        "霍乱病\t别名\t虎列拉",
        "伤寒病\tICD10\tA01.0",
        "伤寒病\t别名\t霍乱",
    ]
    file = folder / "graph.tsv"
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    store = ArtifactStore(folder / "store")
    graph = run(read_graph, store, ReadGraphParams(source="own"), {"graph": RawInput(file)}).artifact
    return run(fuse_graphs, store, FuseGraphsParams(), {"graph": graph}).artifact


def test_graph_adds_names(store: ArtifactStore, tmp_path: Path, fused: Artifact) -> None:
    artifact = made(store, "编码,名称\nA00.900,霍乱\nA01.000,伤寒\n", tmp_path, graph=fused)
    assert entries_of(artifact) == [
        Entry("A00.900", "霍乱", ("虎列拉", "霍乱病"), ("graph", "graph")),
        Entry("A01.000", "伤寒", ("伤寒病",), ("graph",)),
    ]
    assert artifact.manifest.counters["names_added"] == 3
    assert artifact.manifest.counters["names_of_other_terms"] == 1


def test_icd10_is_the_default_list(store: ArtifactStore, tmp_path: Path) -> None:
    catalogue = tmp_path / icd10.CATALOGUE
    entries = [
        ("A00", "Cholera", "霍乱"),
        ("A009", "Cholera, unspecified", "未特指的霍乱"),
        ("J189", "Pneumonia", "未特指的肺炎"),
    ]
    catalogue.write_text(
        "\n\n".join(
            f'msgctxt "model:gnuhealth.pathology,name:{code}"\nmsgid "{english}"\nmsgstr "{chinese}"'
            for code, english, chinese in entries
        ),
        encoding="utf-8",
    )
    artifact = run(terminology, store, TerminologyParams(), {"list": RawInput(catalogue)}).artifact
    assert entries_of(artifact) == [
        Entry("A00", "霍乱", ("Cholera",), ("english",)),
        Entry("A00.9", "未特指的霍乱", ("Cholera, unspecified",), ("english",)),
        Entry("J18.9", "未特指的肺炎", ("Pneumonia", "肺炎"), ("english", "list")),
    ]


def test_list_given_as_icd10_is_an_error(store: ArtifactStore, tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text(LIST, encoding="utf-8")
    with pytest.raises(UserError, match="format=list"):
        run(terminology, store, TerminologyParams(), {"list": RawInput(file)})


def test_real_icd10_with_real_graph(store: ArtifactStore) -> None:
    try:
        files, graph = icd10.locate(), cmekg.locate()
    except UserError as error:
        pytest.skip(str(error))
    inputs = {"graph": RawInput(graph), "types": RawInput(cmekg.TYPES)}
    one = run(read_graph, store, ReadGraphParams(source="cmekg", format="cmekg"), inputs).artifact
    other = run(read_graph, store, ReadGraphParams(source="icd10", format="icd10"), {"graph": RawInput(files)}).artifact
    fused = run(fuse_graphs, store, FuseGraphsParams(), {"graph_a": one, "graph_b": other}).artifact
    artifact = run(terminology, store, TerminologyParams(), {"list": RawInput(files), "graph": fused}).artifact
    aliases = {entry.code: entry.aliases for entry in entries_of(artifact)}
    assert len(aliases) == artifact.rows("terms") == 14_416
    assert {"心功能不全", "心脏衰弱"} <= set(aliases["I50.9"])
    assert artifact.manifest.counters["names_added"] > 3_000


def test_aliases_say_where_they_come_from() -> None:
    entry = Entry("I10", "高血压", ("高血压病",), ("list",)).with_names(["HTN", "高血压病"], "graph")
    assert entry.source_of == {"HTN": "graph", "高血压病": "list"}
    assert entry.aliases == ("HTN", "高血压病") and entry.sources == ("graph", "list")
