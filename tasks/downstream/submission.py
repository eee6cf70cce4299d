"""Submission files for the CBLUE server, and a check of their format.

Each task's file is its test file returned with answers: the same records in the same order, labels as strings,
CMeEE's entities with inclusive ends, CHIP-CDN's terms separated by `##`, CMeIE with one object per line. The zip holds
the files side by side under their official names, not in a folder.

The rules are those of CBLUE's format checker, and two that otherwise only the server reports: no record may occur
twice, and entities must be inside their text.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.errors import UserError
from tasks.downstream.catalogue import suite
from tasks.downstream.readers.assemble import SEPARATOR
from tasks.downstream.records import Answer, Entity, Kind, Record, Triple
from tasks.downstream.spec import TaskSpec

SHOWN = 5
"""Number of mistakes that a message names."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time stamp of files in the zip: a fixed one, so that the same answers give the same bytes."""


def write_submission(spec: TaskSpec, records: Sequence[Record], answers: Sequence[Answer], folder: Path) -> Path:
    """Write a task's file under its official name.

    Args:
        spec: a task that has a submission.
        records: all records of the test file, in its order.
        answers: one per record, in the shape of the task's kind.
        folder: created if missing.

    Raises:
        UserError: the task has no submission, or answers are missing or malformed.
    """
    name = _name(spec)
    if len(answers) != len(records):
        raise UserError(f"{spec.title}: {len(records):,} test records but {len(answers):,} answers; each needs one.")
    rows = [_row(spec, record, answer) for record, answer in zip(records, answers, strict=True)]
    text = _lines(rows) if name.endswith(".jsonl") else json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
    _raise(spec, name, _mistakes(spec, rows, records))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def write_zip(paths: Sequence[Path], path: Path) -> Path:
    """Pack submission files into the archive that is uploaded.

    Raises:
        UserError: two files have the same name, or there are no files.
    """
    # A zip can hold one name twice; the server would read only one of the two.
    twice = [name for name, count in Counter(one.name for one in paths).items() if count > 1]
    if twice or not paths:
        raise UserError(f"{path.name}: {', '.join(twice) + ' twice' if twice else 'there are no files to pack'}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in sorted(paths, key=lambda one: one.name):
            entry = zipfile.ZipInfo(one.name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, one.read_bytes())
    return path


def check_submission(path: Path, tests: Mapping[str, Sequence[Record]] | None = None) -> list[str]:
    """Check a submission file, or every file of a zip, and return the CBLUE tasks missing from a zip.

    Args:
        path: a .json, .jsonl or .zip file.
        tests: test records by task name, if number and texts are to be compared too.

    Raises:
        UserError: the server would not accept it; the message names the first mistakes with their records.
    """
    specs = {spec.submission: spec for spec in suite("cblue") if spec.submission}
    found = _contents(path)
    for name, data in found.items():
        if name not in specs:
            close = next((known for known in specs if known and known.lower() == name.lower()), None)
            hint = f"call it {close}" if close else f"use one of {', '.join(map(str, specs))}"
            raise UserError(f"{path}: {name} is not the name of a submission file; {hint}.")
        spec = specs[name]
        rows = _parse(path, name, data)
        _raise(spec, name, _mistakes(spec, rows, (tests or {}).get(spec.name)))
    return [spec.name for spec in specs.values() if spec.submission not in found] if path.suffix == ".zip" else []


def _name(spec: TaskSpec) -> str:
    if spec.submission is None:
        raise UserError(f"{spec.title} takes no submission; its test answers are public.")
    return spec.submission


def _row(spec: TaskSpec, record: Record, answer: Any) -> dict[str, Any]:
    """Official record with its answer."""
    row: dict[str, Any] = {}
    if spec.fields.record_id:
        row[spec.fields.record_id] = record.extra.get(spec.fields.record_id, record.record_id)
    row.update(zip(spec.fields.texts, record.texts, strict=True))
    row.update({name: value for name, value in record.extra.items() if name not in row})
    name, value = _written(spec, record, answer)
    row[name] = value
    return row


def _written(spec: TaskSpec, record: Record, answer: Any) -> tuple[str, Any]:
    match spec.kind:
        case Kind.NESTED_TAGGING | Kind.TAGGING:
            return "entities", [_entity(one, record.texts[0]) for one in answer]
        case Kind.TRIPLES:
            return "spo_list", [_triple(one, record.texts[0]) for one in answer]
        case Kind.NORMALISATION:
            return spec.fields.answer, SEPARATOR.join(answer)
    return spec.fields.answer, str(answer)


def _entity(one: Entity, text: str) -> dict[str, Any]:
    # CMeEE counts the last character in: 肺炎 at the start of a text is 0 to 1.
    return {"start_idx": one.start, "end_idx": one.end - 1, "type": one.type, "entity": text[one.start : one.end]}


def _triple(one: Triple, text: str) -> dict[str, Any]:
    return {
        "Combined": _combined(one, text),
        "predicate": one.predicate,
        "subject": one.subject,
        "subject_type": one.subject_type,
        "object": {"@value": one.object},
        "object_type": {"@value": one.object_type},
    }


def _combined(one: Triple, text: str) -> bool:
    """True if no sentence holds both ends of a triple. The benchmark does not define the field further, and no score
    depends on it.
    """
    return not any(one.subject in sentence and one.object in sentence for sentence in text.split("。"))


def _lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _contents(path: Path) -> dict[str, bytes]:
    """Files to check, by name."""
    try:
        if path.suffix != ".zip":
            return {path.name: path.read_bytes()}
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            inside = next((name for name in names if "/" in name), None)
            if inside:
                raise UserError(f"{path}: {inside} is in a folder. Put the files side by side at the top of the zip.")
            return {name: archive.read(name) for name in names}
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def _parse(path: Path, name: str, data: bytes) -> list[Any]:
    where = path if path.name == name else f"{path}, {name}"
    try:
        text = data.decode("utf-8")
        if name.endswith(".jsonl"):
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON in UTF-8 ({error}).") from error
    if not isinstance(rows, list):
        raise UserError(f"{where}: expected a list of records, got a JSON {type(rows).__name__}.")
    return rows


def _raise(spec: TaskSpec, name: str, mistakes: Iterator[str]) -> None:
    found = list(mistakes)
    if found:
        more = f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
        raise UserError(f"{name} of {spec.title}: {'; '.join(found[:SHOWN])}{more}.")


def _mistakes(spec: TaskSpec, rows: Sequence[Any], test: Sequence[Record] | None) -> Iterator[str]:
    """Mistakes that the server would refuse, or silently count as wrong answers."""
    if test is not None and len(rows) != len(test):
        yield f"{len(rows):,} records, the test file has {len(test):,}"
    key = spec.fields.record_id or spec.fields.texts[0]
    seen: Counter[str] = Counter()
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or key not in row:
            yield f"record {number}: {key} is missing"
            continue
        # Only ids must be unique: CMeEE has none, and two of its texts may be equal.
        seen[str(row[key])] += spec.fields.record_id is not None
        if test is not None and number <= len(test):
            yield from _other_record(spec, number, row, test[number - 1])
        yield from (f"record {number}: {problem}" for problem in _CHECKS[spec.kind](spec, row))
    yield from (f"{spec.fields.record_id} {one!r} occurs {count} times" for one, count in seen.items() if count > 1)


def _other_record(spec: TaskSpec, number: int, row: Mapping[str, Any], record: Record) -> Iterator[str]:
    key = spec.fields.record_id
    if key and str(row[key]) != record.record_id:
        yield f"record {number}: {key} {row[key]!r}, the test file has {record.record_id!r}"
    for name, text in zip(spec.fields.texts, record.texts, strict=True):
        if name in row and row[name] != text:
            yield f"record {number}: {name} differs from the test file"


def _check_label(spec: TaskSpec, row: Mapping[str, Any]) -> Iterator[str]:
    label = row.get(spec.fields.answer)
    if not isinstance(label, str):
        yield f"{spec.fields.answer} must be a string, got {label!r}"
    elif spec.labels is not None and label not in spec.labels:
        yield f"{spec.fields.answer} {label!r} is not one of {', '.join(spec.labels)}"


def _check_terms(spec: TaskSpec, row: Mapping[str, Any]) -> Iterator[str]:
    terms = row.get(spec.fields.answer)
    if not isinstance(terms, str):
        yield f"{spec.fields.answer} must be a string, got {terms!r}"


def _check_entities(spec: TaskSpec, row: Mapping[str, Any]) -> Iterator[str]:
    entities = row.get("entities")
    if not isinstance(entities, list):
        yield f"entities must be a list, got {entities!r}"
        return
    for one in entities:
        start, end = (one.get("start_idx"), one.get("end_idx")) if isinstance(one, dict) else (None, None)
        if type(start) is not int or type(end) is not int:  # not isinstance: True is an int as well
            yield f"start_idx and end_idx must be whole numbers in {one!r}"
        elif not 0 <= start <= end < len(row["text"]):
            yield f"{start} to {end} (inclusive) is outside the {len(row['text'])} characters of the text"
        elif one.get("type") not in (spec.labels or ()):
            yield f"type {one.get('type')!r} is not one of {', '.join(spec.labels or ())}"


def _check_triples(spec: TaskSpec, row: Mapping[str, Any]) -> Iterator[str]:
    triples = row.get("spo_list")
    if not isinstance(triples, list):
        yield f"spo_list must be a list, got {triples!r}"
        return
    for one in triples:
        given = one if isinstance(one, dict) else {}
        value = given.get("object")
        if not isinstance(given.get("subject"), str):
            yield f"subject must be a string in {one!r}"
        elif not isinstance(value, dict) or not isinstance(value.get("@value"), str):
            yield f'object must be {{"@value": a string}} in {one!r}'
        elif given.get("predicate") not in (spec.labels or ()):
            yield f"predicate {given.get('predicate')!r} is not one of the {len(spec.labels or ())} of {spec.title}"


_CHECKS: Mapping[Kind, Callable[[TaskSpec, Mapping[str, Any]], Iterator[str]]] = {
    Kind.SINGLE: _check_label,
    Kind.PAIR: _check_label,
    Kind.NORMALISATION: _check_terms,
    Kind.NESTED_TAGGING: _check_entities,
    Kind.TRIPLES: _check_triples,
}
