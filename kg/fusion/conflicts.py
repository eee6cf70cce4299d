"""Contradictions between sources: reported, and never resolved by dropping a statement.

- type: names of one entity that sources give different types; the entity has the type of most sources;
- value: a relation that can have one tail has several; every triple stays in the graph.
"""

from __future__ import annotations

import polars as pl

from kg.fusion.components import Indices
from kg.fusion.nodes import Nodes, with_cluster

TYPE, VALUE = "type", "value"


def type_conflicts(nodes: Nodes, labels: Indices) -> pl.DataFrame:
    """Return (cluster, kind, relation, value, sources): one row per type of every cluster with several types."""
    claims = with_cluster(nodes.types, labels).select("cluster", "type", "source").unique()
    several = claims.group_by("cluster").agg(pl.col("type").n_unique()).filter(pl.col("type") > 1)
    return _by_value(
        claims.join(several, on="cluster", how="semi").select(
            "cluster", "source", kind=pl.lit(TYPE), relation=pl.lit(""), value="type"
        )
    )


def value_conflicts(triples: pl.DataFrame) -> pl.DataFrame:
    """As `type_conflicts`, for the triples (cluster, relation, value, source) of functional relations."""
    several = triples.group_by("cluster", "relation").agg(pl.col("value").n_unique()).filter(pl.col("value") > 1)
    return _by_value(
        triples.join(several, on=["cluster", "relation"], how="semi").select(
            "cluster", "source", kind=pl.lit(VALUE), relation="relation", value="value"
        )
    )


def _by_value(claims: pl.DataFrame) -> pl.DataFrame:
    return (
        claims.group_by("cluster", "kind", "relation", "value")
        .agg(sources=pl.col("source").filter(pl.col("source") != "").unique().sort())
        .sort("cluster", "kind", "relation", "value")
    )
