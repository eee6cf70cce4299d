"""Buckets of clusters: the texts of some whole clusters are gathered, then compared, in one unit of work each.

Time grows with the texts and pairs. Memory: a part of documents, or a bucket (`CHARACTERS_PER_BUCKET`, but at least the
largest cluster).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import fsspec
import numpy as np
import polars as pl
import pyarrow as pa

from infra import schemas
from infra.artifacts import Part
from infra.builds import PartWriter, open_scratch
from infra.disk.packed import unpacked
from tasks.deduplicate.clusters import verified_clusters
from tasks.deduplicate.compared import NAME
from tasks.deduplicate.pairs import ends
from tasks.deduplicate.sketches import KEY, NearParams
from tasks.text.comparable import key_of
from tasks.text.comparable_batch import comparables

CHARACTERS_PER_BUCKET = 1 << 24
"""Characters of the texts that are compared in one unit of work; a larger cluster is a bucket of its own."""


# Units of work name themselves by their content in infra/memo.py: a part by its hash, tables by their packed bytes.


@dataclass(frozen=True)
class WantedTexts:
    """Texts of one part of documents that are compared."""

    number: int
    """Number of the part among those of the documents."""
    part: Part
    rows: bytes
    """Packed table of the columns row (counted from the part's first), place and bucket."""


@dataclass(frozen=True)
class Bucket:
    """Whole clusters that are compared in one unit of work. Each field but the number is a packed table."""

    number: int
    pairs: bytes
    """Candidate pairs of clusters that are new: columns one and other, places of texts."""
    known_drops: bytes
    """Rows of the table near for clusters that an earlier artifact has compared."""
    names: bytes
    """Names of all clusters in the bucket, new and known."""


def gather_texts(writer: PartWriter, wanted: WantedTexts, scratch: str) -> None:
    """Put the wanted texts of one part into a file for each bucket."""
    texts = wanted.part.read(columns=["text"])["text"]
    for (bucket,), frame in unpacked(wanted.rows).partition_by("bucket", as_dict=True).items():
        forms = comparables(texts.take(pa.array(frame["row"])).to_pylist())
        with open_scratch(_bucket_file(scratch, int(bucket), wanted.number)) as file:
            frame.select("place").with_columns(form=pl.Series(forms, dtype=pl.String)).write_parquet(file)


def bucket_numbers(characters: pl.Series) -> pl.Series:
    """Return the bucket of each cluster from the number of characters in all clusters before it."""
    return characters // CHARACTERS_PER_BUCKET


def cluster_bucket(writer: PartWriter, bucket: Bucket, parts: int, scratch: str, params: NearParams) -> None:
    """Verify and cluster the pairs of one bucket; add what is known of its other clusters, and the names of all."""
    pairs, drops, names = (unpacked(table) for table in (bucket.pairs, bucket.known_drops, bucket.names))
    write_bucket(writer, pairs, drops, names, lambda: gathered(scratch, bucket.number, range(parts)), params)


def write_bucket(
    writer: PartWriter,
    pairs: pl.DataFrame,
    drops: pl.DataFrame,
    names: pl.DataFrame,
    texts: Callable[[], pl.DataFrame],
    params: NearParams,
) -> None:
    """Do what `cluster_bucket` does, on unpacked tables.

    Args:
        texts: reads the gathered texts; called only if there are pairs.
    """
    drops = drops.select(schemas.NEAR.names)
    if len(pairs):
        drops = pl.concat([drops, _compared(pairs, texts(), params)])
    writer.write("near", drops.sort(KEY).to_arrow())
    writer.write("compared", names.select(NAME).sort(NAME).to_arrow())
    writer.count("near_duplicate_texts", len(drops))


def gathered(scratch: str, bucket: int, parts: Iterable[int]) -> pl.DataFrame:
    """Return the texts of a bucket by place, from the files of those of the parts that hold any of them."""
    frames = []
    for number in parts:
        path = _bucket_file(scratch, bucket, number)
        filesystem, location = fsspec.core.url_to_fs(path)
        if filesystem.exists(location):
            with fsspec.open(path, "rb") as file:
                frames.append(pl.read_parquet(file))
    return pl.concat(frames).sort("place")


def _compared(pairs: pl.DataFrame, texts: pl.DataFrame, params: NearParams) -> pl.DataFrame:
    """Return the drops among some texts: rows of the table near."""
    assert params.threshold is not None, "without a threshold there are no pairs"
    forms = texts["form"].to_list()
    place = texts["place"].to_numpy()
    one, other = (np.searchsorted(place, side) for side in ends(pairs))
    keys = np.frombuffer(b"".join(map(key_of, forms)), dtype=">u8").astype(np.uint64).reshape(-1, 2)
    drops = verified_clusters(forms, one, other, params.threshold, params.shingle)
    gone = np.array([drop[0] for drop in drops], dtype=np.int64)
    stays = np.array([drop[1] for drop in drops], dtype=np.int64)
    columns = [keys[gone, 0], keys[gone, 1], keys[stays, 0], keys[stays, 1], np.array([drop[2] for drop in drops])]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schemas.NEAR, strict=True)]
    return pl.DataFrame(pa.Table.from_arrays(arrays, names=schemas.NEAR.names))


def _bucket_file(scratch: str, bucket: int, number: int) -> str:
    return posixpath.join(scratch, f"bucket-{bucket:05d}-{number:06d}.parquet")
