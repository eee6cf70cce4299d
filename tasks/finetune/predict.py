"""Prediction with a fine-tuned model: a class, and files in and out.

    predictor = Predictor("path/to/model")
    predictor.predict(["患者头痛三天。", "高血压病史十年。"])

Inputs are sorted by length and run unpadded in batches of like length (models/inference.py). Memory is bounded by a
slab of records, whatever the file's length.
"""

from __future__ import annotations

import csv
import functools
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from infra.errors import UserError
from models.inference import predict
from models.training.allocator import keep_freed_memory, return_freed_memory
from tasks.downstream.catalogue import task as task_of
from tasks.downstream.features.base import Prediction
from tasks.downstream.readers.source_text import source_text
from tasks.downstream.records import Kind, Record
from tasks.downstream.spec import TaskSpec
from tasks.files.atomic import whole_file
from tasks.finetune.prediction_rows import answer_to_value, to_json
from tasks.finetune.saved_model import load_task_model

SLAB = 4096
"""Records that are in memory at once."""

Given = str | Sequence[str]
"""One text; or the texts of a record, in the order of tasks/downstream/records.py."""


class Predictor:
    """A fine-tuned model that answers.

    Args:
        folder: `model/` of a finetune artifact, or a copy of it.
        device: `cuda` or `cpu`; by default the first where there is one.
        batch_tokens: tokens of a batch; by default what models/inference.py takes for the device.

    Raises:
        UserError: the folder is no fine-tuned model.
    """

    def __init__(self, folder: str | Path, device: str | None = None, batch_tokens: int | None = None) -> None:
        self._model, self.shape, tokenizer = load_task_model(folder)
        self._model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._features = self.shape.features(tokenizer)
        self._batch_tokens = batch_tokens

    @property
    def texts_of_a_record(self) -> int | None:
        """How many texts a record has; None where it is three or more (evidence, question, options)."""
        return {Kind.PAIR: 2, Kind.RANKING: 2, Kind.CHOICE: None}.get(self.shape.kind, 1)

    def predict(self, texts: Sequence[Given], progress: Callable[[int], None] | None = None) -> list[Prediction]:
        """An answer to each, in order.

        Args:
            progress: told the inputs of the model done so far; a long text is several.

        Raises:
            UserError: a record has another number of texts than the task; the message says which.
        """
        for number, given in enumerate(texts):
            if fault := self.fault(given):
                raise UserError(f"Record {number}: {fault}.")
        records = [
            Record(str(number), (given,) if isinstance(given, str) else tuple(given))
            for number, given in enumerate(texts)
        ]
        return self._features.predict(
            records,
            lambda examples: predict(self._model, examples, batch_tokens=self._batch_tokens, progress=progress),
        )

    def fault(self, given: Any) -> str:
        """What keeps these texts from being a record of the task; empty where nothing does."""
        texts = (given,) if isinstance(given, str) else given
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            return f"every text is a string, not {str(given)[:60]!r}"
        wanted = self.texts_of_a_record
        if len(texts) != wanted if wanted is not None else len(texts) < 3:
            takes = "evidence, question and options" if wanted is None else f"{wanted} text{'s' * (wanted > 1)}"
            return f"{self.shape.task} takes {takes}, not {len(texts)} texts"
        return ""


def predict_file(
    predictor: Predictor,
    source: Path,
    target: Path,
    task: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, int]:
    """Answer every row of a file, in order; a row that cannot be answered is kept with the reason in `error`.

    Args:
        source: .txt (a text a line; tabs between several), .jsonl or .json (objects, lists or strings), .csv or .tsv
            with a header. Names of fields are the task's own, or text, or text1 and text2.
        target: written as .jsonl, whole or not at all: the given fields, `answer`, `scores` where there are any, or
            `error`.
        task: name of the task, where it is to be checked against the model's.
        progress: told the rows done so far.

    Returns:
        Counts: rows, answered, errors.

    Raises:
        UserError: the file is not there or of no known form, or the model is another task's.
    """
    spec = _spec(predictor, task)
    counts = {"rows": 0, "answered": 0, "errors": 0}
    rows = _rows(source)
    keep_freed_memory()
    try:
        with whole_file(target, source) as file:
            while slab := list(islice(rows, SLAB)):
                within = functools.partial(_tell_within, progress, counts["rows"], len(slab))
                for row in _answered(predictor, spec, slab, within):
                    counts["errors" if "error" in row else "answered"] += 1
                    file.write(to_json(row) + "\n")
                counts["rows"] += len(slab)
                progress(counts["rows"])
    finally:
        return_freed_memory()
    return counts


def _tell_within(progress: Callable[[int], None], before: int, size: int, done: int) -> None:
    """Rows done in the midst of a slab: long texts are several inputs of the model, whose count runs ahead."""
    progress(before + min(done, size - 1))


def _spec(predictor: Predictor, task: str | None) -> TaskSpec | None:
    """The catalogue's entry of the model's task; None where it is none of the catalogue's any more."""
    if task is not None and task_of(task).name != predictor.shape.task:
        raise UserError(f"This model was trained for {predictor.shape.task}, not for {task}. Leave --task out.")
    try:
        return task_of(predictor.shape.task)
    except UserError:
        return None


def _answered(
    predictor: Predictor, spec: TaskSpec | None, slab: Sequence[Row], progress: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    checked = []
    for row, fault in slab:
        texts = None if fault else _texts(predictor, spec, row)
        checked.append((row, texts, fault or predictor.fault(texts)))
    whole = [texts for _, texts, fault in checked if not fault and texts is not None]
    found = iter(predictor.predict(whole, progress))
    for row, texts, fault in checked:
        if fault or texts is None:
            yield {**row, "error": fault}
            continue
        prediction = next(found)
        answer = answer_to_value(prediction.answer, texts[0])
        scores = {} if prediction.scores is None else {"scores": [round(one, 6) for one in prediction.scores]}
        yield {**row, "answer": answer, **scores}


def _texts(predictor: Predictor, spec: TaskSpec | None, row: dict[str, Any]) -> Any:
    """The texts of a row, by the names of its fields; an empty list where it has none of them."""
    if "texts" in row:
        return row["texts"]
    number = predictor.texts_of_a_record
    plain = {1: ("text",), 2: ("text1", "text2"), None: ("evidence", "question", "options")}[number]
    for names in (spec.fields.texts if spec is not None else plain, plain):
        if all(name in row for name in names):
            values = [row[name] for name in names]
            return [text for value in values for text in (value if isinstance(value, list) else [value])]
    return []


Row = tuple[dict[str, Any], str]
"""The fields of a row, and what is wrong with it."""


def _rows(source: Path) -> Iterator[Row]:
    readers: dict[str, Callable[[str], Iterable[Row]]] = {
        ".txt": _txt_rows, ".jsonl": _jsonl_rows, ".json": _json_rows, ".csv": _csv_rows, ".tsv": _tsv_rows,
    }  # fmt: skip
    if not source.is_file():
        raise UserError(f"There is no file {source}. Give a file {', '.join(readers)} with --input.")
    if source.suffix.lower() not in readers:
        raise UserError(f"{source} is none of {', '.join(readers)}; give the file one of these names.")
    yield from readers[source.suffix.lower()](source_text(source))


def _txt_rows(text: str) -> Iterator[Row]:
    for line in text.removesuffix("\n").split("\n") if text else ():
        yield {"texts": line.split("\t")}, ""


def _jsonl_rows(text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _row_of(json.loads(line)), ""
            except (ValueError, RecursionError) as error:
                yield {"line": number}, f"no JSON ({error})"


def _json_rows(text: str) -> Iterator[Row]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        yield from _jsonl_rows(text)
        return
    yield from ((_row_of(value), "") for value in (values if isinstance(values, list) else [values]))


def _csv_rows(text: str, delimiter: str = ",") -> Iterator[Row]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in reader:
            surplus = row.pop(None, None)
            yield row, f"{len(surplus)} fields more than the header" if surplus else ""
    except csv.Error as error:
        raise UserError(f"line {reader.line_num} of the file: {error}. Save it as CSV in UTF-8 again.") from error


def _tsv_rows(text: str) -> Iterator[Row]:
    return _csv_rows(text, "\t")


def _row_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"texts": value if isinstance(value, list) else [value]}
