"""Stage `decontaminate`: removal of text that the corpus shares with dev and test sets of downstream tasks.

A document overlaps with a set if both hold the same run of `overlap` letters and digits; width, case, accents,
white space and punctuation do not matter (`tasks/decontaminate/plain_form.py`). Either the sentences and lines that
overlap are cut out, or the whole document is dropped. The text that the stage keeps has no overlaps. Titles stay as
they are: no model is trained on them.

Two kinds of overlap are ignored: a run that more than `max_benchmark_rows` distinct texts of the sets hold (an
instruction template, a greeting), and a stretch without a Chinese character that has fewer than `overlap_without_han`
letters and digits (the word dexamethasone has 13). How often a run occurs in the corpus does not matter: a set whose
texts were copied a hundred times is the worst case, not a harmless one, and a common phrase only costs its sentence.

Time grows with the text. Memory: the n-grams of the sets (about 24 bytes each, shared by the workers of one machine;
about 60 while the index is built) and one part of documents.
"""

from __future__ import annotations

import functools
import posixpath
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import fsspec
import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from infra.arrays.batching import batches_of
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter, explained, open_scratch
from infra.stage import Output, StageParams, stage
from tasks.decontaminate.benchmarks import read_benchmarks
from tasks.decontaminate.ngrams import NgramIndex
from tasks.decontaminate.overlaps import Overlap, find_overlaps, without_passages
from tasks.documents import document_id

CHARACTERS_AT_ONCE = 1 << 17
"""Characters of documents that are searched together."""

MAX_EXCERPT = 100
"""Characters of a stretch that are written down as an excerpt."""


class DecontaminateParams(StageParams):
    """Rules of what an overlap is, and what is removed."""

    overlap: int = Field(default=13, ge=2, description="Number of letters and digits in a row that are an overlap.")
    action: Literal["passage", "document"] = Field(
        default="passage", description="Text to remove: the sentences and lines that overlap, or the whole document."
    )
    min_share: float = Field(
        default=0.5, ge=0, le=1, description="Least share of its characters that a document keeps; others are dropped."
    )
    max_benchmark_rows: int = Field(
        default=20,
        ge=1,
        description="Largest number of distinct benchmark texts that a run may be in; else a template.",
    )
    overlap_without_han: int = Field(
        default=50, ge=1, description="Least number of letters and digits in an overlap without Chinese characters."
    )


class _Benchmarks(NamedTuple):
    ngrams: NgramIndex
    texts: pl.DataFrame
    """Columns benchmark and row, in the order of the texts' numbers."""


@stage(
    name="decontaminate",
    version=4,
    params=DecontaminateParams,
    tables=("documents", "rejects", "contamination"),
    heavy=True,
)
def decontaminate(inputs: Mapping[str, Any], params: DecontaminateParams, out: Output) -> None:
    """Remove from `inputs["documents"]` (an artifact) the overlaps with `inputs["benchmarks"]` (a `RawInput`).

    Raises:
        UserError: the benchmarks hold no text of `overlap` letters and digits, or cannot be decoded.
    """
    documents: Artifact = inputs["documents"]
    given, counters = read_benchmarks(inputs["benchmarks"], params.overlap)
    ngrams = NgramIndex.build(given.points, given.starts, params.overlap, params.max_benchmark_rows)
    counters["benchmark_texts_ignored"] = len(given.rows) - ngrams.texts_held()
    for name, amount in counters.items():
        out.count(name, amount)
    # A unique name: a worker that outlived a killed run may still read the files of that run.
    prefix = posixpath.join(out.scratch, uuid.uuid4().hex)
    with explained(prefix):
        ngrams.save(prefix)
    with open_scratch(f"{prefix}-texts.parquet") as file:
        pl.DataFrame({"benchmark": given.benchmarks, "row": given.rows}).write_parquet(file)
    del given, ngrams
    files = BenchmarkFiles(prefix, inputs["benchmarks"].fingerprint)
    out.map(decontaminate_part, documents.parts("documents"), files, params)


@dataclass(frozen=True)
class BenchmarkFiles:
    """Files of the index and the texts of the benchmarks in this run, and the input they were made from."""

    prefix: str = field(compare=False)  # not part of the content: units are recognised by the fingerprint
    fingerprint: str


def decontaminate_part(part: PartWriter, documents: Part, files: BenchmarkFiles, params: DecontaminateParams) -> None:
    """Remove the overlaps of one part."""
    benchmarks = _load(files.prefix)
    table = documents.read()
    part.count("documents_in", table.num_rows)
    texts = table.column("text").to_pylist()
    overlaps = _overlaps(texts, benchmarks.ngrams, params)
    ids, keep = table.column("doc_id").to_pylist(), np.ones(len(texts), dtype=bool)
    rows = sorted(overlaps)
    found: list[dict[str, Any]] = []
    for number, row in zip(rows, table.take(pa.array(rows, pa.int64())).to_pylist(), strict=True):
        found += _report(part, row, overlaps[number], benchmarks.texts)
        left = _without_overlaps(row["text"], overlaps[number], benchmarks.ngrams, params)
        problem = _problem(row["text"], left, overlaps[number], benchmarks.texts, params)
        if problem:
            part.reject(
                doc_id=row["doc_id"],
                source=row["source"],
                reason="contaminated",
                detail=problem,
                text=row["text"],
            )
            keep[number] = False
            continue
        part.count("documents_cut")
        part.count("characters_cut", len(row["text"]) - len(left))
        texts[number], ids[number] = left, document_id(row["source"], row["title"], left)
    if rows:
        for name, values in (("doc_id", ids), ("text", texts)):
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(place), pa.array(values, pa.string()))
        table = table.filter(pa.array(keep))
        part.write("contamination", found)
    part.write("documents", table)


def _overlaps(texts: Sequence[str], index: NgramIndex, params: DecontaminateParams) -> dict[int, Overlap]:
    """Return the overlaps of documents by their number."""
    found: dict[int, Overlap] = {}
    first = 0
    for batch in batches_of(texts, CHARACTERS_AT_ONCE):
        for number, overlap in find_overlaps(batch, index, params.overlap_without_han).items():
            found[first + number] = overlap
        first += len(batch)
    return found


def _without_overlaps(text: str, overlap: Overlap, index: NgramIndex, params: DecontaminateParams) -> str:
    """Return the rest of a document. Sentences that were apart may form a new overlap, so the search is repeated."""
    if params.action == "document":
        return ""
    while True:
        text = without_passages(text, overlap.spans)
        again = find_overlaps([text], index, params.overlap_without_han)
        if not again:
            return text
        overlap = again[0]


def _problem(text: str, left: str, overlap: Overlap, texts: pl.DataFrame, params: DecontaminateParams) -> str:
    """Return the reason why a document is dropped; an empty string where it stays."""
    share = len(left) / len(text)
    if left and share >= params.min_share:
        return ""
    most = max(overlap.shared, key=lambda shared: shared.characters)
    benchmark, row = texts.row(most.text)
    detail = f"{most.characters} characters of {benchmark} row {row}"
    if len(overlap.shared) > 1:
        detail += f" and some of {len(overlap.shared) - 1} other texts"
    if params.action == "passage":
        detail += f"; {share:.0%} would be left, and the minimum is {params.min_share:.0%}"
    return detail


def _report(part: PartWriter, row: Mapping[str, str], overlap: Overlap, texts: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of `contamination` for one document, and count them by benchmark."""
    found = []
    for shared in overlap.shared:
        benchmark, number = texts.row(shared.text)
        found.append(
            {
                "doc_id": row["doc_id"],
                "source": row["source"],
                "benchmark": benchmark,
                "row": number,
                "characters": shared.characters,
                "excerpt": row["text"][shared.start : shared.end][:MAX_EXCERPT],
            }
        )
    for name, amount in Counter(each["benchmark"] for each in found).items():
        part.count(f"documents_overlapping {name}")
        part.count(f"overlaps {name}", amount)
    return found


@functools.lru_cache(maxsize=1)
def _load(prefix: str) -> _Benchmarks:
    """Open the index, once per process."""
    with fsspec.open(f"{prefix}-texts.parquet", "rb") as file:
        texts = pl.read_parquet(file)
    return _Benchmarks(NgramIndex.load(prefix), texts)
