"""Triples in TSV, CSV, Parquet or JSONL files with any column names.

Time and memory grow with the file, which is read at once.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from infra.disk.parquet_batches import ParquetBombError, parquet_batches
from infra.errors import UserError
from kg.sources.source_triples import EXCERPT, EXTRA_FIELDS, REJECT_SCHEMA, SourceTriples, checked, with_types

SUFFIXES = (".tsv", ".csv", ".parquet", ".jsonl")

ROW, FURTHER = "\0row", "\0further"
"""Our columns beside those of the file: the number of the row, and the first field beyond the header."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns; in a file without a header, their numbers from 1, as in head="1"."""

    head: str = "head"
    relation: str = "relation"
    tail: str = "tail"
    head_type: str | None = None
    tail_type: str | None = None
    header: bool = True

    def wanted(self) -> dict[str, str]:
        """Return the column of the file for each role that is set."""
        held = {
            "head": self.head,
            "relation": self.relation,
            "tail": self.tail,
            "head_type": self.head_type,
            "tail_type": self.tail_type,
        }
        return {what: column for what, column in held.items() if column is not None}


def read(path: str | Path, columns: Columns | None = None, types: Path | None = None) -> SourceTriples:
    """Read one file; `types` is a table of types by relation (`with_types`).

    Rows without head, relation or tail, rows with more fields than the header, and JSONL lines that are not objects
    are rejected with their number.

    Raises:
        UserError: the file cannot be read in the format of its suffix, or lacks a column; the message names both.
    """
    columns = columns or Columns()
    wanted = columns.wanted()
    rows, rejects = read_columns(path, list(wanted.values()), columns.header)
    # Expressions, not names, because one column may have two roles.
    frame = rows.select(
        pl.col(ROW).alias("row"), *(pl.col(column).cast(pl.String).alias(what) for what, column in wanted.items())
    )
    if types is not None:
        frame = with_types(frame, types)
    found = checked(frame, Path(path).name)
    return SourceTriples(found.triples, pl.concat([rejects, found.rejects]))


def read_columns(path: str | Path, wanted: Sequence[str], header: bool = True) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a file's rows, with their numbers in a column `ROW`, and the lines that could not be read as rows.

    Args:
        wanted: names of columns that must be there; in a file without a header, their numbers from 1.
        header: whether the first line of a TSV or CSV file names the columns.

    Raises:
        UserError: the file cannot be read in the format of its suffix, or lacks a column; the message names both.
    """
    file = Path(path)
    try:
        rows, rejects = _READERS[file.suffix.lower()](file, wanted, header)
    except KeyError:
        raise UserError(f"{file}: triples must be in {', '.join(SUFFIXES)}. Convert the file or rename it.") from None
    except ParquetBombError as error:
        raise UserError(f"{file} is refused: {error}.") from error
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError, pa.ArrowException) as error:
        raise UserError(f"{file} cannot be read as {file.suffix[1:]}: {error}.") from error
    held = [column for column in rows.columns if column != ROW]
    missing = sorted(set(wanted) - set(held))
    if missing:
        raise UserError(
            f"{file} has no column {', '.join(missing)}; its columns are {', '.join(held)}. Give the names of the "
            "columns of head, relation and tail."
        )
    return rows, rejects


_Read = tuple[pl.DataFrame, pl.DataFrame]
"""Rows with their numbers in a column `ROW`, and the lines that could not be read as rows."""


def _no_rejects() -> pl.DataFrame:
    return pl.DataFrame(schema=REJECT_SCHEMA)


def _read_separated(file: Path, wanted: Sequence[str], header: bool) -> _Read:
    is_tsv = file.suffix.lower() == ".tsv"
    read_csv = functools.partial(
        pl.read_csv,
        file,
        separator="\t" if is_tsv else ",",
        quote_char=None if is_tsv else '"',
        has_header=header,
        infer_schema=False,
        truncate_ragged_lines=True,
    )
    if not header:
        frame = read_csv()
        frame.columns = [str(number) for number in range(1, frame.width + 1)]
        return frame.with_row_index(ROW, 1), _no_rejects()
    names = read_csv(n_rows=0).columns
    frame = read_csv(
        has_header=False,
        schema=dict.fromkeys([*names, FURTHER], pl.String),
        missing_columns="insert",
        extra_columns="ignore",
        raise_if_empty=False,
    )
    first = frame.select(pl.any_horizontal(pl.all().is_not_null()).arg_max()).item()  # blank lines may come first
    frame = frame.slice(first + 1).with_row_index(ROW, 1)
    longer = pl.col(FURTHER).is_not_null()
    rejects = frame.filter(longer).select(
        pl.format("{}#{}", pl.lit(file.name), ROW).alias("place"),
        pl.lit(EXTRA_FIELDS).alias("reason"),
        pl.lit(f"more than {len(names)} fields").alias("detail"),
        pl.concat_str(*names, FURTHER, separator=" | ", ignore_nulls=True).str.slice(0, EXCERPT).alias("excerpt"),
    )
    return frame.filter(~longer).drop(FURTHER), rejects


def _read_parquet(file: Path, wanted: Sequence[str], header: bool) -> _Read:
    schema = pl.read_parquet_schema(file)
    chosen = sorted(schema.keys() & set(wanted)) or sorted(schema)
    batches = list(parquet_batches(file, columns=chosen))
    frame = pl.concat([pl.DataFrame(batch) for batch in batches]) if batches else pl.DataFrame(schema=schema)
    frame = frame.select(chosen)
    return frame.with_row_index(ROW, 1), _no_rejects()


def _read_jsonl(file: Path, wanted: Sequence[str], header: bool) -> _Read:
    rows: list[Mapping[str, Any]] = []
    rejects = []
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("no object")
                cells = {column: _cell(row.get(column)) for column in wanted}
                json.dumps(cells, ensure_ascii=False).encode()  # fails for half a character: "\\ud83d"
            except (ValueError, RecursionError) as error:
                rejects.append((f"{file.name}#{number}", "unreadable_row", str(error), line.strip()[:80]))
                continue
            rows.append({ROW: number} | cells)
    return (
        pl.DataFrame(rows, schema={ROW: pl.UInt32} | dict.fromkeys(wanted, pl.String)),
        pl.DataFrame(rejects, schema=REJECT_SCHEMA, orient="row"),
    )


def _cell(value: Any) -> str | None:
    return None if value is None or isinstance(value, dict | list) else str(value)


_READERS = {".tsv": _read_separated, ".csv": _read_separated, ".parquet": _read_parquet, ".jsonl": _read_jsonl}
