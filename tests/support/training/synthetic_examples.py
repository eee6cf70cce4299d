"""Synthetic examples for training tests: random token ids with a rule that a model can learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.stage import Output, StageParams, run, stage

VOCABULARY = 120


class SyntheticParams(StageParams):
    parts: int = 3
    rows: int = 60


def synthetic_rows(seed: int, rows: int) -> list[dict[str, Any]]:
    """Rows of 10 to 30 tokens of 21 kinds, in which every second token is the one before it plus one."""
    generator = np.random.default_rng(seed)
    out = []
    for length in generator.integers(5, 15, rows):
        first = generator.integers(5, 25, length)
        body = np.stack([first, first + 1], 1).ravel()
        out.append(
            {
                "input_ids": [2, *body.tolist(), 3],
                "word_starts": list(range(1, 2 * length + 1)),
                "mentions": [],
                "doc_id": f"{seed:08x}",
                "source": "synthetic",
            }
        )
    return out


def write_part(part: PartWriter, index: int, params: SyntheticParams) -> None:
    part.write("examples", synthetic_rows(index, params.rows))
    part.write("held_out", synthetic_rows(1000 + index, params.rows // 3))


@stage(name="encode", version=1, params=SyntheticParams, tables=("examples", "held_out"))
def synthetic_examples(inputs: Mapping[str, Any], params: SyntheticParams, out: Output) -> None:
    out.map(write_part, range(params.parts), params)


@stage(name="vocabulary", version=1, params=SyntheticParams, tables=("vocabulary",))
def synthetic_vocabulary(inputs: Mapping[str, Any], params: SyntheticParams, out: Output) -> None:
    with out.part() as part:
        rows = [{"id": i, "token": f"t{i}", "frequency": 0} for i in range(VOCABULARY)]
        part.write("vocabulary", rows)


def make_inputs(store: ArtifactStore, **params: int) -> dict[str, Artifact]:
    """Artifacts shaped like those of the stages `encode` and `vocabulary`."""
    given = SyntheticParams(**params)
    return {
        "examples": run(synthetic_examples, store, given, {}).artifact,
        "vocabulary": run(synthetic_vocabulary, store, given, {}).artifact,
    }


TINY_MODEL = {
    "num_layers": 2,
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_heads": 3,
    "max_positions": 64,
}
"""A model that takes a step in milliseconds."""


def training(**changes: Any) -> dict[str, Any]:
    """Training settings for tests."""
    settings = {
        "steps": 12,
        "batch_size": 8,
        "learning_rate": 1e-3,
        "warmup_steps": 2,
        "log_every": 1,
        "evaluate_every": 6,
        "held_out_batches": 2,
        "checkpoint_every": 4,
    }
    return {**settings, **changes}


def write_part_beyond(part: PartWriter, index: int, params: SyntheticParams) -> None:
    """A part whose ids lie outside the vocabulary, as an artifact of another vocabulary would have."""
    write_part(part, index, params)
    row = synthetic_rows(index, 1)[0]
    part.write("examples", [{**row, "input_ids": [2, *[VOCABULARY + 1] * (len(row["input_ids"]) - 2), 3]}] * 100)
