"""Tables for people: written as CSV, TSV or XLSX, atomically, with cells that a spreadsheet does not run."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from infra.cells import inert
from tasks.files.atomic import whole_binary_file, whole_file
from tasks.files.workbooks import Value, text_of, workbook_bytes

DELIMITERS: Mapping[str, str] = {".csv": ",", ".tsv": "\t"}
WRITTEN = (".csv", ".tsv", ".xlsx")
"""Endings of the tables that `write_table` writes."""


def write_table(target: Path, source: Path | None, rows: Iterable[Sequence[Value]], title: str = "") -> None:
    """Write rows, .csv, .tsv or .xlsx, atomically. Text that a spreadsheet would run gets an apostrophe.

    Args:
        source: the file that the rows come from, if any, which must be another.

    Raises:
        UserError: the target is the source, it cannot be written, or a sheet cannot hold the rows.
    """
    if target.suffix.lower() == ".xlsx":
        with whole_binary_file(target, source) as packed:
            packed.write(workbook_bytes(rows, str(target), title or "Sheet1"))
        return
    # Excel reads a CSV as UTF-8 only if it begins with a byte order mark.
    with whole_file(target, source, encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=DELIMITERS[target.suffix.lower()])
        writer.writerows([inert(text_of(value)) for value in row] for row in rows)
