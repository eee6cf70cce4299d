"""Prediction from file to file: every row is answered, or kept with the reason why not.

The file's text is in memory, with the tokens and answers of one slab of records.
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

from infra.errors import UserError
from models.training.allocator import keep_freed_memory, return_freed_memory
from tasks.downstream.catalogue import task as task_of
from tasks.downstream.readers.source_text import source_text
from tasks.downstream.spec import TaskSpec
from tasks.files.atomic import whole_file
from tasks.finetune.predict import Predictor
from tasks.finetune.prediction_rows import answer_to_value, to_json

SLAB = 4096
"""Records that are answered at a time."""


def predict_file(
    predictor: Predictor,
    source: Path,
    target: Path,
    task: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, int]:
    """Answer every row of a file, in order; a row that cannot be answered is kept with the reason in `error`.

    Args:
        source: .txt (one record per line, with tabs between several texts), .jsonl or .json (objects, lists or
            strings), .csv or .tsv with a header. Fields have the task's own names, or text, or text1 and text2.
        target: file to write, atomically, as .jsonl: the given fields with `answer` and any `scores`, or `error`.
        task: name of the task, to be checked against the model's.
        progress: receives the rows done so far.

    Returns:
        Counts: rows, answered, errors.

    Raises:
        UserError: the file does not exist or has an unknown form, or the model is for another task.
    """
    spec = _spec(predictor, task)
    counts = {"rows": 0, "answered": 0, "errors": 0}
    rows = _rows(source)
    keep_freed_memory()
    try:
        with whole_file(target, source) as file:
            while slab := list(islice(rows, SLAB)):
                within = functools.partial(_report_within, progress, counts["rows"], len(slab))
                for row in _answered(predictor, spec, slab, within):
                    counts["errors" if "error" in row else "answered"] += 1
                    file.write(to_json(row) + "\n")
                counts["rows"] += len(slab)
                progress(counts["rows"])
    finally:
        return_freed_memory()
    return counts


def _report_within(progress: Callable[[int], None], before: int, size: int, done: int) -> None:
    """Report rows done within a slab. Long texts are several inputs, so their count may exceed that of the rows."""
    progress(before + min(done, size - 1))


def _spec(predictor: Predictor, task: str | None) -> TaskSpec | None:
    """Return the catalogue's entry of the model's task, or None if the catalogue no longer has it."""
    if task is not None and task_of(task).name != predictor.shape.task:
        raise UserError(f"This model was trained for {predictor.shape.task}, not for {task}. Leave out --task.")
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
    """Return the texts of a row by the names of its fields; empty if it has none of them."""
    if "texts" in row:
        return row["texts"]
    number = predictor.texts_of_a_record
    # The task's own names come first: {"query1": …, "query2": …}, or plainly {"text1": …, "text2": …}.
    plain = {1: ("text",), 2: ("text1", "text2"), None: ("evidence", "question", "options")}[number]
    for names in (spec.fields.texts if spec is not None else plain, plain):
        if all(name in row for name in names):
            values = [row[name] for name in names]
            return [text for value in values for text in (value if isinstance(value, list) else [value])]
    return []


Row = tuple[dict[str, Any], str]
"""Fields of a row, and what is wrong with it, if anything."""


def _rows(source: Path) -> Iterator[Row]:
    readers: dict[str, Callable[[str], Iterable[Row]]] = {
        ".txt": _txt_rows, ".jsonl": _jsonl_rows, ".json": _json_rows, ".csv": _csv_rows, ".tsv": _tsv_rows,
    }  # fmt: skip
    if not source.is_file():
        raise UserError(f"There is no file {source}. Give a file ({', '.join(readers)}) with --input.")
    if source.suffix.lower() not in readers:
        raise UserError(f"The name of {source} must end in one of {', '.join(readers)}. Rename or convert the file.")
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
                yield {"line": number}, f"not JSON ({error})"


def _json_rows(text: str) -> Iterator[Row]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):  # several values, one per line, as some tools name .json
        yield from _jsonl_rows(text)
        return
    yield from ((_row_of(value), "") for value in (values if isinstance(values, list) else [values]))


def _csv_rows(text: str, delimiter: str = ",") -> Iterator[Row]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in reader:
            surplus = row.pop(None, None)
            yield row, f"{len(surplus)} more fields than the header" if surplus else ""
    except csv.Error as error:
        raise UserError(f"Line {reader.line_num} of the file: {error}. Save it again as CSV in UTF-8.") from error


def _tsv_rows(text: str) -> Iterator[Row]:
    return _csv_rows(text, "\t")


def _row_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"texts": value if isinstance(value, list) else [value]}
