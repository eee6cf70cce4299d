"""A knowledge graph as compact arrays: entities, relations, and the triples between them, traversable both ways.

An entity's index is its place among the sorted ids, so order by index is order by id. Triples are distinct and sorted
by head, relation and tail. On disk a graph is the two tables `kg_entities` and `kg_triples` of infra/schemas.py.

Memory: 12 bytes per triple, 18 more after the first request for neighbours, and the strings of the entities.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from infra.console.displayed import heading
from infra.console.displayed import table as table_of
from infra.errors import UserError
from infra.keywords import explained_keywords
from infra.schemas import TABLES, conform
from kg.encoding import IntArray, code_of, encode_sets, is_increasing, places_of

ENTITIES_FILE, TRIPLES_FILE = "entities.parquet", "triples.parquet"
MOST_SHOWN = 10
"""Types and relations that a notebook shows, the most frequent first."""
OUT, IN = 1, -1
"""Directions: the entity is the head of the triple, or its tail."""


class Adjacency(NamedTuple):
    """The triples around every entity: those of entity i are at [offsets[i], offsets[i + 1]).

    Triples with i as head come first, up to middles[i], then those with i as tail; a self-loop is in both.
    """

    offsets: npt.NDArray[np.int64]
    middles: npt.NDArray[np.int64]
    neighbours: IntArray
    relations: IntArray
    directions: npt.NDArray[np.int8]


class KnowledgeGraph:
    """Entities with names, aliases, types and sources, and distinct triples with their sources.

    Attributes:
        entities: Arrow table `kg_entities` (infra/schemas.py), sorted by entity_id.
        relation_names: names of the relations, sorted.
        heads, relations, tails: int32, one element per triple; indices of entities and relations.
        source_sets: distinct sets of sources, each sorted.
        triple_source_sets: int32, one element per triple; its index in `source_sets`.
    """

    def __init__(
        self,
        entities: pa.Table,
        relation_names: Sequence[str],
        heads: npt.ArrayLike,
        relations: npt.ArrayLike,
        tails: npt.ArrayLike,
        source_sets: Sequence[tuple[str, ...]] = ((),),
        triple_source_sets: npt.ArrayLike | None = None,
    ) -> None:
        """Take arrays that are already distinct and sorted; `from_triples` and `from_tables` accept any order.

        Raises:
            ValueError: the ids or relation names are not sorted and distinct, or an index is out of range.
        """
        self.entities = conform(entities, "kg_entities")
        self.relation_names = list(relation_names)
        self.heads, self.relations, self.tails = (np.asarray(column, np.int32) for column in (heads, relations, tails))
        self.source_sets = list(source_sets)
        if triple_source_sets is None:
            triple_source_sets = np.zeros(len(self.heads))
        self.triple_source_sets = np.asarray(triple_source_sets, np.int32)
        self._check()

    def _check(self) -> None:
        ids = pl.Series(self.entities["entity_id"])
        if not (ids[1:] > ids[:-1]).all():
            raise ValueError("entity ids must be distinct and sorted")
        if self.relation_names != sorted(set(self.relation_names)):
            raise ValueError("relation names must be distinct and sorted")
        columns = {
            "heads": (self.heads, self.num_entities),
            "relations": (self.relations, self.num_relations),
            "tails": (self.tails, self.num_entities),
            "triple_source_sets": (self.triple_source_sets, len(self.source_sets)),
        }
        for name, (column, end) in columns.items():
            if len(column) != self.num_triples:
                raise ValueError(f"{name} has {len(column)} elements, heads {self.num_triples}")
            if len(column) and not 0 <= column.min() <= column.max() < end:
                raise ValueError(f"{name} must be between 0 and {end - 1}")
        if not is_increasing(self.heads, self.relations, self.tails):
            raise ValueError("triples must be distinct and sorted by head, relation, tail")

    @classmethod
    @explained_keywords
    def from_triples(
        cls,
        triples: Iterable[tuple[str, str, str]],
        *,
        source: str = "",
        types: Mapping[str, str] | None = None,
        aliases: Mapping[str, Sequence[str]] | None = None,
    ) -> KnowledgeGraph:
        """Return a graph of named triples (head, relation, tail), in which an entity's id is its name.

        Equal triples count once. `types` and `aliases` are by name; names without triples become entities too. Names
        are not changed; a missing end (None) becomes the empty name, which fusion rejects. Time grows with n log n.

        Raises:
            UserError: a triple of another number of names, or with a name that is not text; the message has its place.
        """
        triples = list(triples)
        for place, one in enumerate(triples):
            if len(one) != 3:
                raise UserError(f"Triple {place} has {len(one)} names: {one!r}. Give (head, relation, tail).")
            if not all(name is None or isinstance(name, str) for name in one):
                raise UserError(f"Triple {place} has a name that is not text: {one!r}. Give names as text.")
        for parameter, given in (("types", types), ("aliases", aliases)):
            if given is not None and not isinstance(given, Mapping):
                raise UserError(f"{parameter} is {type(given).__name__} and no mapping. Give it by name.")
        columns = list(zip(*triples, strict=True)) or [(), (), ()]
        frame = pl.DataFrame(dict(zip(("head", "relation", "tail"), columns, strict=True)), schema=_NAMED)
        return cls.from_frame(frame.fill_null(""), source=source, types=types, aliases=aliases)

    @classmethod
    def from_frame(
        cls,
        frame: pl.DataFrame,
        *,
        source: str = "",
        types: Mapping[str, str] | None = None,
        aliases: Mapping[str, Sequence[str]] | None = None,
    ) -> KnowledgeGraph:
        """As `from_triples`, from a frame with the columns head, relation, tail, and optionally head_type, tail_type.

        The first three have no nulls. A name with several types in these columns gets the most frequent one, and of
        equally frequent ones the first in order of name. `types` takes precedence.
        """
        types, aliases = types or {}, aliases or {}
        extra = pl.Series("name", [*types, *aliases], pl.String)
        names = pl.concat([frame["head"], frame["tail"], extra]).rename("name").unique().sort()
        relation_names = frame["relation"].unique().sort()
        coded = (
            frame.select(code_of("head", names), code_of("relation", relation_names), code_of("tail", names))
            .unique()
            .sort("head", "relation", "tail")
        )
        known = _types_of(frame)
        name_list = names.to_list()
        sources = [source] if source else []
        entities = {
            "entity_id": name_list,
            "name": name_list,
            "aliases": [sorted(set(aliases.get(name, ()))) for name in name_list] if aliases else [[]] * len(names),
            "type": [types.get(name) or known.get(name, "") for name in name_list],
            "sources": [sources] * len(names),
        }
        return cls(
            pa.table(entities, TABLES["kg_entities"]),
            relation_names.to_list(),
            coded["head"],
            coded["relation"],
            coded["tail"],
            [tuple(sources)],
        )

    @classmethod
    def from_tables(cls, entities: pa.Table, triples: pa.Table) -> KnowledgeGraph:
        """Return the graph of the tables `kg_entities` and `kg_triples`; rows may be in any order, triples distinct.

        Raises:
            UserError: an id or a triple is repeated, or a triple names an entity that is not in the table.
        """
        entities = entities.sort_by("entity_id")
        ids = pl.Series(entities["entity_id"])
        if ids.n_unique() != len(ids):
            raise UserError(f"Entity {ids.filter(ids.is_duplicated())[0]!r} occurs twice in kg_entities.")
        relation_names = pl.Series(triples["relation"].unique().cast(pa.string())).sort()
        coded = {"head": ids, "relation": relation_names, "tail": ids}
        columns = [places_of(triples[name], known) for name, known in coded.items()]
        for name, column in zip(coded, columns, strict=True):
            unknown = np.flatnonzero(column < 0)
            if len(unknown):
                value = triples[name][int(unknown[0])].as_py()
                raise UserError(f"The {name} {value!r} in kg_triples is not in kg_entities.")
        sets, set_codes = encode_sets(triples["sources"])
        columns.append(set_codes)
        if not is_increasing(*columns[:3]):
            order = np.lexsort(columns[2::-1])
            columns = [column[order] for column in columns]
        heads, relations, tails, triple_sets = columns
        try:
            return cls(entities, relation_names.to_list(), heads, relations, tails, sets, triple_sets)
        except ValueError as error:
            raise UserError(f"kg_entities and kg_triples do not form a graph: {error}.") from error

    @classmethod
    def load(cls, folder: str | Path) -> KnowledgeGraph:
        """Read what `save` wrote, through memory maps.

        Raises:
            UserError: a file is missing or is not the table expected there.
        """
        read = []
        for file, table in ((ENTITIES_FILE, "kg_entities"), (TRIPLES_FILE, "kg_triples")):
            path = Path(folder, file)
            try:
                dictionaries = ["head", "relation", "tail"] if table == "kg_triples" else []
                read.append(pq.read_table(path, memory_map=True, read_dictionary=dictionaries))
                missing = set(TABLES[table].names) - set(read[-1].column_names)
            except (OSError, pa.ArrowException) as error:
                raise UserError(f"{path} cannot be read as a table {table} ({error}). Save the graph again.") from error
            if missing:
                raise UserError(f"{path} lacks the columns {sorted(missing)} of the table {table}.")
        return cls.from_tables(*read)

    def save(self, folder: str | Path) -> None:
        """Write entities.parquet and triples.parquet into a folder, which is created if needed."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        pq.write_table(self.entities, Path(folder, ENTITIES_FILE), compression="zstd")
        pq.write_table(self.id_triples(), Path(folder, TRIPLES_FILE), compression="zstd")

    @property
    def num_entities(self) -> int:
        return int(self.entities.num_rows)

    @property
    def num_relations(self) -> int:
        return len(self.relation_names)

    @property
    def num_triples(self) -> int:
        return len(self.heads)

    @functools.cached_property
    def entity_ids(self) -> list[str]:
        """Ids, sorted; an entity's index is its place in this list."""
        return list(self.entities["entity_id"].to_pylist())

    @functools.cached_property
    def names(self) -> list[str]:
        """Names by index."""
        return list(self.entities["name"].to_pylist())

    @functools.cached_property
    def aliases(self) -> list[list[str]]:
        """Sorted other names by index."""
        return list(self.entities["aliases"].to_pylist())

    @functools.cached_property
    def types(self) -> list[str]:
        """Types by index; empty where unknown."""
        return list(self.entities["type"].to_pylist())

    def index_of(self, entity_id: str) -> int:
        """Return the index of an entity, in O(log n).

        Raises:
            KeyError: no entity has this id.
        """
        index = bisect_left(self.entity_ids, entity_id)
        if index == self.num_entities or self.entity_ids[index] != entity_id:
            raise KeyError(entity_id)
        return index

    @functools.cached_property
    def adjacency(self) -> Adjacency:
        """The triples around every entity, in both directions; built on first use in O(n log n)."""
        # Every triple counts twice: once around its head, once around its tail. The sort is stable, so outgoing
        # triples stay before incoming ones.
        around = np.concatenate([self.heads, self.tails])
        order = np.argsort(around, kind="stable")
        out_degrees = np.bincount(self.heads, minlength=self.num_entities)
        degrees = out_degrees + np.bincount(self.tails, minlength=self.num_entities)
        offsets = np.concatenate([[0], np.cumsum(degrees)])
        return Adjacency(
            offsets=offsets,
            middles=offsets[:-1] + out_degrees,
            neighbours=np.concatenate([self.tails, self.heads])[order],
            relations=np.concatenate([self.relations, self.relations])[order],
            directions=np.where(order < self.num_triples, OUT, IN).astype(np.int8),
        )

    def neighbours(self, index: int) -> tuple[IntArray, IntArray, npt.NDArray[np.int8]]:
        """Return (neighbours, relations, directions) of the triples around an entity: views, in constant time.

        Outgoing triples (+1) come first, by relation and tail, then incoming ones (-1), by head and relation.
        Parallel edges and both ends of a self-loop are separate elements.

        Raises:
            IndexError: no entity has this index.
        """
        if not 0 <= index < self.num_entities:
            raise IndexError(f"entity {index} of {self.num_entities}")
        around = self.adjacency
        place = slice(around.offsets[index], around.offsets[index + 1])
        return around.neighbours[place], around.relations[place], around.directions[place]

    def triples(self) -> pa.Table:
        """Return a table (head, relation, tail, sources) with the names of both ends, in the order of the arrays."""
        return self._triples("name")

    def id_triples(self) -> pa.Table:
        """As `triples`, with the ids of both ends: the table `kg_triples`."""
        return conform(self._triples("entity_id"), "kg_triples")

    def _triples(self, column: str) -> pa.Table:
        ends = self.entities[column].combine_chunks()
        sets = pa.array([list(names) for names in self.source_sets], TABLES["kg_triples"].field("sources").type)
        return pa.table(
            {
                "head": ends.take(pa.array(self.heads)),
                "relation": pa.array(self.relation_names, pa.string()).take(pa.array(self.relations)),
                "tail": ends.take(pa.array(self.tails)),
                "sources": sets.take(pa.array(self.triple_source_sets)),
            }
        )

    def __eq__(self, other: object) -> bool:
        """Compare entities and triples with all their columns."""
        if not isinstance(other, KnowledgeGraph):
            return NotImplemented
        return self.entities.equals(other.entities) and self.id_triples().equals(other.id_triples())

    __hash__ = None  # type: ignore[assignment]  # contains arrays that a caller could change

    def _repr_html_(self) -> str:
        types = Counter(self.types).most_common(MOST_SHOWN)
        relations = np.bincount(self.relations, minlength=self.num_relations)
        most = np.argsort(-relations, kind="stable")[:MOST_SHOWN].tolist()
        return (
            heading(self)
            + table_of(("type", "entities"), [(name or "(none)", count) for name, count in types])
            + table_of(("relation", "triples"), [(self.relation_names[one], int(relations[one])) for one in most])
        )

    def __repr__(self) -> str:
        return (
            f"KnowledgeGraph({self.num_entities:,} entities, {self.num_relations:,} relations, "
            f"{self.num_triples:,} triples)"
        )


_NAMED = {"head": pl.String, "relation": pl.String, "tail": pl.String}


def _types_of(frame: pl.DataFrame) -> dict[str, str]:
    """Return the most frequent type of each name in the columns head_type and tail_type."""
    ends = [frame.select(name=end, type=f"{end}_type") for end in ("head", "tail") if f"{end}_type" in frame.columns]
    if not ends:
        return {}
    votes = pl.concat(ends).filter(pl.col("type").fill_null("") != "").group_by("name", "type").len()
    chosen = votes.sort("name", "len", "type", descending=[False, True, False]).unique("name", keep="first")
    return dict(chosen.select("name", "type").iter_rows())
