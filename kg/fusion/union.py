"""Several graphs combined in one vocabulary, before anything but equal names is aligned.

A node is a name in comparable form. A relation with the role `alias` makes its tail another name of its head; such a
tail is a node of its own only if the graph states something else about it.

Pairs of names can be held out, so that what is learnt of the graph can be tested on them: the alias of such a pair is a
node of its own and nobody's alias, has no alias and no code as evidence, and no triple joins it with the pair's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kg.codes import codes_in
from kg.columns import Schema, at, stacked
from kg.fusion.nodes import Nodes
from kg.fusion.provenance import SourceSet, common_sets
from kg.fusion.vocabularies import Relation, Role, Vocabulary
from kg.graph import KnowledgeGraph
from kg.names import normalise_names

MAX_RELATION_NAME = 200
"""Maximum characters of a relation name; a longer one is a sentence that a parser mistook for a name."""

EMPTY_NAME, LONG_RELATION, HELD_OUT = "empty_name", "long_relation", "held_out_pair"
"""Reasons for omitting a triple."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Union:
    """All graphs in terms of nodes."""

    nodes: Nodes
    names: pl.Series
    """Name of every node in the spelling of a source: the shortest one, and of equally short ones the first."""
    spellings: pl.DataFrame
    """(node, value, raw): the sources' spellings of a node's names and aliases; value is the comparable form."""
    known_by: pl.DataFrame
    """(node, source): the sources with an entity of this name."""
    triples: pl.DataFrame
    """(head, relation, tail, set), int32, distinct; nodes, and places in `relation_names` and `source_sets`."""
    relation_names: list[str]
    functional: list[int]
    """Relations that may have only one tail per head."""
    source_sets: list[SourceSet]
    held_out: pl.DataFrame
    """(name, alias): nodes of the held-out pairs."""
    rejects: pl.DataFrame
    """(source, reason, head, relation, tail) of the triples that cannot be kept."""


@dataclass(frozen=True)
class HeldOut:
    """Pairs of names that must not be seen as one."""

    pairs: pl.DataFrame
    """(name, alias), in comparable form."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> HeldOut:
        """Return these pairs (name, alias) of names in any spelling."""
        given = pl.DataFrame(list(pairs), schema={"name": pl.String, "alias": pl.String}, orient="row")
        return cls(given.select(normalise_names(given[column]) for column in given.columns))

    @property
    def forms(self) -> pl.Series:
        """The aliases, which are nodes of their own; distinct."""
        return self.pairs["alias"].unique().sort()

    def nodes(self, surfaces: pl.DataFrame) -> pl.DataFrame:
        """Return (name, alias): every two nodes that have the names of a pair, from (node, value)."""
        bearers = surfaces.select("node", value=pl.col("value").cast(pl.String))
        found = self.pairs.join(bearers, left_on="name", right_on="value")
        found = found.join(bearers, left_on="alias", right_on="value", suffix="_alias")
        return found.select(name="node", alias="node_alias")


def unite(graphs: Sequence[KnowledgeGraph], vocabulary: Vocabulary, held_out: HeldOut | None = None) -> Union:
    """Combine graphs; time grows with their triples, but strings are processed only once per entity."""
    held_out = held_out or HeldOut.of(())
    readings = [_Reading(graph, vocabulary, held_out) for graph in graphs]
    named = stacked([reading.node_forms().to_frame("form") for reading in readings], {"form": pl.String})
    forms = named.to_series().unique().sort()
    relations = {relation for reading in readings for relation in reading.relations_in_use()}
    relation_names = sorted({relation.name for relation in relations})
    source_sets, set_places = common_sets(graph.source_sets for graph in graphs)
    places = [reading.node_places(forms) for reading in readings]

    def gathered(what: Callable[[_Reading], pl.DataFrame], schema: Schema) -> pl.DataFrame:
        frames = [
            what(reading).with_columns(node=at(place, "entity")).filter(pl.col("node") >= 0)
            for reading, place in zip(readings, places, strict=True)
        ]
        return stacked(frames, schema).unique()

    spellings = gathered(
        _Reading.spellings, {"node": pl.Int64, "value": pl.String, "is_name": pl.Boolean, "raw": pl.String}
    )
    spellings = spellings.with_columns(pl.col("value").cast(pl.Enum(spellings["value"].unique().sort())))
    names = spellings.filter("is_name").sort("node", pl.col("raw").str.len_chars(), "raw")
    known_by = gathered(_Reading.known_by, {"node": pl.Int64, "source": pl.String})
    triples = stacked(
        [
            reading.triples(place, relation_names, sets)
            for reading, place, sets in zip(readings, places, set_places, strict=True)
        ],
        dict.fromkeys(("head", "relation", "tail", "set"), pl.Int32),
    ).unique()
    nodes = Nodes(
        forms=forms,
        presence=stacked(
            [
                pl.DataFrame({"node": np.unique(place[place >= 0])}).with_columns(graph=number)
                for number, place in enumerate(places)
            ],
            {"node": pl.Int64, "graph": pl.Int32},
        ),
        types=gathered(_Reading.types, {"node": pl.Int64, "type": pl.String, "source": pl.String}),
        surfaces=spellings.group_by("node", "value").agg(pl.col("is_name").any()),
        codes=gathered(_Reading.codes, {"node": pl.Int64, "value": pl.String}),
        edges=triples.select("head", "tail").unique(),
        apart=forms.is_in(held_out.forms.implode()).arg_true().cast(pl.Int64).to_numpy(),
    )
    return Union(
        nodes=nodes,
        names=names.unique("node", keep="first", maintain_order=True)["raw"],
        spellings=spellings.select("node", "value", "raw").unique(),
        known_by=known_by,
        triples=triples,
        relation_names=relation_names,
        functional=sorted({relation_names.index(relation.name) for relation in relations if relation.functional}),
        source_sets=source_sets,
        held_out=held_out.nodes(nodes.surfaces),
        rejects=stacked(
            [reading.rejects() for reading in readings],
            dict.fromkeys(("source", "reason", "head", "relation", "tail"), pl.String),
        ),
    )


class _Reading:
    """One graph in terms of the vocabulary. In its frames, entities are indices in the graph."""

    def __init__(self, graph: KnowledgeGraph, vocabulary: Vocabulary, held_out: HeldOut) -> None:
        self.graph = graph
        self.vocabulary = vocabulary
        self.names = pl.Series("raw", graph.entities["name"]).str.strip_chars()
        self.forms = normalise_names(self.names)
        labels = {name for names in graph.source_sets for name in names}
        self.source = labels.pop() if len(labels) == 1 else ""
        self.relations = [vocabulary.relation_of(self.source, name) for name in graph.relation_names]
        named = (self.forms != "").to_numpy()
        long = np.array([len(name) > MAX_RELATION_NAME for name in graph.relation_names], bool)
        self.too_long = long[graph.relations]
        has_name = np.array([bool(name.strip()) for name in graph.relation_names], bool)
        self.nameless = ~(named[graph.heads] & named[graph.tails] & has_name[graph.relations]) & ~self.too_long
        self.apart_forms = held_out.forms
        self.apart = self.forms.is_in(self.apart_forms.implode()).to_numpy()
        self.held_out = self._held_out() & ~(self.too_long | self.nameless)
        self.is_kept = ~(self.too_long | self.nameless | self.held_out)
        self.is_node = named & (self._says_something() | self.apart)

    def _held_out(self) -> Mask:
        """Return the triples that make a held-out alias an alias, or give it one."""
        is_alias = np.array([relation.role is Role.ALIAS for relation in self.relations], bool)
        return is_alias[self.graph.relations] & (self.apart[self.graph.heads] | self.apart[self.graph.tails])

    def _says_something(self) -> Mask:
        """Return the entities that are more than an alias of another: not only tails of alias relations."""
        heads, tails = self.graph.heads, self.graph.tails
        # The order matters: marked as tails of aliases first, then unmarked again by any other triple.
        alias_only = np.zeros(self.graph.num_entities, bool)
        alias_only[tails[self._having(Role.ALIAS)]] = True
        alias_only[heads[self._having(Role.ALIAS)]] = False
        for role in (Role.RELATION, Role.CODE):
            alias_only[heads[self._having(role)]] = alias_only[tails[self._having(role)]] = False
        aliased = pl.Series(self.graph.entities["aliases"]).list.len().to_numpy() > 0
        return ~alias_only | aliased

    def _having(self, *roles: Role) -> Mask:
        """Return which triples are kept and have a relation with one of these roles."""
        wanted = np.array([relation.role in roles for relation in self.relations], bool)
        return self.is_kept & wanted[self.graph.relations]

    def node_forms(self) -> pl.Series:
        """Return the comparable names of the entities that are nodes."""
        return self.forms.filter(pl.Series(self.is_node, dtype=pl.Boolean))

    def node_places(self, forms: pl.Series) -> npt.NDArray[np.int64]:
        """Return the node of every entity among sorted forms; -1 for entities that are not nodes."""
        if forms.is_empty():
            return np.full(self.graph.num_entities, -1)
        places = self.forms.cast(pl.Enum(forms), strict=False).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        return np.where(self.is_node, places, -1)

    def relations_in_use(self) -> set[Relation]:
        """Return the mapped relations whose triples remain triples."""
        used = np.unique(self.graph.relations[self._having(Role.RELATION, Role.CODE)])
        return {self.relations[number] for number in used}

    def triples(
        self, places: npt.NDArray[np.int64], relation_names: Sequence[str], set_places: npt.NDArray[np.int32]
    ) -> pl.DataFrame:
        """Return (head, relation, tail, set) between nodes."""
        graph, kept = self.graph, self._having(Role.RELATION, Role.CODE)
        turned = np.array([relation.inverse for relation in self.relations], bool)[graph.relations[kept]]
        place = {name: number for number, name in enumerate(relation_names)}
        relation_places = np.array([place.get(relation.name, -1) for relation in self.relations], np.int32)
        heads, tails = places[graph.heads[kept]], places[graph.tails[kept]]
        return pl.DataFrame(
            {
                "head": np.where(turned, tails, heads).astype(np.int32),
                "relation": relation_places[graph.relations[kept]],
                "tail": np.where(turned, heads, tails).astype(np.int32),
                "set": set_places[graph.triple_source_sets[kept]],
            }
        )

    def spellings(self) -> pl.DataFrame:
        """Return (entity, value, is_name, raw) of names, aliases and tails of alias relations."""
        entities = np.arange(self.graph.num_entities)
        names = pl.DataFrame({"entity": entities, "value": self.forms, "raw": self.names}).with_columns(is_name=True)
        listed = pl.DataFrame({"entity": entities, "raw": pl.Series(self.graph.entities["aliases"])})
        listed = listed.explode("raw").drop_nulls().with_columns(pl.col("raw").str.strip_chars())
        listed = listed.with_columns(value=normalise_names(listed["raw"]), is_name=False)
        stated = self._having(Role.ALIAS)
        tails = self.graph.tails[stated]
        related = pl.DataFrame(
            {"entity": self.graph.heads[stated], "value": self.forms.gather(tails), "raw": self.names.gather(tails)}
        ).with_columns(pl.col("entity").cast(pl.Int64), is_name=False)
        columns = ["entity", "value", "is_name", "raw"]
        # Of held-out aliases, `related` has none: their triples are not kept.
        own = pl.Series(self.apart).gather(listed["entity"])
        listed = listed.filter(~pl.col("value").is_in(self.apart_forms.implode()) & ~own)
        return pl.concat([frame.select(columns) for frame in (names, listed, related)]).filter(pl.col("value") != "")

    def types(self) -> pl.DataFrame:
        """Return (entity, type, source), one row per source of the entity, known types only."""
        types = pl.Series(self.graph.entities["type"])
        given = types.unique().to_list()
        mapped = types.replace_strict(given, [self.vocabulary.type_of(self.source, name) for name in given])
        return self._by_source(type=mapped).filter(pl.col("type") != "")

    def known_by(self) -> pl.DataFrame:
        """Return (entity, source)."""
        return self._by_source().filter(pl.col("source") != "")

    def codes(self) -> pl.DataFrame:
        """Return (entity, value) of every single code."""
        stated = self._having(Role.CODE) & ~self.apart[self.graph.heads]
        raw = self.names.gather(self.graph.tails[stated])
        codes = pl.DataFrame({"entity": self.graph.heads[stated], "value": codes_in(raw)})
        return codes.with_columns(pl.col("entity").cast(pl.Int64)).explode("value").drop_nulls()

    def rejects(self) -> pl.DataFrame:
        """Return (source, reason, head, relation, tail) of the triples that are not kept."""
        frames = []
        for reason, mask in (
            (EMPTY_NAME, self.nameless),
            (LONG_RELATION, self.too_long),
            (HELD_OUT, self.held_out),
        ):
            relation_names = pl.Series("relation", self.graph.relation_names, pl.String)
            frames.append(
                pl.DataFrame(
                    {
                        "head": self.names.gather(self.graph.heads[mask]),
                        "relation": relation_names.gather(self.graph.relations[mask]),
                        "tail": self.names.gather(self.graph.tails[mask]),
                    }
                ).select(
                    pl.lit(self.source).alias("source"), pl.lit(reason).alias("reason"), "head", "relation", "tail"
                )
            )
        return pl.concat(frames)

    def _by_source(self, **columns: pl.Series) -> pl.DataFrame:
        entities = {"entity": np.arange(self.graph.num_entities), **columns}
        sources = pl.Series("source", self.graph.entities["sources"])
        return (
            pl.DataFrame(entities).with_columns(sources).explode("source").with_columns(pl.col("source").fill_null(""))
        )
