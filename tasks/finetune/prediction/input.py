"""Rows of a file to predict on: texts, JSON, CSV, TSV, XLSX or Parquet.

A row that cannot be read is kept with the reason. The file is in memory.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.errors import UserError
from tasks.downstream.readers.source_text import source_text
from tasks.downstream.readers.tables import Needed, check_columns, parquet_rows, workbook_rows
from tasks.files.columns import distinct_columns
from tasks.files.csv_rows import allow_long_fields
from tasks.files.tables import DELIMITERS
from tasks.files.workbooks import text_of

allow_long_fields()

Row = tuple[dict[str, Any], str]
"""Fields of a row, and what is wrong with it, if anything."""
Names = Sequence[tuple[str, ...]]
"""Names that the columns of the texts may have, the likeliest first."""

TEXTS = "texts"
"""Field with all texts of a record."""
_REMEDY = "Rename the columns of the file, or give the names of those with the texts with --text-field."


def input_rows(source: Path, names: Names) -> Iterator[Row]:
    """Yield the rows of a file.

    Raises:
        UserError: it does not exist, is damaged or of an unknown form, or is a table without columns of `names`.
    """
    if not source.is_file():
        raise UserError(f"There is no file {source}. Give a file ({', '.join(_READERS)}) with --input.")
    read = _READERS.get(source.suffix.lower())
    if read is None:
        raise UserError(f"The name of {source} must end in one of {', '.join(_READERS)}. Rename or convert the file.")
    yield from read(source, names)


def _text_rows(source: Path, names: Names) -> Iterator[Row]:
    text = source_text(source)
    for line in text.removesuffix("\n").split("\n") if text else ():
        yield {TEXTS: line.split("\t")}, ""


def _line_rows(source: Path, names: Names) -> Iterator[Row]:
    yield from _lines(source_text(source))


def _lines(text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _row_of(json.loads(line)), ""
            except (ValueError, RecursionError) as error:
                yield {"line": number}, f"not JSON ({error})"


def _json_rows(source: Path, names: Names) -> Iterator[Row]:
    text = source_text(source)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):  # several values, one per line, as some tools name .json
        yield from _lines(text)
        return
    yield from ((_row_of(value), "") for value in (values if isinstance(values, list) else [values]))


def _delimited_rows(source: Path, names: Names) -> Iterator[Row]:
    text = source_text(source)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=DELIMITERS[source.suffix.lower()])
    header: Sequence[str] | None = None
    try:
        for values in reader:
            if not values:
                continue
            if header is None:
                header = distinct_columns([value.strip() for value in values])
                _check(str(source), header, names)
                continue
            surplus = len(values) - len(header)
            row = dict(zip(header, [*values, *[""] * -surplus], strict=False))
            yield row, f"{surplus} more fields than the header" if surplus > 0 else ""
    except csv.Error as error:
        raise UserError(f"Line {reader.line_num} of the file: {error}. Save it again as CSV in UTF-8.") from error
    if header is None:
        raise UserError(f"{source} is empty. Its first line must name the columns.")


def _workbook_rows(source: Path, names: Names) -> Iterator[Row]:
    first, *others = (Needed(one) for one in names)
    for row in workbook_rows(source, first, _REMEDY, *others):
        texts = {name: text_of(row.fields[name]) for one in names for name in one if name in row.fields}
        yield {**row.fields, **texts}, ""


def _parquet_rows(source: Path, names: Names) -> Iterator[Row]:
    for number, row in enumerate(parquet_rows(source, Needed(()), _REMEDY)):
        if number == 0:
            _check(str(source), list(row.fields), names)
        yield dict(row.fields), ""


def _check(where: str, header: Sequence[str], names: Names) -> None:
    if not any(set(one) <= set(header) for one in ((TEXTS,), *names)):
        check_columns(where, header, Needed(names[0]), _REMEDY)


def _row_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {TEXTS: value if isinstance(value, list) else [value]}


_READERS: Mapping[str, Callable[[Path, Names], Iterator[Row]]] = {
    ".txt": _text_rows,
    ".jsonl": _line_rows,
    ".json": _json_rows,
    ".csv": _delimited_rows,
    ".tsv": _delimited_rows,
    ".xlsx": _workbook_rows,
    ".parquet": _parquet_rows,
}
