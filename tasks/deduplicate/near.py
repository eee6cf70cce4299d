"""Stage `near`: near duplicates among the texts of a corpus, and the text of each cluster that stays.

    documents → sketches (one unit per part) → candidates (per band) → near (per bucket of clusters)

Candidates whose fingerprints differ too much are dropped. The others are verified by true Jaccard similarity and
clustered (`tasks/deduplicate/clusters.py`), in buckets of whole clusters whose texts are gathered first, part by part
(`tasks/deduplicate/buckets.py`). Clusters that an earlier artifact has compared are not compared again
(`tasks/deduplicate/compared.py`).

Time grows with the candidates and their texts. Memory: the candidate pairs (40 bytes each) and the sketches of their
texts (200 bytes each), then a part of documents or a bucket of clusters. A corpus of more than
`DOCUMENTS_PER_PARTITION` documents is cut (`tasks/deduplicate/near_partitions.py`), so that no process holds more than
a partition; the artifact is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from infra.artifacts import Artifact, Part
from infra.disk.packed import packed
from infra.stage import Output, stage
from tasks.deduplicate.buckets import Bucket, WantedTexts, bucket_numbers, cluster_bucket, gather_texts
from tasks.deduplicate.clusters import components
from tasks.deduplicate.compared import known_drops, named_clusters
from tasks.deduplicate.near_partitions import near_in_partitions
from tasks.deduplicate.pairs import ONE, OTHER, ends, promising_pairs
from tasks.deduplicate.partitions import partitions_for
from tasks.deduplicate.similarity import BINS
from tasks.deduplicate.sketches import KEY, NearParams


@stage(name="near", version=3, params=NearParams, tables=("near", "compared"), unit="unit")
def near(inputs: Mapping[str, Artifact], params: NearParams, out: Output) -> None:
    """Find the texts to drop for others. `inputs` are documents, their sketches and the candidates among them."""
    documents, found = inputs["documents"], inputs["sketches"]
    partitions = partitions_for(found.rows())
    if params.threshold is None or not inputs["candidates"].rows():
        return
    if partitions > 1:
        near_in_partitions(inputs, params, out, partitions)
        return
    pairs = inputs["candidates"].scan().unique().collect(engine="streaming")
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
    sizes = sizes.select("component", bucket=bucket_numbers(filled))
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
