"""Files with one example per line, fields separated by tabs or commas, with or without a header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from infra.errors import UserError
from tasks.downstream.readers.source_text import source_text
from tasks.downstream.spec import Row, TaskSpec
from tasks.files.csv_rows import allow_long_fields

allow_long_fields()


def read_tsv(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read tab-separated lines of `spec.columns`; a first line with their names is a header. Quotes are plain text.

    Raises:
        UserError: a line has a different number of columns.
    """
    for number, line in enumerate(source_text(path).split("\n"), 1):
        if line.strip():
            yield from _row(path, number, line.split("\t"), spec.columns)


def read_csv(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """Read comma-separated lines of `spec.columns`; quoted fields may contain commas and line ends.

    Raises:
        UserError: a row has a different number of columns, or a quote is never closed.
    """
    yield from csv_rows(path, spec.columns)


def csv_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """Yield the rows of a comma-separated file; a first row with the column names is a header."""
    rows = csv.reader(io.StringIO(source_text(path), newline=""), strict=True)
    first = 1
    try:
        for values in rows:
            if any(value.strip() for value in values):
                yield from _row(path, first, values, columns)
            first = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}, line {first}: {error}. Double every quote inside a quoted field.") from error


def _row(path: Path, number: int, values: list[str], columns: tuple[str, ...]) -> Iterator[Row]:
    if number == 1 and [value.strip().lower() for value in values] == [column.lower() for column in columns]:
        return
    if len(values) != len(columns):
        raise UserError(
            f"{path}, line {number}: {len(values)} columns, expected {len(columns)} ({', '.join(columns)}): "
            f"{' | '.join(values)[:80]!r}."
        )
    yield Row(f"line {number}", dict(zip(columns, values, strict=True)))
