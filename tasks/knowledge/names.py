"""Names of a graph's entities as a file beside a model: with it mentions are found in texts without an artifact store.

`names.parquet` has a row for each form that the linker searches for (kg/linking/linker.py). Which of several entities a
shared name means is decided already, so the file needs neither frequencies nor types. Linking with it finds what the
stage `encode` found for the model's training.

Time and memory to open grow with the names: about 10 µs and 700 bytes each. A process opens a file once.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from infra import schemas
from infra.arrays.batching import CHARACTERS_AT_ONCE, batches_of
from infra.artifacts import Artifact
from infra.errors import UserError
from kg.linking.linker import EntityLinker
from tasks.knowledge.link import entity_rows, entity_types

NAMES_FILE = "names.parquet"
TABLE = "kg_entities"
REMEMBERED_TEXTS = 1 << 16
"""Number of texts whose mentions are cached, the last ones linked. A grid links its texts once per process."""
_GRAPH = b"graph"


class NameLinker:
    """Finds mentions in texts: `linker(texts)` returns for each int64 (N, 4), as `Linker` of tasks/downstream has it.

    Args:
        names: rows of names.parquet.
        graph: stage and fingerprint of the graph whose rows they name.
    """

    def __init__(self, names: pa.Table, graph: tuple[str, str]) -> None:
        self.graph = graph
        # One entity for all: what a form means is read from the columns beside it.
        self._linker = EntityLinker(dict.fromkeys(names["name"].to_pylist(), ""))
        self._places = np.empty((self._linker.num_surfaces, 2), dtype=np.int64)
        self._recorded = np.empty(self._linker.num_surfaces, dtype=bool)
        forms = self._linker.forms
        self._places[forms] = np.column_stack([names["entity"].to_numpy(), names["surface"].to_numpy()])
        self._recorded[forms] = names["recorded"].to_numpy(zero_copy_only=False)
        self._known: dict[str, np.ndarray] = {}

    def __call__(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the mentions in each text: first character, the character after the last, row, number of the name."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(self._linked(new))
        found = [self._known[text] for text in texts]
        surplus = len(self._known) - REMEMBERED_TEXTS
        for text in list(self._known)[: max(0, surplus)]:
            del self._known[text]
        return found

    def _linked(self, texts: Sequence[str]) -> Iterator[tuple[str, np.ndarray]]:
        for batch in batches_of(texts, CHARACTERS_AT_ONCE, length=len):
            found = self._linker.link_many(batch)
            found = found.chosen(self._recorded[found.forms])
            columns = np.column_stack([found.starts, found.ends, self._places[found.forms]])
            borders = np.searchsorted(found.texts, np.arange(len(batch) + 1)).tolist()
            yield from zip(batch, (columns[first:end] for first, end in pairwise(borders)), strict=True)


def names_table(
    graph: Artifact,
    type_priors: Mapping[str, float],
    frequencies: Artifact | None = None,
    mention_types: Collection[str] = (),
) -> pa.Table:
    """Return the rows of names.parquet for a graph; the other arguments are those with which its text was linked.

    Raises:
        UserError: the artifact has no table kg_entities, or no name that can be linked.
    """
    if TABLE not in graph.manifest.tables:
        raise UserError(
            f"{graph.path} has no table {TABLE}, and a model's knowledge is of one. Link text to a fused graph."
        )
    places = entity_rows(graph, type_priors, frequencies)
    types = entity_types(graph, type_priors, frequencies)
    rows = graph.scan(TABLE).select("name", "aliases").collect()[places[:, 0]]
    names = [
        name if number == 0 else aliases[number - 1]
        for (name, aliases), number in zip(rows.iter_rows(), places[:, 1].tolist(), strict=True)
    ]
    recorded = np.isin(types, list(mention_types)) if mention_types else np.ones(len(types), dtype=bool)
    columns = {
        "name": names,
        "entity": places[:, 0],
        "surface": places[:, 1],
        "recorded": recorded[places[:, 0]],
    }
    return pa.table(columns, schema=schemas.NAMES)


def save_names(folder: Path, names: pa.Table, graph: tuple[str, str]) -> None:
    """Write names.parquet into a folder; `graph` is stage and fingerprint of the graph whose rows the names have."""
    described = names.replace_schema_metadata({_GRAPH: json.dumps(graph).encode()})
    pq.write_table(described, folder / NAMES_FILE, compression="zstd")


def linker_of(folder: str | Path, graph: tuple[str, str]) -> NameLinker:
    """Return the linker of the names in a model's folder.

    Args:
        graph: stage and fingerprint of the graph whose rows the model reads.

    Raises:
        UserError: the file is missing, damaged or of another graph; the message names it.
    """
    path = Path(folder) / NAMES_FILE
    try:
        stamp = path.stat()
        linker = _opened(str(path.resolve()), stamp.st_mtime_ns, stamp.st_size)
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no {NAMES_FILE}, by which the model finds entities in texts. Copy the whole folder again."
        ) from None
    if linker.graph != graph:
        raise UserError(
            f"{path} names entities of the graph {'/'.join(linker.graph)}, the model reads those of "
            f"{'/'.join(graph)}: the same numbers would mean other entities. Copy the model's own {NAMES_FILE}."
        )
    return linker


@functools.lru_cache(maxsize=1)
def _opened(path: str, modified: int, size: int) -> NameLinker:
    """Return the linker of a file; a file that is written anew is read again."""
    try:
        table = pq.read_table(path)
        if problems := schemas.differences(table.schema, schemas.NAMES):
            raise ValueError("; ".join(problems))
        graph: Any = json.loads((table.schema.metadata or {})[_GRAPH])
        return NameLinker(table, (str(graph[0]), str(graph[1])))
    except (OSError, ValueError, KeyError, IndexError, pa.ArrowException) as error:
        raise UserError(f"{path} cannot be read: {error}. Copy the whole folder of the model again.") from error
