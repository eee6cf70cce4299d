"""The contracts between stages: every column is described, every difference reported."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from infra import schemas

SEGMENT = {
    "segment_id": "a-0",
    "doc_id": "a",
    "source": "emr",
    "position": 0,
    "text": "头痛三天",
    "words": [2, 2],
    "tokens": 4,
}


@pytest.mark.parametrize("table", schemas.TABLES)
def test_every_column_is_described_and_named_once(table: str) -> None:
    columns = schemas.describe(schemas.TABLES[table])
    assert all(column["description"] for column in columns)
    names = [column["name"] for column in columns]
    assert len(set(names)) == len(names) > 0


@pytest.mark.parametrize("table", schemas.TABLES)
def test_schema_does_not_differ_from_itself_or_from_other_descriptions(table: str) -> None:
    schema = schemas.TABLES[table]
    assert schemas.differences(schema, schema) == []
    assert schemas.differences(schema.remove_metadata(), schema) == []


def test_each_difference_is_reported() -> None:
    expected = schemas.TABLES["vocabulary"]
    reordered = pa.schema([expected.field(2), expected.field(0), expected.field(1)])
    retyped = expected.set(0, pa.field("id", pa.int64(), nullable=False))
    nullable = expected.set(1, pa.field("token", pa.string()))
    nested = schemas.TABLES["segments"].set(5, pa.field("words", pa.list_(pa.uint16()), nullable=False))
    assert "columns ['frequency', 'id', 'token'] instead of" in schemas.differences(reordered, expected)[0]
    assert schemas.differences(retyped, expected) == ["column 'id' is int64 not null instead of int32 not null"]
    assert schemas.differences(nullable, expected) == ["column 'token' is string instead of string not null"]
    assert len(schemas.differences(nested, schemas.TABLES["segments"])) == 1


def test_rows_and_frames_conform_to_the_table() -> None:
    expected = schemas.TABLES["segments"]
    rows = schemas.conform([SEGMENT], "segments")
    frame = schemas.conform(pl.DataFrame([SEGMENT]).to_arrow(), "segments")
    assert rows.schema.equals(expected, check_metadata=True)
    assert frame.schema.equals(expected, check_metadata=True)
    assert rows.to_pylist() == frame.to_pylist() == [SEGMENT]
    assert schemas.conform([], "segments").schema == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": None}, "'text'"),
        ({"position": 2**40}, "too large"),
        ({"words": [70_000]}, "too large"),
        ({"words": [None]}, "null"),
        ({"text": "\ud800"}, "surrogates"),
        ({"surplus": 1}, r"unknown columns \['surplus'\]"),
    ],
)
def test_rows_that_do_not_fit_are_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, pa.ArrowException), match=message):
        schemas.conform([SEGMENT, SEGMENT | change], "segments")


def test_missing_columns_and_unknown_tables_are_rejected() -> None:
    with pytest.raises(ValueError, match="'text'"):
        schemas.conform([{name: value for name, value in SEGMENT.items() if name != "text"}], "segments")
    with pytest.raises(ValueError, match="segments"):
        schemas.conform([], "segment")
