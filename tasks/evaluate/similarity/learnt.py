"""Check whether a model has seen two names as equal: the graphs that it learnt from, and the names that these join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from infra.artifacts import Artifact, ArtifactStore
from kg.names import normalise_names


def graphs_behind(artifact: Artifact) -> list[Artifact]:
    """Return the graphs and the records of products among all that an artifact was made from, by their fingerprints.

    What these were made from is not among them: only what is in them was learnt.
    """
    found: dict[str, Artifact] = {}
    for one in _behind(artifact, set()):
        found[one.fingerprint] = one
    return [found[fingerprint] for fingerprint in sorted(found)]


def joined_by(pairs: Sequence[tuple[str, str]], graphs: Iterable[Artifact]) -> np.ndarray:
    """Return for each pair of names whether one of the graphs or records joins them, bool (pairs,).

    A graph joins two names that one entity has, and those of entities with a triple between them. Records of products
    join a title with its values (尼群地平 with its 别名). Names are compared in comparable form.
    """
    asked = pl.DataFrame(list(pairs), schema={"one": pl.String, "other": pl.String}, orient="row")
    asked = asked.select(normalise_names(asked[name]) for name in asked.columns).with_row_index("pair")
    joined = np.zeros(len(pairs), bool)
    for graph in graphs:
        found = _by_records(asked, graph) if RECORDS in graph.manifest.tables else _by_graph(asked, graph)
        joined[found.to_numpy().astype(np.int64)] = True
    return joined


GRAPH, RECORDS = {"kg_entities", "kg_triples"}, "product_records"
"""Tables of a graph, and the table of products."""


def _by_graph(asked: pl.DataFrame, graph: Artifact) -> pl.Series:
    """Return the numbers of the pairs (pair, one, other) that a graph joins."""
    entities = graph.scan("kg_entities").select("entity_id", "name", "aliases").collect()
    names = entities.select("entity_id", name=pl.concat_list(pl.concat_list("name"), "aliases")).explode("name")
    names = names.select("entity_id", form=normalise_names(names["name"])).unique()
    ends = asked.join(names, left_on="one", right_on="form").rename({"entity_id": "head"})
    ends = ends.join(names, left_on="other", right_on="form").rename({"entity_id": "tail"})
    stated = graph.scan("kg_triples").select("head", "tail").unique().collect()
    stated = stated.select(pl.col("head", "tail").cast(pl.String))
    both = pl.concat([stated, stated.select(head="tail", tail="head")])
    same, linked = ends.filter(pl.col("head") == pl.col("tail")), ends.join(both, on=["head", "tail"], how="semi")
    return pl.concat([same["pair"], linked["pair"]])


def _by_records(asked: pl.DataFrame, records: Artifact) -> pl.Series:
    """Return the numbers of the pairs that are a title and one of its values, in either order."""
    rows = records.scan(RECORDS).select("title", value="values").collect().explode("value").drop_nulls()
    stated = rows.select(one=normalise_names(rows["title"]), other=normalise_names(rows["value"])).unique()
    both = pl.concat([stated, stated.select(one="other", other="one")])
    return asked.join(both, on=["one", "other"], how="semi")["pair"]


def _behind(artifact: Artifact, seen: set[str]) -> Iterator[Artifact]:
    for record in artifact.manifest.inputs.values():
        found = ArtifactStore(artifact.store_root).get(record.stage, record.fingerprint)
        if found is None or found.fingerprint in seen:  # raw files are no artifact
            continue
        seen.add(found.fingerprint)
        if set(found.manifest.tables) >= GRAPH or RECORDS in found.manifest.tables:
            yield found
        else:
            yield from _behind(found, seen)
