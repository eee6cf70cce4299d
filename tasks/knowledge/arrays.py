"""Stage `knowledge_arrays`: what a model reads of a graph, as flat arrays that all processes of a node map.

models/knowledge.py describes the files. Rows are those of the graph's table kg_entities, so that mentions which were
linked to the graph (`encode`) are rows of these arrays. Every triple between an entity and a neighbour is kept, in the
order of the stage `neighbours`: a model that wants one takes the first.

TransR gives every entity a vector, but never learns that of an entity without triples: it counts as none.

Time grows with the entities, the neighbours and their triples, and with entities × relations × the width of vectors
squared for the norms of projected vectors; memory with the first three. Parts are read one after the other; vectors go
straight to their file, so that one part, the ids and the integers of all neighbours are in memory: 928 MiB at most in
the process for a random graph of SMedBERT's size (benchmarks/knowledge/arrays.py). The files, with room for two copies,
are written to the folder for temporary files before they go to the store.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra.artifacts import Artifact, ArtifactStore, InputRecord
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.knowledge import DESCRIPTION, FORMAT, KINDS

ROWS_AT_ONCE = 65_536
"""Vectors that are projected at a time."""


class KnowledgeArraysParams(StageParams):
    """No parameters: the neighbours are those of the stage `neighbours`, the vectors those of `kg_embeddings`."""


@stage(name="knowledge_arrays", version=2, params=KnowledgeArraysParams)
def knowledge_arrays(inputs: Mapping[str, Artifact], params: KnowledgeArraysParams, out: Output) -> None:
    """Write the arrays of `inputs["graph"]`, an artifact with the tables kg_entities and kg_triples.

    `inputs["neighbours"]`, `inputs["embeddings"]` and `inputs["entity_frequencies"]` are of the stages neighbours,
    kg_embeddings and entity_frequencies, all of this graph.

    Raises:
        UserError: one of them is of another graph, or lists an entity or a relation that the graph lacks.
    """
    graph = inputs["graph"]
    _check_graph(inputs, out.store)
    ids, types = _entities(graph)
    names = _Names(ids, _distinct(types), *_relations(graph, ids))
    with tempfile.TemporaryDirectory(prefix="yiwen-knowledge-") as temporary:
        folder = Path(temporary)
        _save(folder, "entity_id_bytes", _bytes_of(ids))
        _save(folder, "entity_id_offsets", np.concatenate([[0], np.cumsum(pc.binary_length(ids).to_numpy())]))
        type_rows = _places(types, names.types, None)
        _save(folder, "types", type_rows)
        frequencies = _frequencies(inputs["entity_frequencies"], ids)
        _save(folder, "frequencies", frequencies)
        degrees = _write_neighbours(folder, inputs["neighbours"], names)
        has_vector = _write_vectors(folder, inputs["embeddings"], names)
        _write_norms(folder)
        described = {
            "format": FORMAT,
            "graph": {"stage": graph.stage, "fingerprint": graph.fingerprint},
            "types": names.types.to_pylist(),
            "relations": names.relations.to_pylist(),
        }
        (folder / DESCRIPTION).write_text(json.dumps(described, ensure_ascii=False, indent=1), encoding="utf-8")
        out.add_folder(folder)
    out.count("entities", len(ids))
    out.count("types", len(names.types))
    out.count("relations", len(names.relations))
    out.count("neighbours", int(degrees.sum()))
    for what, marked in (
        ("neighbours", degrees == 0),
        ("vector", ~has_vector),
        ("type", type_rows < 0),
        ("mention", frequencies == 0),
    ):
        out.count(f"entities_without_{what}", int(marked.sum()))


class _Names(NamedTuple):
    """Names by their places in the arrays."""

    ids: pa.Array
    """Entity ids by row."""
    types: pa.Array
    relations: pa.Array
    in_triples: np.ndarray
    """bool (E,): whether a triple names the entity."""


def _check_graph(inputs: Mapping[str, Artifact], store: ArtifactStore) -> None:
    graph = inputs["graph"]
    for name in ("neighbours", "embeddings"):
        _check_origin(inputs[name], inputs[name].manifest.inputs.get("graph"), graph)
    links = inputs["entity_frequencies"].manifest.inputs.get("links")
    linked = store.get(links.stage, links.fingerprint) if links else None
    if linked is not None:  # if the links are gone, the ids alone tell another graph
        _check_origin(inputs["entity_frequencies"], linked.manifest.inputs.get("entities"), graph)


def _check_origin(artifact: Artifact, origin: InputRecord | None, graph: Artifact) -> None:
    if origin is None or (origin.stage, origin.fingerprint) != (graph.stage, graph.fingerprint):
        of = "no graph" if origin is None else f"{origin.stage}/{origin.fingerprint}"
        raise UserError(
            f"{artifact.path} is of {of}, not of {graph.path}. Run the stage {artifact.stage} on this graph, as the "
            "flow knowledge does."
        )


def _entities(graph: Artifact) -> tuple[pa.Array, pa.Array]:
    """Return ids and types by row; unknown types are null."""
    table = [part.read(["entity_id", "type"]) for part in graph.parts("kg_entities")]
    rows = pa.concat_tables(table).combine_chunks()
    ids, types = (rows[name].combine_chunks() for name in ("entity_id", "type"))
    return ids, pc.if_else(pc.equal(types, ""), None, types)


def _relations(graph: Artifact, ids: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the names of all relations, and which entities the triples name."""
    relations: list[pa.Array] = []
    named = np.zeros(len(ids), dtype=bool)
    for part in graph.parts("kg_triples"):
        rows = part.read(["head", "relation", "tail"])
        relations.append(_distinct(rows["relation"]))
        for end in ("head", "tail"):
            named[_places(rows[end], ids, f"{graph.path}: {end}")] = True
    return _distinct(pa.concat_arrays(relations) if relations else pa.array([], pa.string())), named


def _frequencies(counted: Artifact, ids: pa.Array) -> np.ndarray:
    """int64 (E,): mentions of each entity, 0 where there are none."""
    frequencies = np.zeros(len(ids), dtype=np.int64)
    for part in counted.parts("entity_frequencies"):
        rows = part.read(["entity_id", "count"])
        frequencies[_places(rows["entity_id"], ids, f"{counted.path}: entity_id")] = rows["count"].to_numpy()
    return frequencies


def _write_neighbours(folder: Path, artifact: Artifact, names: _Names) -> np.ndarray:
    """Write the neighbours and their triples, by entity and rank; returns the number of each entity's neighbours."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("owner", "rank", "other", "score", "size")}
    relations, directions = [], []
    for part in artifact.parts("neighbours"):
        rows = part.read()
        others = rows["others"].combine_chunks()
        sizes = 1 + pc.list_value_length(others).to_numpy()
        for column, name in (("owner", "entity_id"), ("other", "neighbour_id")):
            places = _places(rows[name], names.ids, f"{artifact.path}: {name}")
            columns[column].append(places.astype(np.int32))
        columns["rank"].append(rows["rank"].to_numpy())
        columns["score"].append(rows["score"].to_numpy().astype(np.float32))
        columns["size"].append(sizes)
        further = pc.list_flatten(others)
        where = f"{artifact.path}: relation"
        # Each row's triples follow each other: its first, then its others.
        first = np.cumsum(sizes) - sizes
        is_first = np.zeros(sizes.sum(), dtype=bool)
        is_first[first] = True
        of_part = np.empty((2, len(is_first)), dtype=np.int64)
        of_part[0, is_first] = _places(rows["relation"], names.relations, where)
        of_part[0, ~is_first] = _places(further.field("relation"), names.relations, where)
        of_part[1, is_first] = rows["direction"].to_numpy()
        of_part[1, ~is_first] = further.field("direction").to_numpy()
        relations.append(of_part[0].astype(np.int32))
        directions.append(of_part[1].astype(np.int8))
    owner, rank, other, score, size = (_joined(columns[name]) for name in ("owner", "rank", "other", "score", "size"))
    order = np.lexsort((rank, owner))
    degrees = np.bincount(owner.astype(np.int64), minlength=len(names.ids))
    offsets = np.concatenate([[0], np.cumsum(size[order])]).astype(np.int64)
    moved = np.repeat((np.cumsum(size) - size)[order] - offsets[:-1], size[order]) + np.arange(offsets[-1])
    moved = moved.astype(np.int64)
    _save(folder, "neighbour_offsets", np.concatenate([[0], np.cumsum(degrees)]))
    _save(folder, "neighbours", other[order])
    _save(folder, "scores", score[order])
    _save(folder, "triple_offsets", offsets)
    _save(folder, "relations", _joined(relations)[moved])
    _save(folder, "directions", _joined(directions)[moved])
    return degrees


def _write_vectors(folder: Path, artifact: Artifact, names: _Names) -> np.ndarray:
    """Write the vectors of entities and relations; returns which entities have one, bool (E,)."""
    has_vector = np.zeros(len(names.ids), dtype=bool)
    target: np.ndarray | None = None
    for part in artifact.parts("kg_entity_vectors"):
        rows = part.read()
        vectors = _matrix(rows["vector"])
        if target is None:
            shape = len(names.ids), vectors.shape[1]
            target = np.lib.format.open_memmap(_file(folder, "entity_vectors"), "w+", "float32", shape)
        places = _places(rows["entity_id"], names.ids, f"{artifact.path}: entity_id")
        learnt = names.in_triples[places]
        target[places[learnt]] = vectors[learnt]
        has_vector[places] = learnt
    relations = artifact.to_table("kg_relation_vectors")
    rows = _places(names.relations, relations["relation"].combine_chunks(), None)
    if target is None or (rows < 0).any():
        raise UserError(f"{artifact.path} lacks vectors of entities or relations. Run the stage kg_embeddings again.")
    _save(folder, "has_vector", has_vector)
    vectors = _matrix(relations["vector"])[rows]
    _save(folder, "relation_vectors", vectors)
    _save(folder, "projections", _matrix(relations["projection"])[rows].reshape(len(rows), target.shape[1], -1))
    return has_vector


def _write_norms(folder: Path) -> None:
    """Write the norm of every entity in the space of every relation."""
    vectors, projections = (np.load(_file(folder, name), mmap_mode="r") for name in ("entity_vectors", "projections"))
    shape = len(projections), len(vectors)
    norms = np.lib.format.open_memmap(_file(folder, "projected_norms"), "w+", "float32", shape)
    for relation, projection in enumerate(projections):
        for first in range(0, len(vectors), ROWS_AT_ONCE):
            some = slice(first, first + ROWS_AT_ONCE)
            norms[relation, some] = np.linalg.norm(vectors[some] @ projection, axis=1)


def _places(values: pa.Array | pa.ChunkedArray, names: pa.Array, where: str | None) -> np.ndarray:
    """Return the place of each value among the names, int64; -1 where it is none and `where` is None."""
    found = pc.fill_null(pc.index_in(values, value_set=names), -1)
    places = (found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found).to_numpy().astype(np.int64)
    if where is not None and (places < 0).any():
        unknown = values[int(np.flatnonzero(places < 0)[0])].as_py()
        raise UserError(
            f"{where} {unknown!r} is not in the graph. Run the stages neighbours, kg_embeddings, link and "
            "entity_frequencies on the graph that is given here."
        )
    return places


def _distinct(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the distinct values, sorted, without null."""
    distinct = pc.drop_null(pc.unique(values))
    return distinct.take(pc.sort_indices(distinct))


def _bytes_of(ids: pa.Array) -> np.ndarray:
    """Return the UTF-8 of all ids, end to end: uint8."""
    return np.frombuffer("".join(ids.to_pylist()).encode(), dtype=np.uint8)


def _matrix(column: pa.ChunkedArray) -> np.ndarray:
    """Return lists of equal lengths as a matrix: float32 (rows, length)."""
    lists = column.combine_chunks()
    return np.asarray(pc.list_flatten(lists).to_numpy(), dtype=np.float32).reshape(len(lists), -1)


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _save(folder: Path, name: str, array: np.ndarray) -> None:
    np.save(_file(folder, name), array.astype(KINDS[name][0], copy=False), allow_pickle=False)
