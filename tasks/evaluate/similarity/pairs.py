"""Stage `similarity_pairs`: pairs of equal names in a fused graph, with the neighbours that both had before fusion.

SMedBERT (appendix C) takes pairs of entities that a relation of equivalence joins. Fusion makes such entities one, with
the other's name as an alias. So the pairs are names and aliases of the fused graph, and their neighbours are those of
the sources, where both may be entities. Names are compared in comparable form (kg/names.py): spellings of one name are
no pair, and pairs that differ in spelling only are one. Equivalences are no neighbours.

Time and memory grow with the triples of the sources that touch a name of a pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from infra.artifacts import Artifact
from infra.stage import Output, stage
from kg.fusion.vocabularies import Role, Vocabulary
from kg.graph import KnowledgeGraph
from kg.names import normalise_names
from tasks.documents import share_of
from tasks.evaluate.similarity.params import SimilarityPairsParams

HAN = r"\p{Han}"
"""Matches a name with a Chinese character, such as 维生素C; not Aspirin."""

PURPOSE = "similarity pair"


@stage(name="similarity_pairs", version=1, params=SimilarityPairsParams, tables=("similarity_pairs",))
def similarity_pairs(inputs: Mapping[str, Any], params: SimilarityPairsParams, out: Output) -> None:
    """Take the pairs of `inputs["fused"]`; the other inputs are those of `fuse_graphs` that it was made from.

    There may be none: holding none out of a graph without aliases is no mistake.
    """
    pairs = _pairs(inputs["fused"], params, out)
    relations = Path(inputs["relations"].files[0].path) if "relations" in inputs else None
    vocabulary = Vocabulary.read(None, relations)
    sources = [given for name, given in sorted(inputs.items()) if name not in ("fused", "types", "relations")]
    wanted = pl.concat([pairs["name_form"], pairs["alias_form"]]).unique()
    edges = [edge for source in sources for edge in _edges(source, vocabulary, wanted)]
    shared = with_common_neighbours(pairs, pl.concat([pl.DataFrame(schema=EDGES), *edges]).unique())
    with out.part() as part:
        columns = ["entity_id", "name", "alias", "type", "common", "jaccard"]
        part.write("similarity_pairs", shared.select(columns).to_arrow())
        part.count("pairs", shared.height)
        part.count("pairs_with_common_neighbours", int((shared["common"] > 0).sum()))


EDGES = {"form": pl.String, "neighbour": pl.String}


def _pairs(fused: Artifact, params: SimilarityPairsParams, out: Output) -> pl.DataFrame:
    """Return (entity_id, name, alias, type, name_form, alias_form), sorted, and count what is left out."""
    rows = fused.scan("kg_entities").select("entity_id", "name", "aliases", "type").sort("entity_id").collect()
    pairs = rows.explode("aliases").rename({"aliases": "alias"}).drop_nulls("alias")
    pairs = pairs.with_columns(normalise_names(pairs[name]).alias(f"{name}_form") for name in ("name", "alias"))
    differing = pairs.filter((pl.col("name_form") != pl.col("alias_form")) & (pl.col("alias_form") != ""))
    # An alias in several spellings is one: the shortest, and of equally short ones the first.
    order = ["entity_id", "alias_form", pl.col("alias").str.len_chars(), "alias"]
    distinct = differing.sort(order).unique(["entity_id", "alias_form"], keep="first", maintain_order=True)
    out.count("aliases_in", pairs.height)
    out.count("spellings", pairs.height - distinct.height)
    if params.scripts == "han":
        chinese = distinct.filter(pl.all_horizontal(pl.col("name", "alias").str.contains(HAN)))
        out.count("other_scripts", distinct.height - chinese.height)
        distinct = chinese
    ids = distinct["entity_id"].unique().sort()
    drawn = ids.filter(pl.Series([share_of(one, PURPOSE, params.seed) < params.share for one in ids], dtype=pl.Boolean))
    return distinct.filter(pl.col("entity_id").is_in(drawn.implode()))


def _edges(source: Artifact, vocabulary: Vocabulary, wanted: pl.Series) -> Iterator[pl.DataFrame]:
    """Yield (form, neighbour) of the wanted names in a source, in both directions, without equivalences."""
    graph = KnowledgeGraph.from_tables(source.to_table("kg_entities"), source.to_table("kg_triples"))
    labels = {name for names in graph.source_sets for name in names}
    label = labels.pop() if len(labels) == 1 else ""
    roles = [vocabulary.relation_of(label, name).role for name in graph.relation_names]
    stated = np.array([role in (Role.RELATION, Role.CODE) for role in roles], bool)[graph.relations]
    forms = normalise_names(pl.Series(graph.names, dtype=pl.String))
    ends = [forms.gather(column[stated]) for column in (graph.heads, graph.tails)]
    for one, other in (ends, ends[::-1]):
        edges = pl.DataFrame({"form": one, "neighbour": other}, schema=EDGES)
        yield edges.filter(pl.col("form").is_in(wanted.implode()) & (pl.col("neighbour") != ""))


def with_common_neighbours(pairs: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
    """Return pairs (…, name_form, alias_form) with `common` and `jaccard` of their neighbours.

    `edges` has distinct rows (form, neighbour). The two names are not neighbours of each other.
    """
    numbered = pairs.with_row_index("pair")
    own, other = (_neighbours(numbered, edges, column) for column in ("name_form", "alias_form"))
    common = own.join(other, on=["pair", "neighbour"], how="semi").group_by("pair").len("common")
    found = pl.concat([own, other]).unique().group_by("pair").len("all")
    counted = numbered.join(found, on="pair", how="left").join(common, on="pair", how="left").sort("pair")
    share = pl.col("common").cast(pl.Int64).fill_null(0) / pl.col("all")
    return counted.with_columns(pl.col("common").cast(pl.Int64).fill_null(0), jaccard=share.fill_null(0.0))


def _neighbours(pairs: pl.DataFrame, edges: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return (pair, neighbour) of one of each pair's names; neither name is a neighbour."""
    ends = pairs.select("pair", one="name_form", other="alias_form", form=column)
    found = ends.join(edges, on="form").filter(~pl.col("neighbour").is_in(pl.concat_list("one", "other")))
    return found.select("pair", "neighbour")
