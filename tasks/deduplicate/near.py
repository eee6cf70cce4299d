"""Stage `near`: near duplicates among the texts of a corpus, and the text of each cluster that stays.

    documents → sketches (one unit per part) → candidates (per band) → near (per bucket of clusters)

Candidates whose fingerprints differ too much are dropped. The others are verified by true Jaccard similarity and
clustered (`tasks/deduplicate/clusters.py`), in buckets of whole clusters whose texts are gathered first, part by part.
Clusters that an earlier artifact has compared are not compared again (`tasks/deduplicate/compared.py`).

Time grows with the candidates and their texts. Memory: the candidate pairs (40 bytes each) and the sketches of their
texts (200 bytes each), then a part of documents or a bucket of clusters (`CHARACTERS_PER_BUCKET`, but at least the
largest cluster).
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import fsspec
import numpy as np
import polars as pl
import pyarrow as pa

from infra import schemas
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter, open_scratch
from infra.packed import packed, unpacked
from infra.stage import Output, stage
from tasks.deduplicate.clusters import components, verified_clusters
from tasks.deduplicate.compared import NAME, known_drops, named_clusters
from tasks.deduplicate.pairs import ONE, OTHER, ends, promising_pairs
from tasks.deduplicate.similarity import BINS
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


@stage(name="near", version=3, params=NearParams, tables=("near", "compared"), unit="unit")
def near(inputs: Mapping[str, Artifact], params: NearParams, out: Output) -> None:
    """Find the texts to drop for others. `inputs` are documents, their sketches and the candidates among them."""
    documents, found = inputs["documents"], inputs["sketches"]
    pairs = inputs["candidates"].scan().unique().collect(engine="streaming")
    if params.threshold is None or pairs.is_empty():
        return
    texts = _texts_in(pairs, found)
    pairs = promising_pairs(pairs, texts, _fingerprints_of(texts, found.parts("sketches")), params.threshold)
    if pairs.is_empty():
        return
    component = components(len(texts), *ends(pairs))
    clusters = named_clusters(texts.select(KEY).to_numpy(), *ends(pairs), component)
    texts = _with_buckets(texts.with_columns(component=pl.Series(component)), clusters)
    drops, known = known_drops(texts, clusters, out.earlier(inputs, but=inputs))
    out.count("candidate_pairs", len(pairs))
    out.count("candidate_texts", len(texts))
    scratch = out.scratch
    new = texts.join(known.to_frame(), on="component", how="anti")
    out.map(gather_texts, _wanted_by_part(new, documents.parts("documents")), scratch)
    count = int(texts["bucket"].max()) + 1  # type: ignore[arg-type]
    tables = zip(
        range(count),
        _by_bucket(pairs.join(new.select("place", "bucket"), left_on="one", right_on="place"), count),
        _by_bucket(drops.join(texts.select(*KEY, "bucket"), on=KEY), count),
        _by_bucket(clusters.join(texts.select("component", "bucket").unique(), on="component"), count),
        strict=True,
    )
    buckets = [Bucket(*own) for own in tables]
    out.map(cluster_bucket, buckets, len(documents.parts("documents")), scratch, params)


def _by_bucket(rows: pl.DataFrame, count: int) -> list[bytes]:
    """Return the rows of each bucket, packed; an empty table for a bucket without any."""
    ordered = rows.sort("bucket", maintain_order=True)
    borders = np.searchsorted(ordered["bucket"].to_numpy(), np.arange(count + 1))
    return [packed(ordered[int(first) : int(end)]) for first, end in itertools.pairwise(borders)]


def _texts_in(pairs: pl.DataFrame, found: Artifact) -> pl.DataFrame:
    """Return the texts of the pairs in the order of their keys.

    Columns: KEY, row (the first of the corpus that holds the text), characters, and place (in this order).
    """
    sides = pl.concat([pairs.select(ONE).rename(_back(ONE)), pairs.select(OTHER).rename(_back(OTHER))]).unique()
    rows = found.scan().select(*KEY, "characters").with_row_index("row")
    known = rows.join(sides.lazy(), on=KEY, how="semi").collect(engine="streaming")
    return known.sort(*KEY, "row").unique(KEY, keep="first", maintain_order=True).with_row_index("place")


def _fingerprints_of(texts: pl.DataFrame, parts: Sequence[Part]) -> np.ndarray:
    """Return the fingerprints of texts by place: uint8 (T, BINS). They are read part by part, for these texts alone."""
    fingerprints = np.empty((len(texts), BINS), dtype=np.uint8)
    for _, part, wanted in _by_part(texts, parts):
        codes = part.read(columns=["fingerprint"])["fingerprint"].take(pa.array(wanted["row"])).to_pylist()
        fingerprints[wanted["place"].to_numpy()] = np.frombuffer(b"".join(codes), np.uint8).reshape(-1, BINS)
    return fingerprints


def _back(names: Sequence[str]) -> dict[str, str]:
    return dict(zip(names, KEY, strict=True))


def _with_buckets(texts: pl.DataFrame, clusters: pl.DataFrame) -> pl.DataFrame:
    """Return the texts of the clusters with the bucket of each. Clusters are in order of their smallest key."""
    kept = texts.join(clusters.select("component"), on="component", how="semi")
    sizes = kept.group_by("component").agg(pl.col("characters").cast(pl.UInt64).sum()).sort("component")
    filled = sizes["characters"].cum_sum() - sizes["characters"]
    sizes = sizes.select("component", bucket=filled // CHARACTERS_PER_BUCKET)
    # A cluster larger than a bucket skips numbers, which would be units of work without any work.
    sizes = sizes.with_columns(bucket=pl.col("bucket").rank("dense") - 1)
    return kept.join(sizes, on="component").sort("place")


def _wanted_by_part(texts: pl.DataFrame, parts: Sequence[Part]) -> list[WantedTexts]:
    """Return for each part of documents that holds any of the texts which rows go to which bucket."""
    return [
        WantedTexts(number, part, packed(wanted.select("row", "place", "bucket").sort("bucket", "row")))
        for number, part, wanted in _by_part(texts, parts)
    ]


def _by_part(texts: pl.DataFrame, parts: Sequence[Part]) -> Iterator[tuple[int, Part, pl.DataFrame]]:
    """Yield each part that holds any of the texts, its number and its texts; their rows count from the part's first."""
    borders = np.cumsum([0] + [part.rows for part in parts])
    ordered = texts.sort("row")
    cuts = np.searchsorted(ordered["row"].to_numpy(), borders)
    for number, (part, first, last) in enumerate(zip(parts, cuts, cuts[1:], strict=False)):
        if first < last:
            within = pl.col("row").cast(pl.Int64) - int(borders[number])
            yield number, part, ordered[first:last].with_columns(row=within)


def gather_texts(writer: PartWriter, wanted: WantedTexts, scratch: str) -> None:
    """Put the wanted texts of one part into a file for each bucket."""
    texts = wanted.part.read(columns=["text"])["text"]
    for (bucket,), frame in unpacked(wanted.rows).partition_by("bucket", as_dict=True).items():
        forms = comparables(texts.take(pa.array(frame["row"])).to_pylist())
        with open_scratch(_bucket_file(scratch, int(bucket), wanted.number)) as file:
            frame.select("place").with_columns(form=pl.Series(forms, dtype=pl.String)).write_parquet(file)


def cluster_bucket(writer: PartWriter, bucket: Bucket, parts: int, scratch: str, params: NearParams) -> None:
    """Verify and cluster the pairs of one bucket; add what is known of its other clusters, and the names of all."""
    pairs = unpacked(bucket.pairs)
    drops = unpacked(bucket.known_drops).select(schemas.NEAR.names)
    if len(pairs):
        drops = pl.concat([drops, _compared(pairs, _gathered(scratch, bucket.number, parts), params)])
    writer.write("near", drops.sort(KEY).to_arrow())
    writer.write("compared", unpacked(bucket.names).select(NAME).sort(NAME).to_arrow())
    writer.count("near_duplicate_texts", len(drops))


def _gathered(scratch: str, bucket: int, parts: int) -> pl.DataFrame:
    """Return the texts of a bucket by place, from the files of all parts that hold any of them."""
    frames = []
    for number in range(parts):
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
