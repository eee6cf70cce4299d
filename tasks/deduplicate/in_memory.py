"""Near duplicates among texts in memory, by the same steps as the stages `sketches`, `candidates` and `near`.

Time grows with the characters and the candidates, memory with the texts (about 2 KB each besides the text).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from infra.arrays.batching import batches_of
from tasks.deduplicate.clusters import verified_clusters
from tasks.deduplicate.pairs import ends, pairs_of_keys, promising_pairs
from tasks.deduplicate.sketches import KEY, NearParams, sketched
from tasks.text.comparable_batch import comparables


def near_duplicates(
    texts: Sequence[str], threshold: float = 0.8, seed: int = 42, *, shingle: int = 5, numbers_apart: bool = True
) -> pa.Table:
    """Find what the stages would drop among texts, in memory and in one process.

    Args:
        texts: any number of texts, of any length.
        threshold: Jaccard similarity of shingles from which two texts are near duplicates, in (0, 1].
        seed: seed of the hash functions.
        shingle: characters per shingle, 1 to 32; shorter texts are only compared exactly.
        numbers_apart: keep texts with different numbers apart.

    Returns:
        Columns index (int64), kept_index (int64) and similarity (float64): a row for each text that is dropped, by
        index. Of equal texts the first stays, of similar ones the longest.

    Raises:
        ValueError: a value is out of range.
    """
    params = NearParams(threshold=threshold, shingle=shingle, numbers_apart=numbers_apart, seed=seed)
    frames, forms, codes = [], [], []
    for batch in batches_of(texts):
        compared = comparables(batch)
        found = sketched(compared, params)
        forms += compared
        codes.append(found.fingerprints)
        # A text shorter than a shingle shares no band: null joins with nothing.
        shares = {f"band_{band:02d}": found.bands[:, band] for band in range(found.bands.shape[1])}
        frame = pl.DataFrame({"key_high": found.keys[:, 0], "key_low": found.keys[:, 1], **shares})
        frames.append(
            frame.with_columns(pl.when(pl.Series(found.has_shingles)).then(pl.col(name)).alias(name) for name in shares)
        )
    if not forms:
        return _dropped([], [], [])
    rows = pl.concat(frames).with_row_index("row")
    first = rows.select("row", *KEY).sort("row").unique(KEY, keep="first", maintain_order=True)
    same = rows.select("row", *KEY).join(first.rename({"row": "first"}), on=KEY).sort("row")
    places = first.sort(*KEY).with_row_index("place")
    similar = _similar(rows, places, np.concatenate(codes), forms, params)
    # An equal text follows the first of its kind, which may itself be dropped for a longer one.
    dropped, kept_for, similarity = [], [], []
    for row, leader in zip(same["row"].to_list(), same["first"].to_list(), strict=True):
        kept, share = similar.get(leader, (leader, 1.0))
        if kept != row:
            dropped.append(row)
            kept_for.append(kept)
            similarity.append(share)
    return _dropped(dropped, kept_for, similarity)


def _similar(
    rows: pl.DataFrame, places: pl.DataFrame, codes: np.ndarray, forms: Sequence[str], params: NearParams
) -> dict[int, tuple[int, float]]:
    """Map the row of each text that is dropped to the row of the text that stays for it, and their similarity."""
    assert params.threshold is not None
    leaders = rows.join(places.select("row", "place"), on="row")
    found = [
        pairs_of_keys(leaders.select(pl.col(name).alias("band"), *KEY).filter(pl.col("band").is_not_null()))
        for name in leaders.columns
        if name.startswith("band_")
    ]
    by_place = places.sort("place")["row"].to_numpy().astype(np.int64)
    pairs = promising_pairs(pl.concat(found).unique(), places, codes[by_place], params.threshold)
    drops = verified_clusters([forms[row] for row in by_place], *ends(pairs), params.threshold, params.shingle)
    return {int(by_place[gone]): (int(by_place[kept]), share) for gone, kept, share in drops}


def _dropped(dropped: list[int], kept_for: list[int], similarity: list[float]) -> pa.Table:
    return pa.table(
        {
            "index": pa.array(dropped, pa.int64()),
            "kept_index": pa.array(kept_for, pa.int64()),
            "similarity": pa.array(similarity, pa.float64()),
        }
    )
