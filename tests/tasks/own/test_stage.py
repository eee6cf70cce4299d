"""Stage `own_task`: users' files of every form to records and splits, and every mistake named with file and row."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from tasks.downstream.own import OwnTask, read_own_task, task_in
from tasks.downstream.records import Entity
from tasks.downstream.task_data import load_task_data
from tasks.own.files import OwnFiles
from tasks.own.params import OwnTaskParams
from tasks.own.stage import own_task

ROWS = [(f"患者{number}天前{symptom}", symptom) for number in range(10) for symptom in ("头痛", "发热", "咳嗽")]
CLASSIFY = {"form": "classify", "text_fields": ("主诉",), "label_field": "症状"}


def made(tmp_path: Path, data: Path, dev: Path | None = None, test: Path | None = None, **params: Any) -> Artifact:
    store = ArtifactStore(tmp_path / "home")
    return run(own_task, store, OwnTaskParams(**params), {"files": OwnFiles(data, dev, test)}).artifact


def described(artifact: Artifact) -> OwnTask:
    own = read_own_task(artifact.path)
    assert own is not None
    return own


def texts(artifact: Artifact, split: str) -> list[str]:
    lines = Path(artifact.path, f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def csv_of(path: Path, rows: Sequence[Sequence[Any]] = ROWS, header: str = "主诉,症状") -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return path


def tsv_of(path: Path) -> Path:
    path.write_text("主诉\t症状\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS), encoding="gb18030")
    return path


def jsonl_of(path: Path) -> Path:
    lines = (json.dumps({"症状": label, "主诉": text}, ensure_ascii=False) for text, label in ROWS)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def parquet_of(path: Path) -> Path:
    table = pa.table({"主诉": [text for text, _ in ROWS], "症状": [label for _, label in ROWS]})
    pa.parquet.write_table(table, path)
    return path


def xlsx_of(path: Path, change: Callable[[Any], None] = lambda sheet: None, above: Sequence[Any] = ()) -> Path:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    for row in (*above, ("编号", "主诉", "症状"), *((n, *row) for n, row in enumerate(ROWS))):
        sheet.append(row)
    change(sheet)
    book.save(path)
    return path


@pytest.mark.parametrize(
    "write", [csv_of, tsv_of, jsonl_of, parquet_of, xlsx_of], ids=["csv", "tsv", "jsonl", "parquet", "xlsx"]
)
def test_every_kind_of_file_gives_the_same_records(write: Callable[[Path], Path], tmp_path: Path) -> None:
    name = "visits." + write.__name__.partition("_")[0]
    own = made(tmp_path, write(tmp_path / name), **CLASSIFY)
    reference = made(tmp_path / "other", csv_of(tmp_path / "visits2.csv"), **CLASSIFY)
    for split in ("train", "dev", "test"):
        assert texts(own, split) == texts(reference, split)
    found = described(own)
    assert (found.task, found.title, found.metric, found.text_fields) == (
        "classify", "visits: classification", "macro_f1", ("主诉",),
    )  # fmt: skip
    assert found.labels["头痛"] == {"train": 8, "dev": 1, "test": 1}
    assert (
        found.origins["dev"]
        == f"3 of 30 rows, drawn from {name}: stratified by label, equal texts kept together, seed 0"
    )
    data = load_task_data(task_in("classify", own.path), own.path)
    assert len(data.train) == 24 and data.own == found and data.origins == found.origins


def test_record_ids_lead_back_to_the_row(tmp_path: Path) -> None:
    own = made(tmp_path, csv_of(tmp_path / "a.csv"), **CLASSIFY)
    row = json.loads(Path(own.path, "test.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()[int(row["id"]) - 1].startswith(row["text"])


def test_titles_above_the_header_and_labels_merged_over_rows(tmp_path: Path) -> None:
    path = xlsx_of(tmp_path / "a.xlsx", lambda sheet: sheet.merge_cells("C4:C6"), above=[("门诊登记",), ()])
    labels = described(made(tmp_path, path, **CLASSIFY)).labels
    assert {label: sum(counts.values()) for label, counts in labels.items()} == {"头痛": 12, "发热": 9, "咳嗽": 9}


def test_merged_texts_are_an_error(tmp_path: Path) -> None:
    path = xlsx_of(tmp_path / "a.xlsx", lambda sheet: sheet.merge_cells("B4:B6"))
    with pytest.raises(UserError, match=r"sheet 'Sheet', column '主诉': the cells B4 to B6 are merged.*Unmerge them"):
        made(tmp_path, path, **CLASSIFY)


def test_formula_without_value_is_an_error(tmp_path: Path) -> None:
    path = xlsx_of(tmp_path / "a.xlsx", lambda sheet: sheet.cell(5, 2, "=A5"))
    with pytest.raises(UserError, match="cell B5, column '主诉': a formula without a stored value"):
        made(tmp_path, path, **CLASSIFY)


def test_groups_stay_together(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", [(*row, f"病人{n % 11}") for n, row in enumerate(ROWS)], "主诉,症状,病人")
    own = made(tmp_path, path, **CLASSIFY, group_field="病人")
    patient = {text: n % 11 for n, (text, _) in enumerate(ROWS)}
    found = [{patient[text] for text in texts(own, split)} for split in ("train", "dev", "test")]
    assert sum(map(len, found)) == len(set().union(*found)) == 11
    assert "病人 and equal texts kept together" in described(own).origins["train"]


def test_groups_with_a_text_in_common_stay_together(tmp_path: Path) -> None:
    # Two patients each have a text in common: 甲 0 and 乙 0, 甲 1 and 乙 1 and so on.
    rows = [(f"文本{n}", "头痛" if n % 2 else "发热", f"{side}{n}") for n in range(15) for side in "甲乙"]
    path = csv_of(tmp_path / "a.csv", [*rows, *((f"另{text}", *rest) for text, *rest in rows)], "主诉,症状,病人")
    own = made(tmp_path, path, **CLASSIFY, group_field="病人")
    found = [{text.removeprefix("另") for text in texts(own, split)} for split in ("train", "dev", "test")]
    assert sum(map(len, found)) == len(set().union(*found)) == 15 and all(found)
    assert described(own).warnings == ()


def test_a_text_of_most_groups_does_not_join_them(tmp_path: Path) -> None:
    rows = [(f"文本{n}", "头痛" if n % 2 else "发热", f"病人{n}") for n in range(20)]
    rows += [("复查", "发热", f"病人{n}") for n in range(20)]
    own = made(tmp_path, csv_of(tmp_path / "a.csv", rows, "主诉,症状,病人"), **CLASSIFY, group_field="病人")
    assert {split: len(texts(own, split)) for split in ("train", "dev", "test")} == {"train": 32, "dev": 4, "test": 4}
    assert ", 病人 kept together" in described(own).origins["train"]
    assert "have a text that train has too" in described(own).warnings[0]


def test_a_column_of_splits(tmp_path: Path) -> None:
    words = ["train"] * 18 + ["验证"] * 6 + ["Test"] * 6
    path = csv_of(tmp_path / "a.csv", [(*row, word) for row, word in zip(ROWS, words, strict=True)], "主诉,症状,集")
    own = made(tmp_path, path, **CLASSIFY, split_field="集")
    assert texts(own, "dev") == [text for text, _ in ROWS[18:24]]
    assert described(own).origins["test"] == "a.csv, column 集"
    csv_of(path, [(*row, "另") for row in ROWS], "主诉,症状,集")
    with pytest.raises(UserError, match=r"a\.csv, line 2, column '集': '另' is not a split\. Use train, dev and test"):
        made(tmp_path, path, **CLASSIFY, split_field="集")


def test_files_of_splits_in_a_folder_and_dev_drawn_where_only_test_is_given(tmp_path: Path) -> None:
    folder = tmp_path / "文件"
    folder.mkdir()
    csv_of(folder / "train.csv", ROWS[:18])
    csv_of(folder / "valid.csv", ROWS[18:24])
    csv_of(folder / "test.csv", ROWS[24:])
    own = made(tmp_path, folder, **CLASSIFY)
    assert (described(own).title, len(texts(own, "dev"))) == ("文件: classification", 6)
    own = made(tmp_path, folder / "train.csv", test=folder / "test.csv", **CLASSIFY)
    assert len(texts(own, "train")) + len(texts(own, "dev")) == 18 and len(texts(own, "test")) == 6
    csv_of(folder / "dev.csv")
    with pytest.raises(UserError, match=r"has dev\.csv and valid\.csv for dev"):
        made(tmp_path, folder, **CLASSIFY)


def test_several_labels(tmp_path: Path) -> None:
    rows = [(f"文本{n}", "头痛；发热" if n % 2 else "发热；") for n in range(20)]
    own = made(tmp_path, csv_of(tmp_path / "a.csv", rows), **CLASSIFY, label_separator="；")
    found = described(own)
    assert (found.task, found.metric, found.more_metrics) == ("labels", "multi_label_f1", ("macro_label_f1",))
    assert {label: sum(counts.values()) for label, counts in found.labels.items()} == {"发热": 20, "头痛": 10}
    data = load_task_data(task_in("labels", own.path), own.path)
    assert {record.answer for record in data.train} == {("发热",), ("发热", "头痛")}


@pytest.mark.parametrize(
    ("relevance", "name", "metric"),
    [(("是", "否"), "rank", "mrr"), (("1", "0.0"), None, ""), (("2", "0"), "grades", "pair_score")],
)
def test_ranking_keeps_the_candidates_of_a_query_together(
    relevance: tuple[str, str], name: str | None, metric: str, tmp_path: Path
) -> None:
    rows = [(f"问题{n // 3}", f"回答{n}", relevance[n % 3 > 0]) for n in range(60)]
    path = csv_of(tmp_path / "a.csv", rows, "问,答,相关")
    params = {"form": "rank", "text_fields": ("问", "答"), "label_field": "相关"}
    if name is None:
        with pytest.raises(UserError, match=r"line 3, column '相关': '0\.0' is no relevance\. Use 1 and 0, yes and no"):
            made(tmp_path, path, **params)
        return
    own = made(tmp_path, path, **params)
    assert (described(own).task, described(own).metric) == (name, metric)
    sets = [set(texts(own, split)) for split in ("train", "dev", "test")]
    assert sum(map(len, sets)) == 20 == len(set().union(*sets))


def test_entities_of_every_markup_are_the_same(tmp_path: Path) -> None:
    plain = [f"第{n}天高血压咳嗽" for n in range(20)]
    forms: dict[str, list[dict[str, Any]]] = {"offsets": [], "bio": [], "brackets": []}
    for text in plain:
        at = text.index("高血压")
        spans = [{"start": at, "end": at + 3, "type": "病"}, {"start": at + 3, "end": at + 5, "type": "症"}]
        forms["offsets"].append({"文": text, "标": spans})
        forms["bio"].append({"文": text, "标": " ".join(["O"] * at + ["B-病", "I-病", "I-病", "B-症", "I-症"])})
        forms["brackets"].append({"文": f"{text[:at]}[高血压|病][咳嗽|症]"})
    found = {}
    for markup, rows in forms.items():
        path = tmp_path / f"{markup}.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        own = made(tmp_path, path, form="tag", text_fields=("文",), label_field="标", markup=markup)
        found[markup] = load_task_data(task_in("tag", own.path), own.path)
    assert found["offsets"].train == found["bio"].train == found["brackets"].train
    record = found["offsets"].test[0]
    at = record.texts[0].index("高血压")
    assert record.answer == (Entity(at, at + 3, "病"), Entity(at + 3, at + 5, "症"))


def test_rows_without_text_or_answer_are_counted(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", [*ROWS, (" ", "头痛"), ("患者头痛", ""), ("患者咳嗽", " ")])
    own = made(tmp_path, path, **CLASSIFY)
    assert described(own).notes == ("Rows of a.csv that were left out: 1 without text, 2 without an answer.",)
    assert [(one.place, one.reason) for one in described(own).rejects] == [
        ("line 32", "empty_text"), ("line 33", "no_answer"), ("line 34", "no_answer"),
    ]  # fmt: skip


def test_half_of_the_rows_in_both_splits_is_a_warning_with_the_count(tmp_path: Path) -> None:
    train, test = (
        csv_of(tmp_path / "train.csv"),
        csv_of(tmp_path / "test.csv", [*ROWS[:6], *[(f"新{r[0]}", r[1]) for r in ROWS[:6]]]),
    )
    own = made(tmp_path, train, test, test, **CLASSIFY)
    leak = "6 of 12 rows of test (50.0%) have a text that train has too, so the scores of test are better than for new"
    assert sum(warning.startswith(leak) for warning in described(own).warnings) == 1
    assert made(tmp_path / "drawn", train, **CLASSIFY).manifest.counters["warnings"] == 0


def test_texts_with_different_answers_are_a_warning(tmp_path: Path) -> None:
    own = made(tmp_path, csv_of(tmp_path / "a.csv", [*ROWS, (ROWS[0][0], "发热")]), **CLASSIFY)
    assert described(own).warnings == (
        "Texts that occur with different answers: 1, the first in a.csv, line 2. No model can answer these right every "
        "time.",
    )


def test_a_label_that_occurs_once(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", [*ROWS, ("患者腹痛", "腹痛"), ("患者头痛啊", "头痛啊")])
    with pytest.raises(UserError) as caught:
        made(tmp_path, path, **CLASSIFY)
    assert str(caught.value) == (
        f"{path}, column '症状': 2 labels are in one row only: '头痛啊' (line 33; is it '头痛'?), '腹痛' (line "
        "32). Such a label cannot be learnt and scored. Correct it, add rows, or take them as they are with --param "
        "strict=false."
    )
    own = made(tmp_path, path, **CLASSIFY, strict=False)
    assert "腹痛" in described(own).warnings[0] and described(own).labels["腹痛"]["train"] == 1


def test_a_ranking_of_too_few_queries(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", [("头痛吃什么", "布洛芬", 1), ("头痛吃什么", "钙片", 0)], "问,答,相关")
    with pytest.raises(UserError, match=r"of 2 rows of 1 query\. A ranker learns from many queries"):
        made(tmp_path, path, form="rank", text_fields=("问", "答"), label_field="相关")


def test_labels_of_test_that_train_lacks(tmp_path: Path) -> None:
    train = csv_of(tmp_path / "train.csv")
    test = csv_of(tmp_path / "test.csv", [*ROWS[:3], ("患者腹痛", "腹痛"), ("患者腹痛啊", "腹痛")])
    with pytest.raises(
        UserError, match=r"test\.csv, column '症状': test has labels that train lacks: '腹痛' \(line 5\)\."
    ):
        made(tmp_path, train, None, test, **CLASSIFY)
    own = made(tmp_path, train, None, test, **CLASSIFY, strict=False)
    assert any("they count as mistakes" in warning for warning in described(own).warnings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a\.csv is empty\. Its first line must name the columns"),
        ("主诉,症状\n", r"a\.csv has no rows"),
        (
            "主诉,诊断\n头痛,甲\n",
            r"has no column '症状'; its columns are '主诉', '诊断'\. Name yours with text_field and label",
        ),
        ("主诉,症状 \n头痛,甲\n发热,甲\n", r"all 2 rows have the label '甲', so there is nothing to learn"),
        ("主诉,症状\n头痛,甲,乙\n", r"a\.csv, line 2: 3 fields, but the header has 2"),
        ('主诉,症状\n头痛,"甲\n发热,乙\n', r"a\.csv, line 2: unexpected end of data\. Close the quote"),
        ("主诉,症状\n,甲\n头痛,\n", r"no row has a text and an answer \(1 empty_text, 1 no_answer\)"),
    ],
    ids=["empty", "header only", "missing column", "one class", "surplus field", "open quote", "nothing usable"],
)
def test_files_that_cannot_be_learnt_from(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        made(tmp_path, tmp_path / "a.csv", **CLASSIFY)


def test_a_column_with_nearly_that_name_is_suggested(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", header="Text,Label")
    with pytest.raises(UserError, match=r"no column 'text'; its columns are 'Text', 'Label'\. Did you mean 'Text'\?"):
        made(tmp_path, path, form="classify", text_fields=("text",))
    path = csv_of(tmp_path / "b.csv", header="主诉,科室")
    with pytest.raises(UserError, match=r"no column '主述'; its columns are '主诉', '科室'\. Did you mean '主诉'\?"):
        made(tmp_path, path, form="classify", text_fields=("主述",), label_field="科室")


def test_mixed_encodings_error_names_the_line(tmp_path: Path) -> None:
    data = "主诉,症状\n" + "".join(f"{text},{label}\n" for text, label in ROWS)
    (tmp_path / "a.csv").write_bytes(data.encode() + "患者头痛,头痛\n".encode("gb18030"))
    with pytest.raises(UserError, match=r"a\.csv, line 32: bytes that are not utf-8, .* Save the file as UTF-8"):
        made(tmp_path, tmp_path / "a.csv", **CLASSIFY)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.csv", r"There is no file .*absent\.csv\. Give one, as in --param data=FILE\.csv"),
        ("a.doc", r"a\.doc must be a \.csv, \.tsv, \.jsonl, \.json, \.parquet, \.xlsx file"),
        ("broken.xlsx", "cannot be read as XLSX"),
        ("broken.parquet", "cannot be read as Parquet"),
        ("folder", r"folder has no train file; it has no files\. Give the file itself"),
    ],
)
def test_files_that_cannot_be_read(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for other in ("a.doc", "broken.xlsx", "broken.parquet"):
        (tmp_path / other).write_text("no such format", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        made(tmp_path, tmp_path / name, **CLASSIFY)


def test_texts_of_parquet_that_are_not_utf_8(tmp_path: Path) -> None:
    offsets, data = pa.array([0, 3, 6], pa.int32()).buffers()[1], pa.py_buffer("痛".encode() + b"\xffab")
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
    pa.parquet.write_table(pa.table({"主诉": broken, "症状": ["头痛", "发热"]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet: a text after row 0 is not UTF-8 .*Write the file again"):
        made(tmp_path, tmp_path / "a.parquet", **CLASSIFY)


def test_texts_that_are_lists_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"主诉": ["头", "痛"], "症状": "甲"}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"a\.jsonl, line 1, column '主诉': expected a text, got"):
        made(tmp_path, tmp_path / "a.jsonl", **CLASSIFY)


def test_numbers_are_labels_whatever_the_file_makes_of_them(tmp_path: Path) -> None:
    lines = (json.dumps({"主诉": f"文本{n}", "症状": (1, 1.0, "2")[n % 3]}) for n in range(30))
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert set(described(made(tmp_path, tmp_path / "a.jsonl", **CLASSIFY)).labels) == {"1", "2"}


def test_no_entities_at_all(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv")
    with pytest.raises(UserError, match=r"none of 30 rows has an entity\. Is markup=brackets how they are written"):
        made(tmp_path, path, form="tag", text_fields=("主诉",), markup="brackets")


def test_metrics_of_other_tasks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"metric=entity_f1 is not a score of this task .*macro_f1 or micro_f1"):
        made(tmp_path, csv_of(tmp_path / "a.csv"), **CLASSIFY, metric="entity_f1")
    own = made(tmp_path, csv_of(tmp_path / "a.csv"), **CLASSIFY, metric="micro_f1")
    spec = task_in("classify", own.path)
    assert (spec.metric, spec.more_metrics, spec.title) == ("micro_f1", ("macro_f1",), "a: classification")
