"""Prediction from file to file: every row is answered, or kept with the reason why not.

The file is in memory, with the tokens and answers of one slab of records; for a table as output, with all answers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from infra.errors import UserError
from models.training.allocator import keep_freed_memory, return_freed_memory
from tasks.downstream.catalogue import task as task_of
from tasks.downstream.features.base import Prediction
from tasks.downstream.records import Entity
from tasks.files.atomic import whole_file
from tasks.files.tables import WRITTEN, write_table
from tasks.finetune.predict import Predictor
from tasks.finetune.prediction.input import TEXTS, Names, Row, input_rows
from tasks.finetune.prediction.output import Answered, table
from tasks.finetune.prediction.rows import answer_to_value, marked, to_json

LINES = (".jsonl", ".ndjson", ".json", "")
"""Endings of the files that get JSON lines; a pipe such as /dev/stdout has none."""
SLAB = 4096
"""Records that are answered at a time."""
_PLAIN = {1: ("text",), 2: ("text1", "text2"), None: ("evidence", "question", "options")}
"""Names that fields may have in every task, by the number of texts."""


def predict_file(
    predictor: Predictor,
    source: Path,
    target: Path,
    task: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
    fields: Sequence[str] = (),
) -> dict[str, int]:
    """Answer every row of a file, in order; a row that cannot be answered is kept with the reason in `error`.

    Args:
        source: .txt (one record per line, with tabs between several texts), .jsonl or .json (objects, lists or
            strings), or a table with a header: .csv, .tsv, .xlsx or .parquet. Fields have the names that they had in
            training, or text, or text1 and text2.
        target: file to write, atomically. A .csv, .tsv or .xlsx file has the given columns and, behind them, `answer`,
            its `probability`, that of each label, and `error`; text that a spreadsheet would run gets an apostrophe.
            A .jsonl file, or one without an ending, gets JSON lines: the given fields with `answer` and, where the task
            has labels, `probabilities` by their names (`scores` of options or triples), or `error`.
        task: name of the task, to be checked against the model's.
        progress: receives the rows done so far.
        fields: names of the fields of the texts, if they are others.

    Returns:
        Counts: rows, answered, errors, and cut: texts whose ends were not read.

    Raises:
        UserError: the file does not exist, has an unknown form or lacks the columns, the target's ending is of no form
            that is written, or the model is for another task.
    """
    check_target(target)
    counts = {"rows": 0, "answered": 0, "errors": 0}
    before = predictor.truncated
    answers = _all_answers(predictor, source, _names(predictor, task, fields), counts, progress)
    keep_freed_memory()
    try:
        if target.suffix.lower() in WRITTEN:
            labels = [] if predictor.labels is None else predictor.labels
            write_table(target, source, table(list(answers), labels), "predictions")
        else:
            with whole_file(target, source) as file:
                for row in answers:
                    file.write(to_json(row.line()) + "\n")
    finally:
        return_freed_memory()
    return {**counts, "cut": predictor.truncated - before}


def check_target(target: Path) -> None:
    """Raise `UserError` for a file to write whose ending names no form of predictions, such as .docx."""
    if target.suffix.lower() not in (*WRITTEN, *LINES):
        raise UserError(
            f"Predictions cannot be written as {target.suffix}: {target} must end in {', '.join(WRITTEN)} for a table, "
            "or .jsonl for JSON lines. Give another file with --output."
        )


def _all_answers(
    predictor: Predictor, source: Path, names: Names, counts: dict[str, int], progress: Callable[[int], None]
) -> Iterator[Answered]:
    rows = input_rows(source, names)
    while slab := list(islice(rows, SLAB)):
        within = functools.partial(_report_within, progress, counts["rows"], len(slab))
        for row in _answered(predictor, names, slab, within):
            counts["errors" if "error" in row.added else "answered"] += 1
            yield row
        counts["rows"] += len(slab)
        progress(counts["rows"])


def _report_within(progress: Callable[[int], None], before: int, size: int, done: int) -> None:
    """Report rows done within a slab. Long texts are several inputs, so their count may exceed that of the rows."""
    progress(before + min(done, size - 1))


def _names(predictor: Predictor, task: str | None, fields: Sequence[str]) -> Names:
    """Return the names that the fields of the texts may have.

    Those that a user gives are the only ones. Otherwise the names in training come first, then the task's own, as in
    {"query1": …, "query2": …}, then plain ones.

    Raises:
        UserError: the model is for another task, or takes another number of texts.
    """
    if task is not None and task_of(task).name != predictor.shape.task:
        raise UserError(f"This model was trained for {predictor.shape.task}, not for {task}. Leave out --task.")
    number = predictor.texts_of_a_record
    if fields:
        if number is not None and len(fields) != number:
            raise UserError(
                f"{predictor.shape.task} takes {number} text{'s' * (number > 1)}, and --text-field was given "
                f"{len(fields)} times."
            )
        return [tuple(fields)]
    try:
        own = task_of(predictor.shape.task).fields.texts
    except UserError:  # the catalogue no longer has the task
        own = ()
    return [names for names in (predictor.shape.text_fields, own, _PLAIN[number]) if names]


def _answered(
    predictor: Predictor, names: Names, slab: Sequence[Row], progress: Callable[[int], None]
) -> Iterator[Answered]:
    checked = []
    for row, fault in slab:
        texts = None if fault else _texts(row, names)
        checked.append((row, texts, fault or predictor.refusal(texts)))
    whole = [texts for _, texts, fault in checked if not fault and texts is not None]
    found = iter(predictor.predict(whole, progress))
    for row, texts, fault in checked:
        if fault or texts is None:
            yield Answered.of(row, error=fault)
        else:
            prediction = next(found)
            answer = answer_to_value(prediction.answer, texts[0])
            yield Answered.of(row, answer=answer, **_scores(predictor, prediction, texts[0]))


def _scores(predictor: Predictor, prediction: Prediction, text: str) -> dict[str, Any]:
    """Return what is added to a row beside the answer."""
    probabilities = predictor.probabilities(prediction)
    if probabilities is not None:
        return {"probabilities": {label: round(one, 6) for label, one in probabilities.items()}}
    if prediction.scores is not None:
        return {"scores": [round(one, 6) for one in prediction.scores]}
    entities = prediction.answer if isinstance(prediction.answer, tuple) else ()
    return {"marked": marked(text, [one for one in entities if isinstance(one, Entity)])}


def _texts(row: dict[str, Any], names: Names) -> Any:
    """Return the texts of a row by the names of its fields; empty if it has none of them."""
    if TEXTS in row and not any(set(one) <= set(row) for one in names):
        return row[TEXTS]
    for one in names:
        if all(name in row for name in one):
            values = [row[name] for name in one]
            return [text for value in values for text in (value if isinstance(value, list) else [value])]
    return []
