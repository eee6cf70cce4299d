"""Stage `deduplicate`: of documents with the same or nearly the same text one stays.

Texts are the same that have one form in `tasks/text/comparable.py`, and nearly the same by `tasks/deduplicate/near.py`,
whose artifacts are made first. Of a cluster of near duplicates the longest text stays; of documents with one text the
one with the smallest id stays (of identical rows the first). The order of the parts does not matter.

Time grows with the text. Memory: the keys (about 125 bytes per document), the duplicates (100 bytes each), or one part
of documents. A corpus of more than `documents_per_bucket` documents is cut by its keys, so that no process holds more
than the keys and duplicates of one bucket (`tasks/deduplicate/repeats.py`); the artifact is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.disk.packed import StoredBytes, packed, unpacked
from infra.stage import Output, stage
from tasks.deduplicate.near import near
from tasks.deduplicate.pairs import candidates
from tasks.deduplicate.repeats import drops_in_partitions, find_drops
from tasks.deduplicate.sketches import KEY, NearParams, sketches


class DeduplicateParams(NearParams):
    """Rules of what a duplicate is, and bounds of memory."""

    documents_per_bucket: int = Field(default=4_000_000, ge=1)
    """Documents whose keys are compared at once."""

    @property
    def near(self) -> NearParams:
        """The rules that are about near duplicates."""
        return NearParams(**self.model_dump(include=set(NearParams.model_fields)))


class PartDrops(NamedTuple):
    """A part of documents with its drops. A plain tuple: finished artifacts know their units by such keys."""

    part: Part
    drops: bytes | StoredBytes
    """Packed table: row (counted from the part's first), kept_id, and similarity (null where the text is the same)."""


@stage(name="deduplicate", version=3, params=DeduplicateParams, tables=("documents", "duplicates"), heavy=True)
def deduplicate(inputs: Mapping[str, Artifact], params: DeduplicateParams, out: Output) -> None:
    """Drop repeated documents of `inputs["documents"]`; each drop is a row of `duplicates`."""
    documents = inputs["documents"]
    found: dict[str, Artifact] = {"documents": documents}
    for step in (sketches, candidates, near):
        found[step.name] = out.run(step, params.near, found)
    parts = documents.parts("documents")
    partitions = max(1, -(-documents.rows("documents") // params.documents_per_bucket))
    if partitions > 1:
        drops = drops_in_partitions(parts, found["sketches"].parts(), found["near"], out, partitions)
        out.map(drop_part, list(itertools.starmap(PartDrops, zip(parts, drops, strict=True))))
        return
    repeated = _repeated(found["sketches"].scan().select(KEY), pl.DataFrame(found["near"].to_table("near")))
    named = repeated.with_columns(doc_id=_doc_ids(found["sketches"].parts(), repeated["row"]))
    out.map(drop_part, _by_part(find_drops(named), parts))


def drop_part(writer: PartWriter, work: PartDrops) -> None:
    """Copy a part without its drops, and write a row of `duplicates` for each of them."""
    table = work.part.read()
    drops = unpacked(work.drops.read() if isinstance(work.drops, StoredBytes) else work.drops)
    rows = drops["row"].to_numpy()
    keep = np.ones(table.num_rows, dtype=bool)
    keep[rows] = False
    writer.write("documents", table.filter(pa.array(keep)))
    if len(rows):
        gone = table.select(["doc_id", "source"]).take(pa.array(rows))
        similarity = drops["similarity"]
        columns = {
            "doc_id": gone["doc_id"],
            "source": gone["source"],
            "kept_id": drops["kept_id"].to_arrow().cast(pa.string()),
            "kind": ["exact" if share is None else "near" for share in similarity],
            "similarity": similarity.fill_null(1.0).to_arrow(),
        }
        writer.write("duplicates", pa.table(columns))
    writer.count("documents_in", table.num_rows)
    near_drops = int(drops["similarity"].is_not_null().sum())
    writer.count("dropped_exact", len(rows) - near_drops)
    writer.count("dropped_near", near_drops)


def _repeated(keys: pl.LazyFrame, leaders: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that share the key of the text that stays for them, in order; rows count across all parts."""
    keyed = (
        keys.with_row_index("row")
        .join(leaders.lazy(), on=KEY, how="left")
        .with_columns(key_high=pl.coalesce("kept_high", "key_high"), key_low=pl.coalesce("kept_low", "key_low"))
        .select(pl.col(name).cast(dtype) for name, dtype in _KEYED.items())
        .collect(engine="streaming")
    )
    # Comparing half of the key first is quick, and leaves few rows to compare by the whole key.
    return keyed.filter(pl.col("key_high").is_duplicated()).filter(pl.struct(KEY).is_duplicated()).sort("row")


_KEYED = pl.Schema({"key_high": pl.UInt64, "key_low": pl.UInt64, "similarity": pl.Float64, "row": pl.UInt64})


def _doc_ids(parts: Sequence[Part], rows: pl.Series) -> pl.Series:
    """Return the ids of some rows, which are given in ascending order."""
    borders = np.cumsum([0] + [part.rows for part in parts])
    cuts = np.searchsorted(rows.to_numpy(), borders)
    found = [pl.Series("doc_id", [], dtype=pl.String)]
    for part, first, last, border in zip(parts, cuts, cuts[1:], borders, strict=False):
        if first < last:
            ids = pl.DataFrame(part.read(columns=["doc_id"]))["doc_id"]
            found.append(ids.gather(rows[int(first) : int(last)] - int(border)))
    return pl.concat(found)


def _by_part(drops: pl.DataFrame, parts: Sequence[Part]) -> list[PartDrops]:
    """Return each part of documents with its drops, whose rows then count from the part's first."""
    borders = np.cumsum([0] + [part.rows for part in parts])
    cuts = np.searchsorted(drops["row"].to_numpy(), borders)
    return [
        PartDrops(part, packed(drops[first:last].with_columns(pl.col("row") - int(border))))
        for part, first, last, border in zip(parts, cuts, cuts[1:], borders, strict=False)
    ]
