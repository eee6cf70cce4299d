"""Stages `line_counts` and `repeated_lines`: removal of lines that many documents hold (templates of records, portals).

Lines are equal if their comparable forms are (`tasks/text/comparable.py`), digits and signs included. So a line with a
result is removed only where the whole line repeats with the same result.

The lines of each part are counted by themselves; the counts are then added up in buckets of their hash. The order of
the documents and their division into parts do not matter.

Time grows with the text, and the counts are read once per bucket. Memory: one part of documents, or one bucket of
counts (about 60 bytes per line and part).
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import fsspec
import polars as pl
from pydantic import Field

from infra.arrays.batching import batches_of
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter, open_scratch
from infra.stage import Output, StageParams, stage
from tasks.documents import document_id
from tasks.text.comparable import key_of
from tasks.text.comparable_batch import comparables

LINES_PER_BUCKET = 4_000_000
"""Approximate number of rows of counts that are added up at once."""


class LineCountsParams(StageParams):
    """Rules of which lines are counted."""

    min_characters: int = Field(
        default=10, ge=1, description="Least number of characters, without white space, of a line that may be removed."
    )


class RepeatedLinesParams(LineCountsParams):
    """Rules of which lines are removed."""

    min_documents: int = Field(default=10, ge=2, description="Least number of documents that hold a repeated line.")
    keep: Literal["none", "first"] = Field(
        default="first", description="Place where a repeated line stays: none, or the document with the smallest id."
    )


@stage(name="line_counts", version=1, params=LineCountsParams, tables=("line_counts",), heavy=True)
def line_counts(inputs: Mapping[str, Artifact], params: LineCountsParams, out: Output) -> None:
    """Count the documents of each part of `inputs["documents"]` that hold a line."""
    out.map(count_part, inputs["documents"].parts("documents"), params)


def count_part(part: PartWriter, documents: Part, params: LineCountsParams) -> None:
    """Count the lines of one part."""
    table = documents.read(columns=["doc_id", "text"])
    counts: dict[int, int] = {}
    first_ids: dict[int, str] = {}
    keys = keys_of_lines(table["text"].to_pylist(), params.min_characters)
    for doc_id, keys_of_row in zip(table["doc_id"].to_pylist(), keys, strict=True):
        for key in {key for key in keys_of_row if key is not None}:
            counts[key] = counts.get(key, 0) + 1
            first_ids[key] = min(doc_id, first_ids.get(key, doc_id))
    columns = {"key": list(counts), "documents": list(counts.values()), "first_id": list(first_ids.values())}
    frame = pl.DataFrame(columns, schema=_COUNTED).sort("key")
    part.write("line_counts", frame.to_arrow())
    part.count("lines", frame.height)


@stage(name="repeated_lines", version=1, params=RepeatedLinesParams, tables=("documents", "rejects"), heavy=True)
def repeated_lines(inputs: Mapping[str, Artifact], params: RepeatedLinesParams, out: Output) -> None:
    """Remove the repeated lines from `inputs["documents"]`; a document of which nothing is left is rejected."""
    documents = inputs["documents"]
    counted = out.run(line_counts, LineCountsParams(min_characters=params.min_characters), {"documents": documents})
    parts = counted.parts("line_counts")
    buckets = max(1, -(-counted.rows("line_counts") // LINES_PER_BUCKET))
    lists = []
    for bucket in range(buckets):
        repeated = _repeated(_bucket_of(parts, bucket, buckets), params.min_documents)
        out.count("repeated_lines", repeated.height)
        lists.append(posixpath.join(out.scratch, f"repeated-{bucket:05d}.parquet"))
        with open_scratch(lists[-1]) as file:
            repeated.write_parquet(file)
    out.map(remove_part, documents.parts("documents"), lists, params)


def remove_part(part: PartWriter, documents: Part, lists: Sequence[str], params: RepeatedLinesParams) -> None:
    """Remove the lines of one part whose keys are in the files `lists`."""
    table = documents.read()
    keys = list(keys_of_lines(table["text"].to_pylist(), params.min_characters))
    first_ids = _first_ids(lists, {key for each in keys for key in each if key is not None})
    kept = []
    for row, keys_of_row in zip(table.to_pylist(), keys, strict=True):
        part.count("documents_in")
        repeats = [
            key in first_ids and not (params.keep == "first" and first_ids[key] == row["doc_id"]) for key in keys_of_row
        ]
        if not any(repeats):
            kept.append(row)
            continue
        lines = zip(row["text"].split("\n"), repeats, strict=True)
        left = "\n".join(line for line, is_gone in lines if not is_gone).strip()
        if not left:
            part.reject(
                doc_id=row["doc_id"],
                source=row["source"],
                reason="repeated_lines",
                detail=f"each of its {sum(repeats)} lines is in {params.min_documents} documents or more",
                text=row["text"],
            )
            continue
        part.count("documents_changed")
        part.count("lines_removed", sum(repeats))
        part.count("characters_removed", len(row["text"]) - len(left))
        kept.append({**row, "doc_id": document_id(row["source"], row["title"], left), "text": left})
    part.write("documents", kept)


def keys_of_lines(texts: Sequence[str], min_characters: int) -> Iterator[list[int | None]]:
    """Yield for each text a 64-bit key of every line; None for lines with fewer than `min_characters` but blanks."""
    for batch in batches_of(texts):
        lines = [text.split("\n") for text in batch]
        forms = iter(comparables(list(itertools.chain.from_iterable(lines))))
        for own in lines:
            yield [
                int.from_bytes(key_of(form)[:8], "big") if len(form) >= min_characters else None
                for form in itertools.islice(forms, len(own))
            ]


_COUNTED = {"key": pl.UInt64, "documents": pl.Int64, "first_id": pl.String}
"""Columns of the counts: a line, its documents, and the smallest of their ids."""


def _bucket_of(parts: Sequence[Part], bucket: int, buckets: int) -> pl.DataFrame:
    """Return the counts of all parts whose keys are in one bucket."""
    frames = [pl.DataFrame(schema=_COUNTED)]
    for part in parts:
        frame = pl.DataFrame(part.read())
        frames.append(frame.filter(pl.col("key") % buckets == bucket))
    return pl.concat(frames)


def _repeated(counts: pl.DataFrame, min_documents: int) -> pl.DataFrame:
    """Return the columns key and first_id of the lines that enough documents hold."""
    added = counts.group_by("key").agg(pl.col("documents").sum(), pl.col("first_id").min())
    return added.filter(pl.col("documents") >= min_documents).select("key", "first_id").sort("key")


def _first_ids(lists: Sequence[str], keys: set[int]) -> dict[int, str]:
    """Return the repeated ones among some keys, each with the smallest id of the documents that hold it."""
    wanted = pl.DataFrame({"key": sorted(keys)}, schema={"key": pl.UInt64})
    found: dict[int, str] = {}
    for path in lists:
        with fsspec.open(path, "rb") as file:
            frame = pl.read_parquet(file).join(wanted, on="key", how="semi")
        found.update(zip(frame["key"].to_list(), frame["first_id"].to_list(), strict=True))
    return found
