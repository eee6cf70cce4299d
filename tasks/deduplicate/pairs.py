"""Stage `candidates`: pairs of texts that share a band of their similarity sketch.

It is about texts, known by their keys: where they stand, and how often, plays no part.

A unit of work is a slice of a band: the texts whose hash of that band falls into it, so that those which share it meet.
Time grows with the documents for each unit, so with their square where there are many slices. Memory: one slice
(`DOCUMENTS_A_SLICE`, about 60 bytes each).
"""

from __future__ import annotations

from collections.abc import Mapping

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
"""An estimate so far under the threshold (more than four deviations) is not looked into."""

DOCUMENTS_A_SLICE = 4_000_000
"""Each slice reads the column of its band once more: with more memory a larger one is faster."""


@stage(name="candidates", version=2, params=NearParams, tables=("candidates",), unit="slice")
def candidates(inputs: Mapping[str, Artifact], params: NearParams, out: Output) -> None:
    """Pairs of different texts of `inputs["sketches"]` that share a band."""
    if params.threshold is not None:
        count = min(BINS // rows_for(params.threshold), schemas.MAX_BANDS)
        found = inputs["sketches"]
        found.scan()  # checks its hashes, which are known then to the processes it is sent to
        slices = max(1, -(-found.rows() // DOCUMENTS_A_SLICE))
        units = [(f"band_{band:02d}", number, slices) for band in range(count) for number in range(slices)]
        out.map(candidates_of_slice, units, found)


def candidates_of_slice(writer: PartWriter, unit: tuple[str, int, int], found: Artifact) -> None:
    """Write the pairs of one slice of a band: the band's column, the slice's number, and how many slices there are."""
    band, number, slices = unit
    column = found.scan().select(pl.col(band).alias("band"), *KEY).filter(pl.col("band") % slices == number)
    shared = column.filter(pl.col("band").is_duplicated()).collect()
    writer.write("candidates", pairs_of_keys(shared).to_arrow())


def pairs_of_keys(shared: pl.DataFrame) -> pl.DataFrame:
    """Pairs of keys that share a value of the column `band`."""
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
    """Pairs whose fingerprints do not speak against them.

    Args:
        pairs: columns ONE and OTHER.
        texts: columns KEY and place.
        fingerprints: uint8 (T, BINS), by place.
        threshold: similarity that is asked for.

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


PAIRS_AT_ONCE = 1 << 16


def ends(pairs: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The columns one and other as int64 arrays."""
    return pairs["one"].to_numpy().astype(np.int64), pairs["other"].to_numpy().astype(np.int64)
