"""Inputs of a training of the toy objective: examples that were linked to a graph, and knowledge of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.stage import Output, stage
from tasks.knowledge.arrays import KnowledgeArraysParams, knowledge_arrays
from tests.support.graphs.given_knowledge import given_knowledge
from tests.support.text.stages import do
from tests.support.training.synthetic_examples import SyntheticParams, synthetic_rows, synthetic_vocabulary

ENTITIES = 12


def write_part(part: PartWriter, index: int, params: SyntheticParams) -> None:
    drawn = np.random.default_rng(index)
    for table, rows in (("examples", params.rows), ("held_out", params.rows // 3)):
        found = synthetic_rows(1000 * (table == "held_out") + index, rows)
        for row in found:
            row["mentions"] = [
                {"start": start, "end": start + 2, "entity": int(drawn.integers(ENTITIES)), "surface": 0}
                for start in range(1, len(row["input_ids"]) - 3, 4)
            ]
        part.write(table, found)


@stage(name="encode", version=0, params=SyntheticParams, tables=("examples", "held_out"))
def linked_examples(inputs: Mapping[str, Any], params: SyntheticParams, out: Output) -> None:
    """Random rows with a mention in every four tokens."""
    out.map(write_part, range(params.parts), params)


def graph_inputs(store: ArtifactStore, relation: str = "相关") -> dict[str, Artifact]:
    """A ring for each of two types; an entity's neighbours are of its type, and their vectors say so."""
    entities = [
        {"entity_id": f"e{row:02d}", "name": f"实体{row}", "type": ("疾病", "药物")[row % 2]} for row in range(ENTITIES)
    ]
    triples = [(f"e{row:02d}", relation, f"e{(row + 2) % ENTITIES:02d}") for row in range(ENTITIES)]
    signs = [1.0 if row % 2 else -1.0 for row in range(ENTITIES)]
    vectors = {f"e{row:02d}": [signs[row], 0.1 * row, 0.0, 1.0] for row in range(ENTITIES)}
    return given_knowledge(store, entities, triples, {"e00": 5}, vectors=vectors)


def knowing_inputs(store: ArtifactStore, relation: str = "相关") -> dict[str, Artifact]:
    """Inputs of the stage `train` by name."""
    graph = graph_inputs(store, relation)
    vocabulary = do(store, synthetic_vocabulary, SyntheticParams())
    return {
        "examples": do(store, linked_examples, SyntheticParams(), vocabulary=vocabulary, entities=graph["graph"]),
        "vocabulary": vocabulary,
        "knowledge": do(store, knowledge_arrays, KnowledgeArraysParams(), **graph),
    }
