"""Weak evidence: similar names of different graphs, with common neighbours.

Names are compared by Dice's coefficient of their sets of character bigrams, neighbourhoods by the overlap coefficient
|A ∩ B| / min(|A|, |B|); the score is dice + weight · overlap · (1 − dice). Two clusters are linked if the score reaches
the threshold, each is the other's best, and no other is as good.

Only names that share a bigram of at most `MAX_BEARERS` clusters are compared. Memory is bounded by batches of `BATCH`
bigrams times the clusters that have them; time grows with the pairs that share a rare bigram.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from kg.columns import at
from kg.fusion.components import Indices
from kg.fusion.nodes import Nodes, with_cluster

MAX_BEARERS = 500
"""A bigram in more clusters than this gives no candidates (it still counts in their similarity)."""

BATCH = 50_000
"""Number of bigrams whose clusters are compared at once; each is in at most MAX_BEARERS clusters."""

MIN_DICE = 0.3
"""Minimum similarity of two names, whatever their neighbours."""


def similar_clusters(
    nodes: Nodes, labels: Indices, types: pl.DataFrame, graphs: pl.DataFrame, threshold: float, overlap_weight: float
) -> pl.DataFrame:
    """Return pairs (one, other, score) of clusters from different graphs, each the other's only best, one < other."""
    bearers = _bigrams(nodes, labels)
    sizes = bearers.group_by("cluster").len("size")
    frequent = bearers.group_by("bigram").len().filter(pl.col("len") > MAX_BEARERS)
    rare = bearers.join(frequent, on="bigram", how="anti").join(types, on="cluster", how="left")
    rare = rare.join(_kinds(graphs), on="cluster").sort("cluster")
    neighbours = _neighbours(nodes, labels)
    found = [pl.DataFrame(schema=_PAIRS)]
    for ones, others in _apart(rare):
        for first in range(0, ones.height, BATCH):
            pairs = _candidates(ones.slice(first, BATCH), others)
            pairs = _with_dice(pairs, bearers, sizes).filter(pl.col("dice") >= MIN_DICE)
            # Upper bound of the score, at full overlap: below the threshold, neighbours need not be compared.
            reach = pl.col("dice") + overlap_weight * (1 - pl.col("dice"))
            pairs = _with_overlap(pairs.filter(reach >= threshold), neighbours)
            score = pl.col("dice") + overlap_weight * pl.col("overlap") * (1 - pl.col("dice"))
            found.append(pairs.select("one", "other", score=score).filter(pl.col("score") >= threshold))
    return _mutual_best(pl.concat(found).unique())


_PAIRS = {"one": pl.Int64, "other": pl.Int64, "score": pl.Float64}


def _bigrams(nodes: Nodes, labels: Indices) -> pl.DataFrame:
    """Return (cluster, bigram) of the names, not the aliases; the only bigram of a one-character name is itself."""
    forms = nodes.surfaces.filter("is_name").select("node", form=pl.col("value").cast(pl.String))
    forms = with_cluster(forms, labels).with_columns(length=pl.col("form").str.len_chars())
    starts = pl.int_ranges(0, pl.max_horizontal(pl.col("length") - 1, 1))
    cut = forms.select("cluster", "form", start=starts).explode("start")
    return cut.select("cluster", bigram=pl.col("form").str.slice(pl.col("start"), 2)).unique()


def _neighbours(nodes: Nodes, labels: Indices) -> pl.DataFrame:
    """Return (cluster, neighbour), in both directions, distinct."""
    ways = [
        nodes.edges.select(cluster=at(labels, one), neighbour=at(labels, other))
        for one, other in (("head", "tail"), ("tail", "head"))
    ]
    return pl.concat(ways).unique()


def _kinds(graphs: pl.DataFrame) -> pl.DataFrame:
    """Return (cluster, kind): the list of the graphs with this cluster."""
    return graphs.group_by("cluster").agg(kind=pl.col("graph").sort())


def _apart(rare: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield the rows of every two groups without a common graph: names of one graph are never compared."""
    groups = [(set(kind), group) for (kind,), group in rare.group_by("kind", maintain_order=True)]
    for place, (kind, group) in enumerate(groups):
        for other_kind, other in groups[place + 1 :]:
            if not kind & other_kind:
                yield group, other


def _candidates(ones: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Return pairs (one, other), one < other, with a common rare bigram and no conflicting types."""
    pairs = ones.join(others, on="bigram", suffix="_other")
    same_type = pl.col("type").eq(pl.col("type_other")).fill_null(True)
    return (
        pairs.filter(same_type)
        .select(one=pl.min_horizontal("cluster", "cluster_other"), other=pl.max_horizontal("cluster", "cluster_other"))
        .unique()
    )


def _with_dice(pairs: pl.DataFrame, bearers: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    for end in ("one", "other"):
        pairs = pairs.join(sizes.rename({"cluster": end, "size": f"{end}_size"}), on=end)
    common = _common(pairs, bearers.rename({"bigram": "thing"}))
    dice = 2 * pl.col("common").fill_null(0) / (pl.col("one_size") + pl.col("other_size"))
    return pairs.join(common, on=["one", "other"], how="left").select("one", "other", dice=dice)


def _with_overlap(pairs: pl.DataFrame, neighbours: pl.DataFrame) -> pl.DataFrame:
    degrees = neighbours.group_by("cluster").len("degree")
    for end in ("one", "other"):
        pairs = pairs.join(degrees.rename({"cluster": end, "degree": f"{end}_degree"}), on=end, how="left")
    common = _common(pairs, neighbours.rename({"neighbour": "thing"}))
    overlap = pl.col("common") / pl.min_horizontal("one_degree", "other_degree")
    return pairs.join(common, on=["one", "other"], how="left").with_columns(overlap=overlap.fill_null(0))


def _common(pairs: pl.DataFrame, things: pl.DataFrame) -> pl.DataFrame:
    """Return (one, other, common): the number of things that both clusters of a pair have, if there are any."""
    ones = pairs.select("one", "other").join(things.rename({"cluster": "one"}), on="one")
    shared = ones.join(things.rename({"cluster": "other"}), on=["other", "thing"], how="semi")
    return shared.group_by("one", "other").len("common")


def _mutual_best(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs that are the single best one of both ends."""
    both = pl.concat([pairs, pairs.select(one="other", other="one", score="score")])
    best = both.filter(pl.col("score") == pl.col("score").max().over("one"))
    only = best.filter(pl.len().over("one") == 1)
    mutual = pairs.join(only, on=["one", "other"], how="semi")
    mutual = mutual.join(only.select(one="other", other="one"), on=["one", "other"], how="semi")
    return mutual.sort("one", "other")
