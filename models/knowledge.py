"""A knowledge graph as flat arrays, mapped read-only from the files of the stage `knowledge_arrays`.

Entities are rows: row e of every array is row e of the fused graph's table kg_entities, which mentions name. Processes
that open the same folder share one copy in memory, the page cache's, and only what is looked at is read from the disk.

    knowledge.json              format, the graph (stage and fingerprint), names of types and of relations
    entity_id_bytes.npy         uint8 (B,), UTF-8 of all ids, end to end
    entity_id_offsets.npy       int64 (E + 1,), where each id begins
    types.npy                   int32 (E,), place in the names of types; -1: unknown
    frequencies.npy             int64 (E,), mentions of the entity in the linked corpus
    neighbour_offsets.npy       int64 (E + 1,), where each entity's neighbours begin
    neighbours.npy              int32 (N,), rows of the neighbours, best PEPR score first
    scores.npy                  float32 (N,), their scores
    triple_offsets.npy          int64 (N + 1,), where the triples between the two begin
    relations.npy               int32 (P,), place in the names of relations
    directions.npy              int8 (P,): 1 where the entity is the head, -1 where the neighbour is
    entity_vectors.npy          float32 (E, D), TransR's; zeros for an entity without a vector
    has_vector.npy              bool (E,)
    relation_vectors.npy        float32 (R, C), in the relation's space
    projections.npy             float32 (R, D, C): e is M[r].T @ e in the space of relation r
    projected_norms.npy         float32 (R, E), the Euclidean norm of each entity's vector in the space of each relation

Shape legend: E entities, N pairs of an entity and a neighbour, P triples between them, R relations, D width of an
entity's vector, C of a relation's, M entities that are looked up, K neighbours that are found.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from infra.errors import UserError

FORMAT = 2
"""Version of the layout, raised whenever the meaning of a file changes."""
DESCRIPTION = "knowledge.json"

KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "entity_id_bytes": ("uint8", ("B",)),
    "entity_id_offsets": ("int64", ("E+1",)),
    "types": ("int32", ("E",)),
    "frequencies": ("int64", ("E",)),
    "neighbour_offsets": ("int64", ("E+1",)),
    "neighbours": ("int32", ("N",)),
    "scores": ("float32", ("N",)),
    "triple_offsets": ("int64", ("N+1",)),
    "relations": ("int32", ("P",)),
    "directions": ("int8", ("P",)),
    "entity_vectors": ("float32", ("E", "D")),
    "has_vector": ("bool", ("E",)),
    "relation_vectors": ("float32", ("R", "C")),
    "projections": ("float32", ("R", "D", "C")),
    "projected_norms": ("float32", ("R", "E")),
}
"""By name, the type of each array and its shape in the letters of the legend."""


class Neighbours(NamedTuple):
    """Neighbours of some entities, end to end, with the first triple that joins each to its entity."""

    offsets: np.ndarray
    """int64 (M + 1,): those of entity i are at [offsets[i], offsets[i + 1])."""
    entities: np.ndarray
    """int64 (K,): their rows."""
    relations: np.ndarray
    """int64 (K,)."""
    directions: np.ndarray
    """int64 (K,): 1 where the entity is the head, -1 where the neighbour is."""
    places: np.ndarray
    """int64 (K,): their places among the neighbours of all entities."""


@dataclass(frozen=True, eq=False)
class KnowledgeArrays:
    """All arrays of a graph, described at the head of this file; none can be written to."""

    entity_id_bytes: np.ndarray
    entity_id_offsets: np.ndarray
    types: np.ndarray
    frequencies: np.ndarray
    neighbour_offsets: np.ndarray
    neighbours: np.ndarray
    scores: np.ndarray
    triple_offsets: np.ndarray
    relations: np.ndarray
    directions: np.ndarray
    entity_vectors: np.ndarray
    has_vector: np.ndarray
    relation_vectors: np.ndarray
    projections: np.ndarray
    projected_norms: np.ndarray
    type_names: tuple[str, ...]
    relation_names: tuple[str, ...]
    graph: tuple[str, str]
    """Stage and fingerprint of the graph whose rows the entities are."""

    @classmethod
    def open(cls, folder: str | Path) -> KnowledgeArrays:
        """Map the arrays of a folder, and check that they fit together.

        Time and memory: the integers are read once (about 100 MB for SMedBERT's graph); vectors are only mapped.

        Raises:
            UserError: a file is missing or is not the array expected there; the message names it.
        """
        folder = Path(folder)
        described = _description(folder)
        arrays = {name: _mapped(folder / f"{name}.npy") for name in KINDS}
        found = cls(
            **arrays,
            type_names=tuple(described["types"]),
            relation_names=tuple(described["relations"]),
            graph=(described["graph"]["stage"], described["graph"]["fingerprint"]),
        )
        found._check(folder)
        return found

    @property
    def num_entities(self) -> int:
        """Number of entities, E."""
        return len(self.types)

    def entity_id(self, row: int) -> str:
        """Return the id of an entity."""
        first, end = self.entity_id_offsets[row : row + 2]
        return self.entity_id_bytes[first:end].tobytes().decode()

    def best(self, entities: np.ndarray, k: int) -> Neighbours:
        """Return the best `k` neighbours of each entity, or all where there are fewer.

        The triple between the two is the first of the stage `neighbours`: the entity as its head before the entity as
        its tail, then the relation with more triples in the graph, then by name. All triples of neighbour place n are
        at [triple_offsets[n], triple_offsets[n + 1]) of `relations` and `directions`.

        Args:
            entities: integers (M,), rows.
            k: maximum number of neighbours per entity.

        Time and memory grow with the neighbours that are found.
        """
        firsts = self.neighbour_offsets[entities]
        sizes = np.minimum(self.neighbour_offsets[np.asarray(entities) + 1] - firsts, k)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(firsts - offsets[:-1], sizes) + np.arange(offsets[-1])
        triples = self.triple_offsets[places]
        columns = self.neighbours[places], self.relations[triples], self.directions[triples], places
        return Neighbours(offsets, *(column.astype(np.int64) for column in columns))

    def _check(self, folder: Path) -> None:
        """Compare types, shapes and contents of the arrays with the layout."""
        sizes = {"R": len(self.relation_names)}
        for name, (kind, letters) in KINDS.items():
            array = getattr(self, name)
            shape = array.shape if array.ndim == len(letters) else ()
            for letter, length in zip(letters, shape, strict=bool(shape)):
                letter, plus, _ = letter.partition("+")
                known = sizes.setdefault(letter, length - bool(plus))
                if known + bool(plus) != length:
                    shape = ()
            if array.dtype != kind or not shape:
                raise _misfit(folder, name, f"{array.dtype} {array.shape} instead of {kind} ({', '.join(letters)})")
        for name, length in (("entity_id", "B"), ("neighbour", "N"), ("triple", "P")):
            offsets = getattr(self, f"{name}_offsets")
            if offsets[0] != 0 or offsets[-1] != sizes[length] or (np.diff(offsets) < 0).any():
                raise _misfit(folder, f"{name}_offsets", f"it does not divide {sizes[length]:,} entries")
        for name, limit, least in (
            ("neighbours", sizes["E"], 0),
            ("relations", sizes["R"], 0),
            ("types", len(self.type_names), -1),
        ):
            values = getattr(self, name)
            if values.min(initial=least) < least or values.max(initial=least) >= max(limit, least + 1):
                raise _misfit(folder, name, f"it points outside of {limit:,} entries")
        if (np.diff(self.triple_offsets) < 1).any():
            raise _misfit(folder, "triple_offsets", "a neighbour is joined by no triple")


_ARRAYS = {one.name for one in fields(KnowledgeArrays)} & set(KINDS)
assert set(KINDS) == _ARRAYS, "every array has a field"


def _description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    try:
        described: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no {DESCRIPTION}: it is not a folder of knowledge arrays. Give an artifact of the stage "
            "knowledge_arrays."
        ) from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {error}. Make the knowledge arrays again.") from error
    if described.get("format") != FORMAT:
        raise UserError(
            f"{path} has format {described.get('format')}; this program reads format {FORMAT}. Make the knowledge "
            "arrays again."
        )
    return described


def _mapped(path: Path) -> np.ndarray:
    try:
        # `asarray`: plain arrays over the same mapped pages, which are faster to index than numpy's memmap.
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be mapped: {error}. Make the knowledge arrays again.") from error


def _misfit(folder: Path, name: str, problem: str) -> UserError:
    return UserError(f"{folder / f'{name}.npy'} does not fit the other arrays: {problem}. Make them again.")
