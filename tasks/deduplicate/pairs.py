"""Stage `candidates`: pairs of texts that share a band of their similarity sketch.

Texts are known by their keys: where a text is in the corpus, and how often, does not matter.

A unit of work is a slice of a band: the texts whose hash of that band falls into it, so that texts that share the band
meet. Every unit reads the column of its band, so with many slices time grows with the square of the documents. Memory:
one slice (`DOCUMENTS_PER_SLICE`, about 60 bytes each).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from infra import schemas
from infra.artifacts import Artifact
from infra.builds import PartWriter
from infra.stage import Output, stage
from tasks.deduplicate.clusters import pairs_of_groups
from tasks.deduplicate.similarity import BINS, estimate, rows_for
from tasks.deduplicate.sketches import KEY, NearParams

ONE, OTHER = ["one_high", "one_low"], ["other_high", "other_low"]

MARGIN = 0.2
"""Pairs are dropped unverified where their estimate is further below the threshold (over four deviations)."""

DOCUMENTS_PER_SLICE = 4_000_000
"""Documents of one unit of work. Each slice reads the column of its band once more, so larger slices are faster."""

PAIRS_AT_ONCE = 1 << 16
"""Pairs whose similarity is estimated together."""


@dataclass(frozen=True)
class BandSlice:
    """The texts whose hash of a band leaves the remainder `number` when divided by `count`."""

    band: str
    """Column of the band in the sketches."""
    number: int
    count: int
    """Number of slices of the band."""


@stage(name="candidates", version=2, params=NearParams, tables=("candidates",), unit="slice")
def candidates(inputs: Mapping[str, Artifact], params: NearParams, out: Output) -> None:
    """Find the pairs of different texts of `inputs["sketches"]` that share a band."""
    if params.threshold is not None:
        bands = min(BINS // rows_for(params.threshold), schemas.MAX_BANDS)
        found = inputs["sketches"]
        found.scan()  # checks the hashes of its parts here once, so that the workers need not
        count = max(1, -(-found.rows() // DOCUMENTS_PER_SLICE))
        slices = [BandSlice(f"band_{band:02d}", number, count) for band in range(bands) for number in range(count)]
        out.map(candidates_of_slice, slices, found)


def candidates_of_slice(writer: PartWriter, piece: BandSlice, found: Artifact) -> None:
    """Write the pairs of one slice of a band."""
    column = found.scan().select(pl.col(piece.band).alias("band"), *KEY)
    in_slice = column.filter(pl.col("band") % piece.count == piece.number)
    # Most texts share a band with no other: dropping them first keeps what is collected small.
    shared = in_slice.filter(pl.col("band").is_duplicated()).collect()
    writer.write("candidates", pairs_of_keys(shared).to_arrow())


def pairs_of_keys(shared: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of keys that share a value of the column `band`: columns ONE and OTHER."""
    texts = shared.filter(pl.col("band").is_duplicated()).unique(["band", *KEY]).sort("band", *KEY)
    one, other = pairs_of_groups(texts["band"].to_numpy())
    keys = texts.select(KEY)
    return pl.concat(
        [keys[one].rename(dict(zip(KEY, ONE, strict=True))), keys[other].rename(dict(zip(KEY, OTHER, strict=True)))],
        how="horizontal",
    )


def promising_pairs(
    pairs: pl.DataFrame, texts: pl.DataFrame, fingerprints: np.ndarray, threshold: float
) -> pl.DataFrame:
    """Return the pairs whose fingerprints allow the similarity that is asked for.

    Args:
        pairs: columns ONE and OTHER.
        texts: columns KEY and place.
        fingerprints: uint8 (T, BINS), by place.
        threshold: smallest Jaccard similarity of near duplicates.

    Returns:
        Columns one and other: places in `texts`, in order.
    """
    places = texts.select("place", *KEY)
    placed = (
        pairs.join(places.rename({"place": "one"}), left_on=ONE, right_on=KEY)
        .join(places.rename({"place": "other"}), left_on=OTHER, right_on=KEY)
        .select("one", "other")
        .sort("one", "other")
    )
    one, other = ends(placed)
    shares = [
        estimate(fingerprints[one[at : at + PAIRS_AT_ONCE]], fingerprints[other[at : at + PAIRS_AT_ONCE]])
        for at in range(0, len(one), PAIRS_AT_ONCE)
    ]
    return placed.filter(pl.Series(np.concatenate([np.empty(0), *shares]) >= threshold - MARGIN, dtype=pl.Boolean))


def ends(pairs: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns one and other as int64 arrays (P,)."""
    return pairs["one"].to_numpy().astype(np.int64), pairs["other"].to_numpy().astype(np.int64)
