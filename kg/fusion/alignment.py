"""Alignment: finds the names of several graphs that mean one entity, and clusters them.

A node is a name in its comparable form, so equal names are already one node. Other evidence then joins nodes until
nothing more is found:

- alias: nodes share a name or alias. Rejected if more than `max_holders` nodes have it, if their types differ, or if it
  is nobody's name and one graph has two of its holders as different entities;
- code: nodes share a code that belongs to one entity in every graph, and their types do not differ;
- similarity, if enabled: kg/fusion/similarity.py.

Evidence is judged for whole clusters, round by round, so the order of graphs and rows does not matter. Time grows with
the names and aliases, times the rounds (two to four on real graphs).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from kg.fusion.components import Indices, connected_components
from kg.fusion.nodes import Nodes, with_cluster
from kg.fusion.similarity import similar_clusters

ALIAS, CODE, SIMILARITY, NAME = "alias", "code", "similarity", "name"
"""Kinds of evidence."""

LINK_SCHEMA = {"one": pl.Int64, "other": pl.Int64, "evidence": pl.String, "value": pl.String, "score": pl.Float64}


@dataclass(frozen=True)
class AlignmentOptions:
    """Evidence that counts for alignment."""

    aliases: bool = True
    codes: bool = True
    max_holders: int = 3
    """Maximum number of entities with an alias for it to count as evidence."""
    similarity: float | None = None
    """Minimum score at which similar names of different graphs are one entity; None: never."""
    overlap_weight: float = 0.5
    """Share of the names' missing similarity that a full overlap of neighbourhoods makes up for."""


def align(nodes: Nodes, options: AlignmentOptions) -> tuple[Indices, pl.DataFrame]:
    """Return the label of every node's cluster (its smallest node), and the links that joined them.

    Links have the columns one, other, evidence, value, score.
    """
    labels = np.arange(nodes.count, dtype=np.int64)
    accepted = []
    while len(links := _links(nodes, labels, options)):
        accepted.append(links)
        joined = connected_components(nodes.count, links["one"], links["other"])
        labels = joined[labels]
    return labels, pl.concat(accepted) if accepted else pl.DataFrame(schema=LINK_SCHEMA)


def voted_types(nodes: Nodes, labels: Indices) -> pl.DataFrame:
    """Return (cluster, type): the type that most sources give the names of a cluster; of equals the first by name."""
    return (
        with_cluster(nodes.types, labels)
        .group_by("cluster", "type")
        .agg(votes=pl.col("source").n_unique())
        .sort("cluster", "votes", "type", descending=[False, True, False])
        .unique("cluster", keep="first", maintain_order=True)
        .select("cluster", "type")
    )


def _links(nodes: Nodes, labels: Indices, options: AlignmentOptions) -> pl.DataFrame:
    """Return the links between clusters from the evidence of this round."""
    types = voted_types(nodes, labels)
    graphs = with_cluster(nodes.presence, labels).select("cluster", "graph").unique()
    found = []
    if options.aliases:
        found.append(_shared(nodes.surfaces, labels, types, graphs, ALIAS, options.max_holders))
    if options.codes:
        found.append(_shared(nodes.codes.with_columns(is_name=False), labels, types, graphs, CODE, None))
    links = pl.concat(found) if found else pl.DataFrame(schema=LINK_SCHEMA)
    if links.is_empty() and options.similarity is not None:
        pairs = similar_clusters(nodes, labels, types, graphs, options.similarity, options.overlap_weight)
        # Any other evidence lacks these nodes, but each has a name that may resemble another.
        pairs = pairs.filter(~pl.any_horizontal(pl.col("one", "other").is_in(nodes.apart)))
        return pairs.with_columns(evidence=pl.lit(SIMILARITY), value=pl.lit("")).select(*LINK_SCHEMA)
    return links


def _shared(
    holdings: pl.DataFrame,
    labels: Indices,
    types: pl.DataFrame,
    graphs: pl.DataFrame,
    evidence: str,
    max_holders: int | None,
) -> pl.DataFrame:
    """Return links between the clusters with the same value (a name, alias or code)."""
    holders = with_cluster(holdings, labels).group_by("value", "cluster").agg(pl.col("is_name").any())
    counts = holders.group_by("value").agg(holders=pl.len(), named=pl.col("is_name").any())
    counts = counts.filter(pl.col("holders").is_between(2, max_holders or holders.height))
    holders = holders.join(counts, on="value").join(types, on="cluster", how="left")
    one_type = holders.group_by("value").agg(pl.col("type").drop_nulls().n_unique() <= 1).filter("type")
    # 消渴 as alias of both 糖尿病 and 尿崩症 in one graph does not join them: the graph itself keeps them apart.
    apart = (
        holders.join(graphs, on="cluster")
        .group_by("value", "graph")
        .agg(kept_apart=pl.len() > 1)
        .group_by("value")
        .agg(pl.col("kept_apart").any())
    )
    believed = holders.join(one_type, on="value", how="semi").join(apart, on="value")
    believed = believed.filter(pl.col("named") | ~pl.col("kept_apart"))
    # Linking each holder to the smallest one is enough: connected components do the rest.
    return (
        believed.with_columns(one=pl.col("cluster").min().over("value"))
        .filter(pl.col("one") != pl.col("cluster"))
        .select("one", other="cluster", evidence=pl.lit(evidence), value=pl.col("value").cast(pl.String), score=1.0)
        .sort("one", "other", "value")
    )
