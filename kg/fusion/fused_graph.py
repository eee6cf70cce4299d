"""Fusion of any number of knowledge graphs: names are aligned, types and relations mapped to one vocabulary, sources
kept.

    graph = fuse([cmekg, icd10, own])

Equal names (kg/names.py) are one entity; kg/fusion/alignment.py weighs further evidence; the tables of
kg/fusion/vocabularies.py map types and relations; kg/fusion/conflicts.py lists contradictions. An entity's id is a hash
of its name in comparable form, so neither ids nor anything else depend on the order of the graphs. Fusing a graph with
itself, or a fused graph again, changes nothing.

Time grows with n log n of the triples, memory with the triples and the names: two graphs of 1 and 3.8 million triples
take 11 CPU seconds and, with reading them, 1.5 to 2.2 GB at the peak (benchmarks/knowledge/fusion.py).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from infra.schemas import TABLES, conform
from kg.columns import at
from kg.fusion.alignment import NAME, AlignmentOptions, align, voted_types
from kg.fusion.components import Indices
from kg.fusion.conflicts import type_conflicts, value_conflicts
from kg.fusion.provenance import merge_sets, sources_of
from kg.fusion.union import HeldOut, Union, unite
from kg.fusion.vocabularies import Vocabulary
from kg.graph import KnowledgeGraph
from kg.linking.surface_forms import forms_of_names


@dataclass(frozen=True)
class Fusion:
    """The fused graph, and the evidence for it."""

    graph: KnowledgeGraph
    alignments: pa.Table
    """As `kg_alignments` of infra/schemas.py."""
    conflicts: pa.Table
    """As `kg_conflicts`."""
    rejects: pl.DataFrame
    """(source, reason, head, relation, tail) of the omitted triples."""
    collapsed: int
    """Number of triples omitted because the names at their ends became one entity."""
    held_out: int = 0
    """Number of triples omitted because they join the names of a held-out pair."""


def fuse(
    graphs: Sequence[KnowledgeGraph],
    options: AlignmentOptions | None = None,
    vocabulary: Vocabulary | None = None,
) -> KnowledgeGraph:
    """Return one graph of all entities and triples; `fuse_with_evidence` also returns the evidence."""
    return fuse_with_evidence(graphs, options, vocabulary).graph


def fuse_with_evidence(
    graphs: Sequence[KnowledgeGraph],
    options: AlignmentOptions | None = None,
    vocabulary: Vocabulary | None = None,
    held_out: Iterable[tuple[str, str]] = (),
) -> Fusion:
    """Return the fused graph with the alignments and their evidence, the conflicts, and the omitted triples.

    `held_out` are pairs (name, alias) that the graph must not join (kg/fusion/union.py): the alias becomes an entity of
    its own, or is left out if no graph has it as an entity.
    """
    union = unite(graphs, vocabulary or _default_vocabulary(), HeldOut.of(held_out))
    labels, links = align(union.nodes, options or AlignmentOptions())
    entities = _Entities.of(union, labels)
    triples = _entity_triples(union, entities)
    stated = _not_held_out(triples.filter(~pl.col("collapsed")).drop("collapsed"), union, entities)
    coded, sets = merge_sets(stated, union.source_sets)
    used = coded["relation"].unique().sort()
    graph = KnowledgeGraph(
        _entity_table(union, labels, entities),
        [union.relation_names[place] for place in used],
        coded["head"],
        used.search_sorted(coded["relation"]),
        coded["tail"],
        sets,
        coded["set"],
    )
    return Fusion(
        graph=graph,
        alignments=_alignments(union, entities, links),
        conflicts=_conflicts(union, labels, entities, triples),
        rejects=union.rejects,
        collapsed=int(triples["collapsed"].sum()),
        held_out=triples.height - int(triples["collapsed"].sum()) - stated.height,
    )


def entity_ids(forms: Sequence[str]) -> list[str]:
    """Return 16 hex digits for each name in comparable form."""
    return [hashlib.blake2b(form.encode(), digest_size=8).hexdigest() for form in forms]


@functools.cache
def _default_vocabulary() -> Vocabulary:
    return Vocabulary.read()


@dataclass(frozen=True)
class _Entities:
    """The fused entities, that is, clusters of nodes, in the order of their ids."""

    ids: list[str]
    of_node: Indices
    """Entity of every node."""
    chief: Indices
    """Node that gives each entity its name: that with the most triples, then the shortest, then the first by name."""

    @classmethod
    def of(cls, union: Union, labels: Indices) -> _Entities:
        degrees = np.bincount(
            np.concatenate([union.triples["head"], union.triples["tail"]]), minlength=union.nodes.count
        )
        chiefs = (
            pl.DataFrame({"cluster": labels, "degree": degrees, "length": union.nodes.forms.str.len_chars()})
            .with_row_index("node")
            .sort("cluster", "degree", "length", "node", descending=[False, True, False, False])
            .unique("cluster", keep="first", maintain_order=True)
        )
        chief = chiefs["node"].cast(pl.Int64).to_numpy()
        ids = np.array(entity_ids(union.nodes.forms.gather(chief).to_list()), dtype=str)
        order = np.argsort(ids)
        of_label = np.zeros(union.nodes.count, np.int64)
        of_label[chiefs["cluster"].to_numpy()[order]] = np.arange(len(order))
        return cls(ids[order].tolist(), of_label[labels], chief[order])


def _entity_triples(union: Union, entities: _Entities) -> pl.DataFrame:
    """Return the triples between entities, with `collapsed` where alignment merged both ends into one entity."""
    heads, tails = (union.triples[end].to_numpy() for end in ("head", "tail"))
    head, tail = (entities.of_node[ends].astype(np.int32) for ends in (heads, tails))
    return union.triples.with_columns(
        head=pl.Series(head), tail=pl.Series(tail), collapsed=pl.Series((head == tail) & (heads != tails))
    )


def _not_held_out(triples: pl.DataFrame, union: Union, entities: _Entities) -> pl.DataFrame:
    """Return the triples but those between the entities of a held-out pair, in either direction."""
    if union.held_out.is_empty():
        return triples
    pairs = union.held_out.select(
        pl.Series(name, entities.of_node[union.held_out[column]].astype(np.int32))
        for name, column in (("head", "name"), ("tail", "alias"))
    )
    both = pl.concat([pairs, pairs.select(head="tail", tail="head")])
    return triples.join(both, on=["head", "tail"], how="anti", maintain_order="left")


def _entity_table(union: Union, labels: Indices, entities: _Entities) -> pa.Table:
    count = len(entities.ids)
    types = voted_types(union.nodes, labels).with_columns(entity=at(entities.of_node, "cluster"))
    columns = (
        pl.DataFrame({"entity": np.arange(count), "name": union.names.gather(entities.chief)})
        .join(_aliases(union, entities), on="entity", how="left", maintain_order="left")
        .join(types.select("entity", "type"), on="entity", how="left", maintain_order="left")
        .join(_sources(union, entities), on="entity", how="left", maintain_order="left")
        .select(
            pl.Series("entity_id", entities.ids, pl.String),
            "name",
            pl.col("aliases").fill_null(pl.lit([], pl.List(pl.String))),
            pl.col("type").fill_null(""),
            pl.col("sources").fill_null(pl.lit([], pl.List(pl.String))),
        )
    )
    return columns.to_arrow().cast(TABLES["kg_entities"])


def _aliases(union: Union, entities: _Entities) -> pl.DataFrame:
    """Return (entity, aliases): every other name and spelling, one per form that may occur in a text.

    Names that are equal in comparable form may differ in a text: II型 and 2型 have different surface forms.
    """
    own = pl.DataFrame(
        {
            "entity": np.arange(len(entities.chief)),
            "value": union.nodes.forms.gather(entities.chief),
            "raw": union.names.gather(entities.chief),
        }
    )
    # Spellings other than the entity's own name, one (the shortest) per surface form that its name does not have.
    spelled = union.spellings.select(pl.col("value").cast(pl.String), "raw", entity=at(entities.of_node, "node"))
    others = _with_surface(spelled.join(own, on=["entity", "raw"], how="anti"))
    one_each = (
        others.join(_with_surface(own), on=["entity", "value", "surface"], how="anti")
        .sort(pl.col("raw").str.len_chars(), "raw")
        .unique(["entity", "value", "surface"], keep="first")
    )
    return one_each.group_by("entity").agg(aliases=pl.col("raw").sort())


def _with_surface(spelled: pl.DataFrame) -> pl.DataFrame:
    return spelled.with_columns(surface=pl.Series(forms_of_names(spelled["raw"]), dtype=pl.String))


def _sources(union: Union, entities: _Entities) -> pl.DataFrame:
    """Return (entity, sources), sorted."""
    known_by = union.known_by.select("source", entity=at(entities.of_node, "node")).unique()
    return known_by.sort("entity", "source").group_by("entity", maintain_order=True).agg(sources="source")


def _alignments(union: Union, entities: _Entities, links: pl.DataFrame) -> pa.Table:
    """Return the evidence that joined names of several graphs: equal names first, then the links between nodes."""
    shared = union.nodes.presence.group_by("node").len().filter(pl.col("len") > 1)["node"].sort()
    equal = pl.DataFrame({"one": shared, "other": shared}).select(
        "one", "other", evidence=pl.lit(NAME), value=union.nodes.forms.gather(shared), score=1.0
    )
    entity_of = pl.Series(entities.ids, dtype=pl.String).gather(entities.of_node)
    table = pl.concat([equal.cast(links.schema), links]).select(
        at(entity_of, "one").alias("entity_id"),
        at(union.names, "one").alias("name"),
        at(union.names, "other").alias("other_name"),
        "evidence",
        "value",
        "score",
    )
    return conform(table.to_arrow().cast(TABLES["kg_alignments"]), "kg_alignments")


def _conflicts(union: Union, labels: Indices, entities: _Entities, triples: pl.DataFrame) -> pa.Table:
    """Return the types and functional values on which an entity's sources differ."""
    entity_names = union.names.gather(entities.chief)
    stated = triples.filter(pl.col("relation").is_in(union.functional)).select(
        pl.col("set"),
        cluster=pl.col("head").cast(pl.Int64),
        relation=at(union.relation_names, "relation"),
        value=at(entity_names, "tail"),
    )
    of_types = type_conflicts(union.nodes, labels).with_columns(cluster=at(entities.of_node, "cluster"))
    of_values = value_conflicts(sources_of(stated, union.source_sets))
    table = pl.concat([of_types, of_values]).sort("cluster", "kind", "relation", "value")
    table = table.select(at(entities.ids, "cluster").alias("entity_id"), "kind", "relation", "value", "sources")
    return table.to_arrow().cast(TABLES["kg_conflicts"])
