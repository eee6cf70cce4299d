"""Weak evidence: names of different graphs that look alike, with neighbours in common.

Names are compared by Dice's coefficient of their sets of character bigrams, neighbourhoods by the overlap
coefficient |A ∩ B| / min(|A|, |B|); the score is dice + weight · overlap · (1 − dice). Two clusters are linked when
the score reaches the threshold, each is the other's best, and no second one is as good.

Only names that share a bigram borne by at most `MAX_BEARERS` clusters are compared. Memory is bounded by batches of
`BATCH` bigrams times their bearers; time grows with the pairs that share a rare bigram.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from kg.columns import at
from kg.fusion.components import Indices
from kg.fusion.nodes import Nodes, with_cluster

MAX_BEARERS = 500
"""A bigram that more clusters bear finds no candidates (it still counts in their similarity)."""

BATCH = 50_000
"""Bigrams of names whose bearers are compared at once; each has at most MAX_BEARERS."""

MIN_DICE = 0.3
"""Names less alike are never one, whatever their neighbours."""


def similar_clusters(
    nodes: Nodes, labels: Indices, types: pl.DataFrame, graphs: pl.DataFrame, threshold: float, overlap_weight: float
) -> pl.DataFrame:
    """Pairs (one, other, score) of clusters from different graphs, each the other's only best, one < other."""
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
            # Even full overlap lifts the score only so far: the others need no look at their neighbours.
            reach = pl.col("dice") + overlap_weight * (1 - pl.col("dice"))
            pairs = _with_overlap(pairs.filter(reach >= threshold), neighbours)
            score = pl.col("dice") + overlap_weight * pl.col("overlap") * (1 - pl.col("dice"))
            found.append(pairs.select("one", "other", score=score).filter(pl.col("score") >= threshold))
    return _mutual_best(pl.concat(found).unique())


_PAIRS = {"one": pl.Int64, "other": pl.Int64, "score": pl.Float64}


def _bigrams(nodes: Nodes, labels: Indices) -> pl.DataFrame:
    """(cluster, bigram) of the names, not the aliases; a name of one character has itself as its only bigram."""
    forms = nodes.surfaces.filter("is_name").select("node", form=pl.col("value").cast(pl.String))
    forms = with_cluster(forms, labels).with_columns(length=pl.col("form").str.len_chars())
    starts = pl.int_ranges(0, pl.max_horizontal(pl.col("length") - 1, 1))
    cut = forms.select("cluster", "form", start=starts).explode("start")
    return cut.select("cluster", bigram=pl.col("form").str.slice(pl.col("start"), 2)).unique()


def _neighbours(nodes: Nodes, labels: Indices) -> pl.DataFrame:
    """(cluster, neighbour), both ways, distinct."""
    ways = [
        nodes.edges.select(cluster=at(labels, one), neighbour=at(labels, other))
        for one, other in (("head", "tail"), ("tail", "head"))
    ]
    return pl.concat(ways).unique()


def _kinds(graphs: pl.DataFrame) -> pl.DataFrame:
    """(cluster, kind): the list of the graphs that know it."""
    return graphs.group_by("cluster").agg(kind=pl.col("graph").sort())


def _apart(rare: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """The bearers in every two groups that no graph knows both; names of one graph are never compared."""
    groups = [(set(kind), group) for (kind,), group in rare.group_by("kind", maintain_order=True)]
    for place, (kind, group) in enumerate(groups):
        for other_kind, other in groups[place + 1 :]:
            if not kind & other_kind:
                yield group, other


def _candidates(ones: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Pairs (one, other), one < other, with a rare bigram in common and no two types."""
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
    """(one, other, common): how many things both clusters of a pair have; pairs without any are left out."""
    ones = pairs.select("one", "other").join(things.rename({"cluster": "one"}), on="one")
    shared = ones.join(things.rename({"cluster": "other"}), on=["other", "thing"], how="semi")
    return shared.group_by("one", "other").len("common")


def _mutual_best(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs that are the only best of both ends."""
    both = pl.concat([pairs, pairs.select(one="other", other="one", score="score")])
    best = both.filter(pl.col("score") == pl.col("score").max().over("one"))
    only = best.filter(pl.len().over("one") == 1)
    mutual = pairs.join(only, on=["one", "other"], how="semi")
    mutual = mutual.join(only.select(one="other", other="one"), on=["one", "other"], how="semi")
    return mutual.sort("one", "other")
