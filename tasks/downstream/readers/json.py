"""JSON files: a list of objects, or one object per line; entities in the forms of CMeEE, ChineseBLUE and CCKS."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.errors import UserError
from tasks.downstream.readers.source_text import source_text
from tasks.downstream.spec import Row, TaskSpec


def read_json(path: Path, spec: TaskSpec | None = None) -> Iterator[Row]:
    """Yield the objects of a file; its first character decides whether it is a list or has one object per line.

    Raises:
        UserError: the file is malformed; the message names the line, or the record of a list.
    """
    yield from json_rows(source_text(path), path)


def json_rows(text: str, path: Path) -> Iterator[Row]:
    """Yield the objects in the text of a file; see `read_json`."""
    if not text.lstrip().startswith("["):
        yield from _lines(path, text)
        return
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path} is not a JSON list ({error}). Compare its size with the download; it may be truncated."
        ) from error
    for number, value in enumerate(values, 1):
        yield Row(f"record {number}", _object(path, f"record {number}", value))


def _lines(path: Path, text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, {place}: not JSON ({error}): {line[:80]!r}.") from error
        yield Row(place, _object(path, place, value))


def _object(path: Path, place: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{path}, {place}: expected a JSON object, got {str(value)[:80]!r}.")
    return value


def read_cmeee(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read CMeEE: `entities` with `start_idx`, `end_idx` (inclusive), `type`, `entity`."""
    for row in read_json(path, spec):
        yield _with_entities(path, row, "entities", _cmeee_entity)


def read_mentions(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read ChineseBLUE: `mention_data` with `mention`, `offset` (a number or its digits) and `type` or `label`."""
    for row in read_json(path, spec):
        yield _with_entities(path, row, "mention_data", _mention)


def read_ccks(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read CCKS 2019: `originalText`, and `entities` with `start_pos`, `end_pos` (exclusive), `label_type`."""
    for row in read_json(path, spec):
        fields = dict(row.fields)
        if "originalText" in fields:
            fields["text"] = fields.pop("originalText")
        yield _with_entities(path, Row(row.place, fields), "entities", _ccks_entity)


def _cmeee_entity(given: Mapping[str, Any]) -> dict[str, Any]:
    start, end = _whole(given, "start_idx"), _whole(given, "end_idx") + 1
    return {"start": start, "end": end, "type": given["type"], "mention": given.get("entity")}


def _mention(given: Mapping[str, Any]) -> dict[str, Any]:
    start, mention = _whole(given, "offset"), given["mention"]
    label = given["type"] if "type" in given else given["label"]
    return {"start": start, "end": start + len(mention), "type": label, "mention": mention}


def _ccks_entity(given: Mapping[str, Any]) -> dict[str, Any]:
    start, end = _whole(given, "start_pos"), _whole(given, "end_pos")
    return {"start": start, "end": end, "type": given["label_type"], "mention": None}


def _whole(given: Mapping[str, Any], field: str) -> int:
    """Value of a field as an int, from an int or its digits."""
    value = given[field]
    with contextlib.suppress(ValueError):
        if type(value) is int or isinstance(value, str):  # not isinstance for int: True is one as well
            return int(value)
    raise TypeError(f"field {field} is {value!r}, which is not a whole number,")


def _with_entities(path: Path, row: Row, key: str, convert: Any) -> Row:
    """Row with `entities` in the common form; without the key it has none (a test file)."""
    fields = dict(row.fields)
    given = fields.pop(key, None)
    if given is None:
        return Row(row.place, fields)
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise UserError(f"{path}, {row.place}: {key} must be a list, got {str(given)[:60]!r}.")
    entities = []
    for number, entity in enumerate(given, 1):
        try:
            entities.append(convert(entity))
        except (KeyError, TypeError, ValueError) as error:
            problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise UserError(f"{path}, {row.place}, {key} {number}: {problem} in {str(entity)[:120]}.") from error
    fields["entities"] = entities
    return Row(row.place, fields)
