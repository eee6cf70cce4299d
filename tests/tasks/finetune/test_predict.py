"""Prediction as a product: files in and out, bad rows kept with their reason, and the class beneath."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from flows.api.prediction import Predictor as PythonPredictor
from flows.cli import main
from infra.errors import UserError
from models import heads
from models.weights.pretrained import load_encoder
from tasks.downstream.features.shapes import TaskShape
from tasks.downstream.records import Entity, Kind
from tasks.files.workbooks import read_workbook, workbook_bytes
from tasks.finetune.predict import Predictor
from tasks.finetune.prediction.file import predict_file
from tasks.finetune.prediction.rows import marked
from tasks.finetune.saved_model import save_task_model
from tests.support.heads import toy_task as toy
from tests.support.text.tokenizers import VOCABULARY

torch.set_num_threads(1)

TAGGED = TaskShape(
    task="cmeee",
    kind=Kind.NESTED_TAGGING,
    head="two_stream",
    max_length=16,
    labels=("dis", "sym"),
    streams=(("sym",), ("dis",)),
)
PAIRED = TaskShape(task="cmedqq", kind=Kind.PAIR, head="pair", max_length=32, labels=("0", "1"))


def save(folder: Path, shape: TaskShape) -> Path:
    encoder = toy.save_toy_encoder(folder / "encoder")
    model = heads.build(shape.head, load_encoder(encoder), seed=1, **shape.head_options)
    save_task_model(folder / "model", model, shape, encoder)
    return folder / "model"


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("tagger"), TAGGED)


@pytest.fixture(scope="module")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("matcher"), PAIRED)


def answered(model: Path, source: Path) -> list[dict[str, Any]]:
    target = source.with_name("out.jsonl")
    counts = predict_file(Predictor(model, "cpu"), source, target)
    rows = [json.loads(line) for line in target.read_text(encoding="utf-8").removesuffix("\n").split("\n")]
    assert counts["rows"] == len(rows) == counts["answered"] + counts["errors"]
    assert counts["errors"] == sum("error" in row for row in rows)
    return rows


def test_cells_may_have_line_separators_that_end_no_line(tagger: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("id,text\n1,患者\u2028有高血压\n2,发热\n", encoding="utf-8")
    assert [row["id"] for row in answered(tagger, source)] == ["1", "2"]


def test_answers_do_not_depend_on_what_else_is_asked(tagger: Path) -> None:
    predictor = Predictor(tagger, "cpu", batch_tokens=20)
    texts = ["患者有高血压头痛" * 8, "", "发热", " \t", "CT 检查\ud800👨‍👩‍👧怎么办", "发热"]
    together = predictor.predict(texts)
    assert together == [predictor.predict([text])[0] for text in texts]
    assert together[2] == together[5]
    assert together[1].answer == together[3].answer == ()
    for text, found in zip(texts, together, strict=True):
        assert isinstance(found.answer, tuple)
        assert all(0 <= one.start < one.end <= len(text) for one in found.answer)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.txt", "头痛\t发热\n高血压\t糖尿病\n"),
        ("in.jsonl", '{"text_a": "头痛", "text_b": "发热", "n": 1}\n{"text1": "高血压", "text2": "糖尿病"}\n'),
        ("in.json", '[["头痛", "发热"], {"texts": ["高血压", "糖尿病"]}]'),
        ("in.csv", 'text1,text2\n头痛,发热\n"高血压",糖尿病\n'),
        ("in.tsv", "text_b\ttext_a\n发热\t头痛\n糖尿病\t高血压\n"),
    ],
    ids=["txt", "jsonl", "json", "csv", "tsv"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
def test_every_form_of_file_gives_the_same_answers(
    name: str, content: str, encoding: str, matcher: Path, tmp_path: Path
) -> None:
    expected = Predictor(matcher, "cpu").predict([["头痛", "发热"], ["高血压", "糖尿病"]])
    (tmp_path / name).write_bytes(content.encode(encoding))
    rows = answered(matcher, tmp_path / name)
    assert [row["answer"] for row in rows] == [one.answer for one in expected]
    for row, one in zip(rows, expected, strict=True):
        assert list(row["probabilities"]) == ["0", "1"]
        assert list(row["probabilities"].values()) == pytest.approx(one.scores, abs=1e-5)
    if name == "in.jsonl":
        assert rows[0]["n"] == 1  # given fields stay


def test_bad_rows_are_kept_with_their_reason(matcher: Path, tmp_path: Path) -> None:
    lines = [
        '{"text1": "头痛", "text2": "发热", "id": "a"}',
        '{"text1": "头痛", "id": "b"}',
        '{"text1": "头痛", "text2": 5}',
        "{not json",
        '["头痛", "发热", "咳嗽"]',
        '"头痛"',
        "null",
        '{"text1": "\\ud800", "text2": "x"}',
        '{"text1": "头痛", "text2": " "}',
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = answered(matcher, tmp_path / "in.jsonl")
    assert ["error" in row for row in rows] == [False, True, True, True, True, True, True, False, True]
    assert rows[1] == {"text1": "头痛", "id": "b", "error": "cmedqq takes 2 texts, not 0 texts"}
    assert "every text must be a string" in rows[2]["error"] and "every text must be a string" in rows[6]["error"]
    assert rows[3]["line"] == 4 and "not JSON" in rows[3]["error"]
    assert rows[4]["error"] == "cmedqq takes 2 texts, not 3 texts"
    assert rows[7]["text1"] == "\ud800"
    assert rows[8] == {"text1": "头痛", "text2": " ", "error": "text 2 is empty"}


def test_own_answers_of_a_file_are_no_answers_of_the_model(matcher: Path, tmp_path: Path) -> None:
    lines = ['{"text1": "头痛", "text2": "发热", "answer": "x"}', '{"text1": "", "text2": "发热", "answer": "x"}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines), encoding="utf-8")
    first, second = answered(matcher, tmp_path / "in.jsonl")
    assert first["answer"] != "x" and first["answer (given)"] == "x"
    assert "answer" not in second and second["answer (given)"] == "x" and second["error"] == "text 1 is empty"


def test_python_refuses_empty_texts_and_numbers_by_their_place(matcher: Path) -> None:
    predictor = PythonPredictor(matcher, "cpu")
    with pytest.raises(UserError, match=r"^Record 1: text 2 is empty\. Leave it out\.$"):
        predictor.predict([("头痛", "发热"), ("头痛", " ")])
    assert predictor.fault(["头痛", 5]) == "every text must be a string, not 5"


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".xlsx"])
def test_tables_keep_their_columns_and_get_label_names_with_probabilities(
    ending: str, matcher: Path, tmp_path: Path
) -> None:
    rows = [
        ["编号", "answer", "text1", "text2"],
        [1, "旧", "头痛", "发热"],
        [2, "新", "高血压", "糖尿病"],
        [3, "", "", "x"],
    ]
    source, target = tmp_path / "in.xlsx", tmp_path / f"out{ending}"
    source.write_bytes(workbook_bytes(rows, "in.xlsx"))
    counts = predict_file(Predictor(matcher, "cpu"), source, target)
    assert counts == {"rows": 3, "answered": 2, "errors": 1, "cut": 0}
    expected = Predictor(matcher, "cpu").predict([["头痛", "发热"], ["高血压", "糖尿病"]])
    if ending == ".xlsx":
        header, *found = read_workbook(target.read_bytes(), "out")[0].rows
    else:
        header, *found = csv.reader(
            io.StringIO(target.read_text("utf-8-sig")), delimiter="\t" if ending == ".tsv" else ","
        )
    assert header == ["编号", "answer", "text1", "text2", "answer (2)", "probability", "p(0)", "p(1)", "error"]
    assert [row[1] or "" for row in found] == ["旧", "新", ""]
    for row, one in zip(found, expected, strict=False):
        assert row[4] == one.answer and one.scores is not None
        assert float(row[5]) == pytest.approx(max(one.scores), abs=1e-5)
        assert [float(row[6]), float(row[7])] == pytest.approx(one.scores, abs=1e-5)
    assert [value or "" for value in found[2][4:]] == ["", "", "", "", "text 1 is empty"]


def test_tables_of_entities_show_them_in_the_text(tagger: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("text\n患者有高血压头痛\n", encoding="utf-8")
    predict_file(Predictor(tagger, "cpu"), source, tmp_path / "out.csv")
    (row,) = csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text("utf-8-sig")))
    entities = [Entity(one["start"], one["end"], one["type"]) for one in json.loads(row["answer"])]
    assert entities and row["marked"] == marked(row["text"], entities)


def test_gpu_that_is_not_there_is_an_error_before_the_model_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    asked = ["--model", str(tmp_path / "none"), "--input", "new.csv", "--device", "cuda"]
    assert main(["predict", *asked]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: device=cuda: torch ")
    assert shown.endswith("finds no GPU on this machine. Use cpu, or leave the device out.\n")


@pytest.mark.parametrize("name", ["answers.docx", "answers.xls", "answers.parquet"])
def test_endings_of_other_forms_are_refused_before_any_work(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--model", str(tmp_path / "none"), "--input", str(tmp_path / "in.csv"), "--output", str(tmp_path / name)]
    assert main(["predict", *asked]) == 2
    assert f"{name} must end in .csv, .tsv, .xlsx for a table, or .jsonl" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_parquet_and_named_columns(matcher: Path, tmp_path: Path) -> None:
    table = pa.table({"甲": ["头痛"], "乙": ["发热"], "日期": [datetime.date(2026, 11, 23)]})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    predictor = Predictor(matcher, "cpu")
    with pytest.raises(
        UserError, match=r"has no column 'text_a'; its columns are '甲', '乙', '日期'\. Rename the columns"
    ):
        predict_file(predictor, tmp_path / "in.parquet", tmp_path / "out.jsonl")
    predict_file(predictor, tmp_path / "in.parquet", tmp_path / "out.jsonl", fields=("甲", "乙"))
    row = json.loads((tmp_path / "out.jsonl").read_text("utf-8"))
    assert row["answer"] == predictor.predict([["头痛", "发热"]])[0].answer and row["日期"] == "2026-11-23"
    with pytest.raises(UserError, match="cmedqq takes 2 texts, and --text-field was given 1 times"):
        predict_file(predictor, tmp_path / "in.parquet", tmp_path / "out.jsonl", fields=("甲",))


def test_texts_that_are_cut_are_counted(matcher: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"{'头痛' * 5_000}\t发热\n头痛\t发热\n", encoding="utf-8")
    counts = predict_file(Predictor(matcher, "cpu"), tmp_path / "in.txt", tmp_path / "out.jsonl")
    assert (counts["answered"], counts["cut"]) == (2, 1)


def test_the_command_line(tagger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "texts.txt"
    source.write_text("患者有高血压\n头痛\n", encoding="utf-8")
    assert main(["predict", "--model", str(tagger), "--task", "cmeee", "--input", str(source), "--device", "cpu"]) == 0
    assert "2 of 2 rows answered" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "texts.predictions.jsonl").read_text("utf-8").splitlines()]
    for row in rows:
        for entity in row["answer"]:
            assert entity["text"] == row["texts"][0][entity["start"] : entity["end"]]
            assert entity["type"] in ("dis", "sym")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "{encoder}", "--input", "{file}"], "is not a fine-tuned model: it has no task.json"),
        (["--model", "{folder}", "--input", "{file}"], "Did you mean {model}?"),
        (["--model", "{absent}", "--input", "{file}"], "There is no folder"),
        (["--model", "{model}", "--input", "{absent}"], "There is no file"),
        (["--model", "{model}", "--input", "{model}/vocab.doc"], "must end in one of .txt, .jsonl"),
        (["--model", "{model}", "--input", "{lines}", "--output", "{lines}"], "is the input itself"),
        (["--model", "{model}", "--input", "{file}", "--output", "{file}/out.jsonl"], "cannot be written"),
        (["--model", "{model}", "--input", "{file}", "--task", "cmeie"], "trained for cmeee, not for cmeie"),
        (["--model", "{model}", "--input", "{file}", "--task", "cmee"], "There is no task 'cmee'. Did you mean"),
    ],
)
def test_user_errors_are_one_line(
    arguments: list[str], message: str, tagger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("头痛\n", encoding="utf-8")
    (tmp_path / "in.jsonl").write_text('{"text": "头痛"}\n', encoding="utf-8")
    (tagger / "vocab.doc").write_text("", encoding="utf-8")
    places = {
        "model": tagger,
        "folder": tagger.parent,
        "encoder": tagger.parent / "encoder",
        "file": tmp_path / "in.txt",
        "lines": tmp_path / "in.jsonl",
        "absent": tmp_path / "absent.txt",
    }
    assert main(["predict", *(argument.format(**places) for argument in arguments)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and message.format(**places) in shown


def test_wrong_number_of_texts_error_names_the_record(matcher: Path) -> None:
    with pytest.raises(UserError, match="Record 1: cmedqq takes 2 texts, not 1 text"):
        Predictor(matcher, "cpu").predict([["头痛", "发热"], "头痛"])


def changed(name: str, **change: Any) -> Callable[[Path], Any]:
    def damage(folder: Path) -> None:
        file = folder / name
        file.write_text(json.dumps(json.loads(file.read_text()) | change))

    return damage


def cut(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-9])


def with_more_tokens(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join([*VOCABULARY, "龘"]), encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut("task.json"), r"task\.json cannot be read: Invalid JSON: .*\. Fine-tune again"),
        (
            lambda folder: (folder / "task.json").write_text("[]"),
            r"task\.json cannot be read: Input should be an object",
        ),
        (changed("task.json", max_length="long"), r"task\.json cannot be read: max_length: Input should be"),
        (
            changed("task.json", labels=["0"]),
            r"task\.json and head\.json belong to different models\. Copy the whole folder",
        ),
        (
            changed("task.json", head="single"),
            r"task\.json and head\.json belong to different models\. Copy the whole folder",
        ),
        (changed("task.json", max_length=65), r"task\.json has max_length 65, the encoder 64 positions"),
        (changed("task.json", max_length=0), r"task\.json has max_length 0, the encoder 64 positions"),
        (changed("head.json", head="unheard-of"), r"head\.json or head\.safetensors is damaged: .*Fine-tune again"),
        (cut("head.safetensors"), r"head\.json or head\.safetensors is damaged: .*Fine-tune again"),
        (cut("model.safetensors"), r"model\.safetensors is not a readable file of weights: .*Download the model again"),
        (with_more_tokens, "the tokeniser has 70 tokens, the encoder embeddings for 69. Copy the whole folder"),
    ],
)
def test_damaged_model_error_is_one_line(damage: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    folder = save(tmp_path, PAIRED)
    damage(folder)
    with pytest.raises(UserError, match=message) as caught:
        Predictor(folder, device="cpu")
    assert str(caught.value).startswith(str(folder)) and "\n" not in str(caught.value)
