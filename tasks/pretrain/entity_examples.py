"""Stage `entity_examples`: sentence pairs with the entities in them, by their surfaces: EMBERT's rows.

The mentions that `encode` found become spans of tokens with the number of a surface of `entity_surfaces`. Which tokens
end a sub-entity, and which are the adjective and the atomic term, is a property of the surface: the rows need not
repeat it. Nor is anything replaced here: batches are, anew in each epoch.

Left out and counted are mentions whose tokens are those of no surface (the text spells the name in another way),
mentions that overlap another, and in training rows those of entities kept for evaluation.

Time grows with the tokens (benchmarks/training/embert.py), memory with a part and the surfaces.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra import schemas
from infra.arrays.ranges import ranges
from infra.artifacts import Artifact, ArtifactStore, Part, local_folder
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.objectives.embert.surfaces import EntitySurfaces

TABLES = {"pairs": "entity_examples", "held_out_pairs": "held_out_entity_examples"}
"""Tables that are read, and what is made of each."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Base of the hash of a sequence of tokens: an odd number, so that powers of it never vanish modulo 2^64."""


class EntityExamplesParams(StageParams):
    """No parameters."""


@stage(name="entity_examples", version=1, params=EntityExamplesParams, tables=tuple(TABLES.values()), heavy=True)
def entity_examples(inputs: Mapping[str, Artifact], params: EntityExamplesParams, out: Output) -> None:
    """Name the entities in `inputs["pairs"]` by their numbers in `inputs["entity_surfaces"]`.

    Raises:
        UserError: no row names an entity, because no entity vocabulary was linked when the text was encoded.
    """
    pairs, surfaces = inputs["pairs"], inputs["entity_surfaces"]
    out.map(examples_part, [part for table in TABLES for part in pairs.parts(table)], surfaces)
    if not out.counters()["entities"]:
        raise UserError(
            f"{pairs.path}: no row mentions an entity of {surfaces.path}. Encode the text with the entity vocabulary "
            "that the surfaces are of."
        )


def examples_part(part: PartWriter, pairs: Part, surfaces: Artifact) -> None:
    """Name the entities of one part."""
    known = _known((surfaces.store_root, surfaces.stage, surfaces.fingerprint))
    table = pairs.read()
    found = _entities(part, table, known, training=pairs.table == "pairs")
    columns = {name: table[name] for name in table.column_names if name not in ("mentions", "is_random")}
    part.write(TABLES[pairs.table], pa.table(columns | {"entities": found}))
    part.count("rows", len(table))
    part.count("rows_without_entity", int((pc.list_value_length(found).to_numpy() == 0).sum()))


@dataclass(frozen=True)
class _Known:
    """Surfaces, to be found by their tokens."""

    surfaces: EntitySurfaces
    hashes: np.ndarray
    """uint64 (F,) ascending."""
    order: np.ndarray
    """int64 (F,) surface of each hash."""

    def find(self, ids: np.ndarray, first: np.ndarray, behind: np.ndarray) -> np.ndarray:
        """Return the surface whose tokens are ids[first:behind] of each span; -1 for none."""
        if not len(first):
            return np.empty(0, dtype=np.int64)
        own = sequence_hashes(ids, first, behind)
        place = np.minimum(np.searchsorted(self.hashes, own), len(self.hashes) - 1)
        surface = self.order[place]
        alike = (self.hashes[place] == own) & (self.surfaces.lengths[surface] == behind - first)
        # Equal hashes are as good as never those of other tokens; they are compared all the same.
        begins, sizes = self.surfaces.borders[surface[alike]], (behind - first)[alike]
        if len(sizes):
            same = self.surfaces.ids[ranges(begins, begins + sizes)] == ids[ranges(first[alike], behind[alike])]
            alike[alike] = np.logical_and.reduceat(same, np.cumsum(sizes) - sizes)
        return np.where(alike, surface, -1)


def sequence_hashes(ids: np.ndarray, first: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """Return a hash of ids[first:behind] for each span, none of which is empty; uint64."""
    sizes = behind - first
    places = ranges(np.zeros_like(sizes), sizes)
    powers = np.multiply.accumulate(np.full(int(sizes.max()), _FACTOR))
    values = (ids[ranges(first, behind)].astype(np.uint64) + np.uint64(1)) * powers[places]
    return np.add.reduceat(values, np.cumsum(sizes) - sizes)


@functools.lru_cache(maxsize=1)
def _known(address: tuple[str, str, str]) -> _Known:
    root, name, fingerprint = address
    artifact = ArtifactStore(root).get(name, fingerprint)
    assert artifact is not None, "the caller holds it"
    surfaces = EntitySurfaces.open(local_folder(artifact))
    hashes = sequence_hashes(np.asarray(surfaces.ids), surfaces.borders[:-1], surfaces.borders[1:])
    order = np.argsort(hashes, kind="stable")
    return _Known(surfaces, hashes[order], order)


def _entities(part: PartWriter, table: pa.Table, known: _Known, *, training: bool) -> pa.ListArray:
    """Return the column `entities` of some pairs, and count what is left out."""
    lengths = pc.list_value_length(table["input_ids"]).to_numpy().astype(np.int64)
    ids = pc.list_flatten(table["input_ids"]).to_numpy()
    row = np.repeat(np.arange(len(table)), pc.list_value_length(table["mentions"]).to_numpy())
    offset = (np.cumsum(lengths) - lengths)[row]
    mentions = pc.list_flatten(table["mentions"])
    start, end = (pc.struct_field(mentions, name).to_numpy().astype(np.int64) for name in ("start", "end"))
    surface = known.find(ids, offset + start, offset + end)
    kept = np.flatnonzero(surface >= 0)
    left_out = {"other_spellings": len(surface) - len(kept)}
    apart = _apart((offset + start)[kept], (offset + end)[kept])
    left_out["overlapping"] = int((~apart).sum())
    kept = kept[apart]
    if training:
        unseen = known.surfaces.unseen[surface[kept]]
        left_out["kept_for_evaluation"] = int(unseen.sum())
        kept = kept[~unseen]
    number, joins = surface[kept], known.surfaces.joins
    replaceable = known.surfaces.group[number] >= 0
    beside = joins[ids[(offset + start)[kept] - 1]] | joins[ids[(offset + end)[kept]]]
    counts = left_out | {
        "entities": len(number),
        "long_entities": int((known.surfaces.pieces[number] > 1).sum()),
        "replaceable": int((replaceable & ~beside).sum()),
        "beside_letters": int((replaceable & beside).sum()),
    }
    for name, count in counts.items():
        if count:
            part.count(name, count)
    kind = schemas.TABLES["entity_examples"].field("entities").type
    columns = (start[kept].astype(np.uint16), end[kept].astype(np.uint16), number.astype(np.uint32))
    values = pa.StructArray.from_arrays([pa.array(one) for one in columns], fields=list(kind.value_type))
    borders = np.searchsorted(row[kept], np.arange(len(table) + 1))
    return pa.ListArray.from_arrays(pa.array(borders.astype(np.int32)), values, type=kind)


def _apart(first: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """bool: spans that begin behind all those before them; they are in the order of their first tokens."""
    reach = np.maximum.accumulate(np.concatenate([[0], behind]))[:-1] if len(first) else behind
    return first >= reach
