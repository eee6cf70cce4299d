"""Whether a model has seen two names as equal: the graphs that it learnt from, and the names that these join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from infra.artifacts import Artifact, ArtifactStore
from kg.names import normalise_names


def graphs_behind(artifact: Artifact) -> list[Artifact]:
    """Return the knowledge graphs among all that an artifact was made from, in order of their fingerprints.

    The sources of a fused graph are not among them: what was learnt from it is what it has.
    """
    found: dict[str, Artifact] = {}
    for one in _behind(artifact, set()):
        found[one.fingerprint] = one
    return [found[fingerprint] for fingerprint in sorted(found)]


def joined_by(pairs: Sequence[tuple[str, str]], graphs: Iterable[Artifact]) -> np.ndarray:
    """Return for each pair of names whether one of the graphs joins them, bool (pairs,).

    A graph joins two names that one entity has, and those of entities with a triple between them. Names are compared in
    comparable form.
    """
    asked = pl.DataFrame(list(pairs), schema={"one": pl.String, "other": pl.String}, orient="row")
    asked = asked.select(normalise_names(asked[name]) for name in asked.columns).with_row_index("pair")
    joined = np.zeros(len(pairs), bool)
    for graph in graphs:
        entities = graph.scan("kg_entities").select("entity_id", "name", "aliases").collect()
        names = entities.select("entity_id", name=pl.concat_list(pl.concat_list("name"), "aliases")).explode("name")
        names = names.select("entity_id", form=normalise_names(names["name"])).unique()
        ends = asked.join(names, left_on="one", right_on="form").rename({"entity_id": "head"})
        ends = ends.join(names, left_on="other", right_on="form").rename({"entity_id": "tail"})
        stated = graph.scan("kg_triples").select("head", "tail").unique().collect()
        stated = stated.select(pl.col("head", "tail").cast(pl.String))
        both = pl.concat([stated, stated.select(head="tail", tail="head")])
        same, linked = ends.filter(pl.col("head") == pl.col("tail")), ends.join(both, on=["head", "tail"], how="semi")
        joined[np.concatenate([same["pair"].to_numpy(), linked["pair"].to_numpy()]).astype(np.int64)] = True
    return joined


def _behind(artifact: Artifact, seen: set[str]) -> Iterator[Artifact]:
    for record in artifact.manifest.inputs.values():
        found = ArtifactStore(artifact.store_root).get(record.stage, record.fingerprint)
        if found is None or found.fingerprint in seen:  # raw files are no artifact
            continue
        seen.add(found.fingerprint)
        if {"kg_entities", "kg_triples"} <= set(found.manifest.tables):
            yield found
        else:
            yield from _behind(found, seen)
