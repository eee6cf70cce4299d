"""Questions with candidates: cMedQA's three files, cMedIR's documents, NLPEC's options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from infra.errors import UserError
from tasks.downstream.readers.delimited import csv_rows
from tasks.downstream.readers.json import read_json
from tasks.downstream.spec import Row, TaskSpec

QUESTIONS, ANSWERS = ("questions.csv", "question.csv"), ("answers.csv", "answer.csv")


def read_documents(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read cMedIR: objects with a query and its `documents` of `title`, `url` and `label`; one row per document."""
    for row in read_json(path, spec):
        documents = row.fields.get("documents")
        if not isinstance(documents, list):
            raise UserError(f"{path}, {row.place}: the field documents is missing or not a list.")
        for number, document in enumerate(documents, 1):
            if not isinstance(document, dict):
                raise UserError(f"{path}, {row.place}, document {number}: expected a JSON object.")
            yield Row(f"{row.place}, document {number}", {"query": row.fields.get("query"), **document})


def read_candidates(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read cMedQA 1.0 or 2.0: ids of questions and answers, whose texts are in two other files of the folder.

    A training line is a question, a right and a wrong answer; a right answer that occurs with several wrong ones
    becomes one row. Lines of other splits are question, answer, number, label.

    Raises:
        UserError: a file is missing, or an id has no text.
    """
    questions = _texts(path, QUESTIONS, ("question_id", "content"), ("que_id", "content"))
    answers = _texts(path, ANSWERS, ("ans_id", "question_id", "content"), ("ans_id", "que_id", "content"))
    seen: set[tuple[str, str]] = set()
    for row in _candidate_lines(path):
        question = str(row.fields["question_id"])
        for answer, label in _answers_of(row.fields):
            if (question, answer) in seen:
                continue
            seen.add((question, answer))
            if question not in questions or answer not in answers:
                where = f"question {question}" if question not in questions else f"answer {answer}"
                raise UserError(f"{path}, {row.place}: {where} has no text in the folder's other files.")
            fields = {"question_id": question, "question": questions[question], "answer": answers[answer]}
            yield Row(row.place, {**fields, "answer_id": answer, "label": label})


def _candidate_lines(path: Path) -> Iterator[Row]:
    if "train" in path.name:
        return csv_rows(path, ("question_id", "pos_ans_id", "neg_ans_id"))
    return csv_rows(path, ("question_id", "ans_id", "cnt", "label"))


def _answers_of(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    if "pos_ans_id" in fields:
        return (str(fields["pos_ans_id"]), "1"), (str(fields["neg_ans_id"]), "0")
    return ((str(fields["ans_id"]), str(fields["label"])),)


def _texts(path: Path, names: tuple[str, ...], *columns: tuple[str, ...]) -> dict[str, str]:
    """Texts by id, from whichever of the named files is beside `path`."""
    file = next((path.with_name(name) for name in names if path.with_name(name).exists()), None)
    if file is None:
        raise UserError(f"{path.with_name(names[0])} is missing; it has the texts that {path.name} refers to by id.")
    texts: dict[str, str] = {}
    for row in csv_rows(file, columns[0]):
        values = tuple(str(value) for value in row.fields.values())
        if values not in columns:  # the header of the other version of cMedQA
            texts[values[0]] = values[-1]
    return texts


def read_options(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read NLPEC: `question`, `evidence`, `answer`, and `options` as a list, as a mapping A … E, or as fields A … E.

    The answer is the letter, the number from 0, or the option's own text; it is returned as the number.

    Raises:
        UserError: an example has no options, or an answer that is not one of them.
    """
    for row in read_json(path, spec):
        fields = dict(row.fields)
        options = _options(path, row)
        answer = fields.get("answer")
        fields["options"] = list(options.values())
        fields["answer"] = None if answer in (None, "") else _chosen(path, row, options, answer)
        yield Row(row.place, fields)


def _options(path: Path, row: Row) -> dict[str, str]:
    """Options by letter, in order."""
    given = row.fields.get("options", {letter: row.fields[letter] for letter in "ABCDE" if letter in row.fields})
    if isinstance(given, list):
        given = dict(zip("ABCDEFGH", given, strict=False))
    if not isinstance(given, dict) or len(given) < 2:
        raise UserError(f"{path}, {row.place}: the field options must hold at least two options.")
    return {str(letter).strip().upper(): str(given[letter]) for letter in sorted(given)}


def _chosen(path: Path, row: Row, options: dict[str, str], answer: Any) -> int:
    letters = list(options)
    if isinstance(answer, int) and 0 <= answer < len(letters):
        return answer
    if str(answer).strip().upper() in letters:
        return letters.index(str(answer).strip().upper())
    # Two equal options would leave the right one open, so their text alone does not name it.
    same = [number for number, text in enumerate(options.values()) if text == answer]
    if len(same) == 1:
        return same[0]
    raise UserError(f"{path}, {row.place}: answer {answer!r} is not one of the options {', '.join(letters)}.")
