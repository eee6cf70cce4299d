"""Stages `link` and `entity_frequencies`: entities found in a corpus by their names, and how often each occurs.

A part of segments (or of documents) becomes a part of mentions and a part of counts. The second stage adds up the
counts, so the result does not depend on the number of workers. Before them, `unambiguous_counts` counts the entities
that are mentioned by names of their own. From the sums `link` learns which of several entities that share a name is the
frequent one. `entity_linker` gives other stages the same linker, `entity_rows` the rows of what it finds.

Time grows with the characters (about 30 MB of text per second and core, benchmarks/knowledge/linking.py), memory with
one part and the names, about 700 bytes each. A worker builds the linker once, in 10 µs per name. Stage
`entity_frequencies` is one process, which holds the entities that occur, some 770 bytes each: 10 million in 8 GB.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from infra import schemas
from infra.arrays.batching import batches_of
from infra.artifacts import Artifact, ArtifactStore, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from kg.linking.linker import EntityLinker, Mentions

CHARACTERS_AT_ONCE = 1 << 20
"""Characters per batch. With fewer, the fixed cost of a batch would show."""

TypePriors = dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]]
"""Weight of each entity type where entities share a name; 1 for types without one."""


class LinkParams(StageParams):
    """Choice between entities that share a name, beside their frequencies."""

    type_priors: TypePriors = Field(
        default={}, description="weight of each entity type where entities share a name; by default 1"
    )


class UnambiguousCountsParams(StageParams):
    """No parameters."""


class EntityFrequenciesParams(StageParams):
    """No parameters."""


@stage(name="link", version=3, params=LinkParams, tables=("mentions", "mention_counts"), heavy=True)
def link(inputs: Mapping[str, Artifact], params: LinkParams, out: Output) -> None:
    """Link `inputs["segments"]`, or `inputs["documents"]`, to the entities of `inputs["entities"]`.

    The entities are a table `entities` or `kg_entities`. `inputs["entity_frequencies"]`, of the stage of that name,
    helps to choose between entities that share a name.

    Raises:
        UserError: there are no entities, or none of their names can be linked.
    """
    entities, frequencies = inputs["entities"], inputs.get("entity_frequencies")
    linker = entity_linker(entities, params.type_priors, frequencies)
    out.count("surfaces", linker.num_surfaces)
    out.count("ambiguous_surfaces", linker.num_ambiguous)
    out.count("names_left_out", linker.num_left_out)
    out.map(link_part, _parts(inputs), params, entities, frequencies)


def link_part(
    part: PartWriter, texts: Part, params: LinkParams, entities: Artifact, frequencies: Artifact | None
) -> None:
    """Link one part of segments or documents."""
    linker = entity_linker(entities, params.type_priors, frequencies)
    rows = _rows(texts)
    counts = _Counts(linker, rows)
    for found in _mentions(linker, rows):
        part.write("mentions", _mention_rows(found, rows["segment_id"], id_array(linker)))
        counts.add(found.texts, found.entities)
        part.count("linked_characters", int((found.ends - found.starts).sum()))
    part.write("mention_counts", counts.table())
    part.count(texts.table, len(rows))
    part.count("characters", pc.sum(pc.utf8_length(rows["text"]), min_count=0).as_py())
    part.count("mentions", int(counts.counts.sum()))


@stage(name="unambiguous_counts", version=2, params=UnambiguousCountsParams, tables=("mention_counts",), heavy=True)
def unambiguous_counts(inputs: Mapping[str, Artifact], params: UnambiguousCountsParams, out: Output) -> None:
    """Count mentions of the entities of `inputs["entities"]` by names that no other entity has, in texts as for `link`.

    If no name is shared, the counts would decide nothing: there are none, and the counter `ambiguous_surfaces` is 0.

    Raises:
        UserError: as `link`.
    """
    ambiguous = entity_linker(inputs["entities"], {}).num_ambiguous
    out.count("ambiguous_surfaces", ambiguous)
    out.map(count_part, _parts(inputs) if ambiguous else [], inputs["entities"])


def count_part(part: PartWriter, texts: Part, entities: Artifact) -> None:
    """Count in one part. Shared names are searched for too: a shorter name inside one must not be counted."""
    linker = entity_linker(entities, {})
    rows = _rows(texts)
    counts = _Counts(linker, rows)
    for found in _mentions(linker, rows):
        counts.add(found.texts[~found.shared], found.entities[~found.shared])
        part.count("ambiguous_mentions", int(found.shared.sum()))
    part.write("mention_counts", counts.table())


@stage(name="entity_frequencies", version=1, params=EntityFrequenciesParams, tables=("entity_frequencies",), heavy=True)
def entity_frequencies(inputs: Mapping[str, Artifact], params: EntityFrequenciesParams, out: Output) -> None:
    """Add up the counts of `inputs["links"]`, from `link` or `unambiguous_counts`: one row per entity found, by id."""
    counts = inputs["links"].scan("mention_counts")
    with out.part() as part:
        summed = counts.group_by("entity_id").agg(pl.col("count").sum(), pl.col("documents").sum()).collect()
        part.write("entity_frequencies", summed.sort("entity_id").to_arrow())
        part.count("entities", len(summed))


class _Counts:
    """Counts of a linker's entities in some texts: mentions, and documents with a mention."""

    def __init__(self, linker: EntityLinker, rows: pa.Table) -> None:
        self._ids = id_array(linker)
        self._documents = rows["doc_id"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        self._pairs = [np.empty(0, np.int64)]
        self.counts = np.zeros(len(self._ids), dtype=np.int64)

    def add(self, texts: np.ndarray, entities: np.ndarray) -> None:
        self.counts += np.bincount(entities, minlength=len(self._ids))
        # One number per pair of document and entity, so that distinct pairs are distinct numbers.
        self._pairs.append(self._documents[texts] * len(self._ids) + entities)

    def table(self) -> pa.Table:
        """Return the counts as the table `entity_frequencies` of infra/schemas.py."""
        ordered = np.sort(np.concatenate(self._pairs))
        distinct = ordered[np.diff(ordered, prepend=-1) != 0]
        documents = np.bincount(distinct % len(self._ids), minlength=len(self._ids))
        occurring = np.flatnonzero(self.counts)
        columns = [self._ids.take(pa.array(occurring)), *(pa.array(a[occurring]) for a in (self.counts, documents))]
        return pa.Table.from_arrays(columns, schema=schemas.ENTITY_FREQUENCIES)


def _parts(inputs: Mapping[str, Artifact]) -> list[Part]:
    table = "segments" if "segments" in inputs else "documents"
    return inputs[table].parts(table)


def _rows(texts: Part) -> pa.Table:
    """Return the columns segment_id, doc_id and text; a document is its own segment."""
    # A column cannot be read twice, but it can be selected twice.
    names = ["segment_id", "doc_id", "text"] if texts.table == "segments" else ["doc_id", "doc_id", "text"]
    return texts.read(columns=sorted(set(names))).select(names).rename_columns(["segment_id", "doc_id", "text"])


def _mentions(linker: EntityLinker, rows: pa.Table) -> Iterator[Mentions]:
    """Yield the mentions in the texts of some rows, batch by batch."""
    sizes = pc.utf8_length(rows["text"]).to_pylist()
    for batch in batches_of(range(len(sizes)), CHARACTERS_AT_ONCE, length=sizes.__getitem__):
        found = linker.link_many(rows["text"].slice(batch[0], len(batch)).to_pylist())
        yield found._replace(texts=found.texts + batch[0])


def _mention_rows(found: Mentions, segment_ids: pa.ChunkedArray, ids: pa.Array) -> pa.Table:
    return pa.Table.from_arrays(
        [
            segment_ids.take(pa.array(found.texts)),
            pa.array(found.starts.astype(np.uint32)),
            pa.array(found.ends.astype(np.uint32)),
            ids.take(pa.array(found.entities)),
        ],
        schema=schemas.MENTIONS,
    )


def entity_linker(
    entities: Artifact, type_priors: Mapping[str, float], frequencies: Artifact | None = None
) -> EntityLinker:
    """Return the linker for the names and aliases of an artifact's table `entities` or `kg_entities`.

    An entity's frequency is that of the table `entity_frequencies`. Without that table it is the sum of the column
    `frequency` over the entity's rows, if there is such a column. The last linker is cached for the next parts.

    Raises:
        UserError: the artifact has no such table, or none of the names can be linked.
    """
    return _linked_table(entities, type_priors, frequencies).linker


def entity_rows(
    entities: Artifact, type_priors: Mapping[str, float], frequencies: Artifact | None = None
) -> np.ndarray:
    """Return where the table has the name that each of `entity_linker`'s forms stands for: int64 (forms, 2).

    The first column is the row, counted from 0. The second is the number of the name in the row: 0 for `name`, i for
    the i-th alias; always 0 in the table `entities`, where a row has one name. If an entity has several names of one
    form (ＭＲＩ and MRI), it is the first of them.

    Raises:
        UserError: as `entity_linker`, or an entity has more aliases than a mention can number.
    """
    return _linked_table(entities, type_priors, frequencies).places


def entity_types(
    entities: Artifact, type_priors: Mapping[str, float], frequencies: Artifact | None = None
) -> np.ndarray:
    """Return the type of each row of the table, text. Raises `UserError` as `entity_linker` does."""
    return _linked_table(entities, type_priors, frequencies).types


@functools.lru_cache(maxsize=1)
def id_array(linker: EntityLinker) -> pa.Array:
    """Return the ids of a linker's entities as a column to take from."""
    return pa.array(linker.entity_ids, pa.string())


class _LinkedTable(NamedTuple):
    """The linker of a table, the row and number of the name behind each of its forms, and the type of each row."""

    linker: EntityLinker
    places: np.ndarray
    types: np.ndarray


class _Names(NamedTuple):
    """All names of a table, and where they occur in it."""

    entities: dict[str, str | set[str]]
    """The entity, or the entities, that have each name."""
    owners: list[str]
    """The entity of each row."""
    occurrences: np.ndarray
    """int64 (N, 3), in the order of the table: row, number in the row, and index of the name in `entities`."""


def _linked_table(entities: Artifact, type_priors: Mapping[str, float], frequencies: Artifact | None) -> _LinkedTable:
    addresses = tuple(
        (artifact.store_root, artifact.stage, artifact.fingerprint)
        for artifact in (entities, frequencies)
        if artifact is not None
    )
    return _link_table(addresses, tuple(sorted(type_priors.items())))


@functools.lru_cache(maxsize=1)
def _link_table(
    addresses: tuple[tuple[str, str, str], ...], type_priors: tuple[tuple[str, float], ...]
) -> _LinkedTable:
    entities, *others = (ArtifactStore(root).get(stage, fingerprint) for root, stage, fingerprint in addresses)
    assert entities is not None, "the caller holds it"
    table = next((name for name in ("entities", "kg_entities") if name in entities.manifest.tables), None)
    if table is None:
        raise UserError(f"{entities.path} has no entities to link: it needs a table entities or kg_entities.")
    rows = entities.scan(table).collect()
    names = _names(rows)
    types = dict(rows.select("entity_id", "type").iter_rows())
    frequencies: Counter[str] = Counter()
    if "frequency" in rows.columns:
        frequencies.update(dict(rows.group_by("entity_id").agg(pl.col("frequency").sum()).iter_rows()))
    for counted in filter(None, others):
        frequencies = Counter(dict(counted.scan("entity_frequencies").select("entity_id", "count").collect().rows()))
    linker = EntityLinker(names.entities, types, dict(type_priors), frequencies)
    if not linker.num_surfaces:
        raise UserError(
            f"{entities.path}: none of the {len(names.entities):,} names in table {table} can be linked. A name needs "
            "two characters or more, and not only digits or punctuation. Give entities with such names."
        )
    places = _places(linker, names)
    if places[:, 1].max() > np.iinfo(np.uint16).max:
        row = int(places[places[:, 1].argmax(), 0])
        raise UserError(
            f"{entities.path}: entity {rows['entity_id'][row]!r} in table {table} has more than 65,535 aliases. Remove "
            "those that are not names of it."
        )
    return _LinkedTable(linker, places, rows["type"].to_numpy().astype(str))


def _names(rows: pl.DataFrame) -> _Names:
    # The table entities has a row per surface, kg_entities a row per entity with all its names.
    several = "surface" not in rows.columns
    named = pl.concat_list(pl.concat_list("name"), "aliases").alias("surface") if several else pl.col("surface")
    exploded = rows.select("entity_id", named).with_row_index("row")
    if several:
        exploded = exploded.explode("surface")
    exploded = exploded.with_columns(place=pl.int_range(pl.len()).over("row") if several else pl.lit(0))
    names, owners = exploded["surface"].to_list(), exploded["entity_id"].to_list()
    entities: dict[str, str | set[str]] = {}
    for name, entity in zip(names, owners, strict=True):
        held = entities.setdefault(name, entity)
        if isinstance(held, set):
            held.add(entity)
        elif held != entity:
            entities[name] = {held, entity}
    numbers = dict(zip(entities, range(len(entities)), strict=True))
    columns = (
        exploded["row"].to_numpy(),
        exploded["place"].to_numpy(),
        np.fromiter(map(numbers.__getitem__, names), np.int64, len(names)),
    )
    return _Names(entities, rows["entity_id"].to_list(), np.stack(columns, axis=1).astype(np.int64))


def _places(linker: EntityLinker, names: _Names) -> np.ndarray:
    """Return for each form the first occurrence of a name with it in a row of the entity that it is linked to."""
    index = {entity: number for number, entity in enumerate(linker.entity_ids)}
    owners = np.fromiter((index[entity] for entity in names.owners), np.int64, len(names.owners))
    rows, _, numbers = names.occurrences.T
    forms = linker.forms[numbers]
    linked = np.flatnonzero((forms >= 0) & (linker.entities[forms] == owners[rows]))
    _, first = np.unique(forms[linked], return_index=True)
    return names.occurrences[linked[first], :2]
