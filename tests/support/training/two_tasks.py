"""An objective of two tasks for tests: ELECTRA on rows of text, and the class of other rows.

The tasks share the discriminator. The generator and the heads of ELECTRA belong to the first alone, an encoder and a
classifier of their own to the second: each step leaves some layers and heads unused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from torch import Tensor

from infra import schemas
from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.stage import Output, run, stage
from models import objectives
from models.batch import PackedBatch
from models.encoder.layout import Layout
from models.encoder.linear import Linear
from models.encoder.network import Encoder, initialise
from models.encoder.randomness import Stream
from models.objectives.base import Outcome, Term, TermwiseObjective, ratio
from models.objectives.electra.config import ElectraObjectiveConfig
from models.objectives.electra.objective import Electra
from models.objectives.parts.cost import encoder_flops
from models.objectives.parts.noise import StepNoise
from models.training.columns import INPUT_IDS, Value
from models.training.loop import TrainingConfig, Worker, train
from models.training.reader import ExampleStream
from models.training.tasks import Task
from tests.support.training.memory_part import stream_of
from tests.support.training.synthetic_examples import VOCABULARY, SyntheticParams, synthetic_rows

NAME = "two_tasks"
SIZES = {
    "num_layers": 2,
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_heads": 3,
    "max_positions": 64,
    "rtd_weight": 5.0,
}
"""A model that takes a step in milliseconds."""
LABEL = Value("label")
TABLE = pa.schema(
    [
        pa.field("input_ids", pa.list_(pa.field("element", pa.uint32(), nullable=False)), nullable=False),
        pa.field("label", pa.uint8(), nullable=False),
    ]
)


@dataclass(frozen=True, kw_only=True)
class TwoTasksConfig(ElectraObjectiveConfig):
    """Those of ELECTRA, and the shares of both tasks."""

    detect_share: float = 0.7
    classify_share: float = 0.3

    def shares(self) -> Mapping[str, float]:
        return {"detect": self.detect_share, "classify": self.classify_share}

    def data(self) -> tuple[str, ...]:
        return ("classes",)


@dataclass(frozen=True)
class ClassBatch(PackedBatch):
    """Rows with their classes, int64 (S,)."""

    labels: Tensor


class TwoTasks(Electra):
    """ELECTRA, and a classifier of other rows on the same discriminator."""

    name = NAME
    config: TwoTasksConfig

    def __init__(self, config: TwoTasksConfig) -> None:
        super().__init__(config)
        self.second = Encoder(config.discriminator, embeddings=self.discriminator.embeddings)
        self.classifier = Linear(config.hidden_size, 2)
        initialise(self.classifier, config.initializer_range)

    @property
    def tasks(self) -> tuple[Task, ...]:
        return (Task("detect"), Task("classify", (INPUT_IDS, LABEL), "classes", "held_out_classes"))

    @property
    def terms(self) -> tuple[Term, ...]:
        return (*super().terms, Term("class", "class of a row", 2.0))

    def collate(
        self, rows: Sequence[Any], *, seed: int, step: int, row_indices: Any = None, task: str = "detect"
    ) -> Any:
        if task == "detect":
            return super().collate(rows, seed=seed, step=step, row_indices=row_indices)
        lengths = np.array([len(row.input_ids) for row in rows])
        indices = np.arange(len(rows)) if row_indices is None else np.asarray(row_indices)
        order = np.lexsort((indices, lengths))
        return ClassBatch(
            layout=Layout.from_lengths(lengths[order].tolist()),
            input_ids=torch.from_numpy(np.concatenate([rows[i].input_ids for i in order]).astype(np.int64)),
            rows=indices[order],
            views=np.zeros(len(rows), dtype=np.int64),
            seed=seed,
            step=step,
            labels=torch.tensor([int(rows[i].label) for i in order]),
        )

    def divisors(self, batch: Any) -> dict[str, int]:
        return {"class": batch.sequences} if isinstance(batch, ClassBatch) else super().divisors(batch)

    def outcome(self, batch: Any, *, measure: bool) -> Outcome:
        if not isinstance(batch, ClassBatch):
            return super().outcome(batch, measure=measure)
        noise = StepNoise(batch, self.training).dropout(Stream.ENCODER_DROPOUT)  # type: ignore[arg-type]
        states = [encoder(batch.input_ids, batch.layout, noise=noise) for encoder in (self.discriminator, self.second)]
        logits = self.classifier(sum(states).index_select(0, batch.layout.firsts)).float()
        right = (logits.argmax(1) == batch.labels).sum()
        return Outcome({"class": F.cross_entropy(logits, batch.labels, reduction="sum")}, {"class_correct": right})

    def step_figures(self, values: Mapping[str, float]) -> dict[str, float]:
        kind: Any = TermwiseObjective if "class" in values else Electra
        return kind.step_figures(self, values)

    @property
    def rate_names(self) -> tuple[str, ...]:
        return (*super().rate_names, "class_accuracy", "class_chance")

    def held_out_rates(self, sums: Mapping[str, float]) -> dict[str, float]:
        if "class_total" not in sums:
            return super().held_out_rates(sums)
        return {"class_accuracy": ratio(sums["class_correct"], sums["class_total"]), "class_chance": 0.5}

    def flops(self, batch: Any) -> float:
        if not isinstance(batch, ClassBatch):
            return super().flops(batch)
        return 2 * encoder_flops(self.config.discriminator, batch.layout.lengths)


def register() -> None:
    """Make the objective known by name, and its tables to the store, in this process."""
    objectives._OBJECTIVES[NAME] = (TwoTasksConfig, "tests.support.training.two_tasks:TwoTasks")
    tables: Any = schemas.TABLES
    tables["classes"] = tables["held_out_classes"] = TABLE


def build(**changes: Any) -> TwoTasks:
    """The objective with weights of a fixed seed."""
    torch.manual_seed(0)
    return TwoTasks(TwoTasksConfig(**{**SIZES, "vocab_size": VOCABULARY, **changes}))


def class_rows(seed: int, rows: int) -> list[dict[str, Any]]:
    """Rows of 8 to 20 tokens: of ids 5 to 24 in class 0, of 15 to 34 in class 1."""
    generator = np.random.default_rng(seed)
    lengths, labels = generator.integers(6, 19, rows), generator.integers(0, 2, rows)
    bodies = [generator.integers(5, 25, length) + 10 * label for length, label in zip(lengths, labels, strict=True)]
    return [
        {"input_ids": [2, *body.tolist(), 3], "label": int(label)} for body, label in zip(bodies, labels, strict=True)
    ]


def streams(rows: int = 90, others: int = 50, seed: int = 1) -> dict[str, ExampleStream]:
    """Rows of both tasks, in memory."""
    return {
        "detect": stream_of(synthetic_rows(seed, rows), seed),
        "classify": stream_of(class_rows(seed, others), seed + 1, (INPUT_IDS, LABEL)),
    }


def write_classes(part: PartWriter, index: int, params: SyntheticParams) -> None:
    part.write("classes", class_rows(index, params.rows))
    part.write("held_out_classes", class_rows(1000 + index, params.rows // 3))


def make_classes(store: ArtifactStore, **params: int) -> Artifact:
    """An artifact with the rows of the second task; `register` comes first."""

    @stage(name="classes", version=1, params=SyntheticParams, tables=("classes", "held_out_classes"))
    def classes(inputs: Mapping[str, Any], given: SyntheticParams, out: Output) -> None:
        out.map(write_classes, range(given.parts), given)

    return run(classes, store, SyntheticParams(**params), {}).artifact


def trained(
    settings: Mapping[str, Any], state: Mapping[str, Any] | None = None, worker: Worker | None = None
) -> dict[str, Any]:
    """Train with dropout, from `state` if given; return the figures by step and split, and the states by step."""
    curves: dict[tuple[int, str], dict[str, float]] = {}
    states: dict[int, Any] = {}
    train(
        build(hidden_dropout=0.1, attention_dropout=0.1),
        streams(),
        streams(20, 15, seed=7),
        TrainingConfig(**settings),
        worker=worker,
        state=state,
        report=lambda step, split, figures: curves.update({(step, split): dict(figures)}),
        save=lambda step, state, held_out: states.update({step: state}),
    )
    return {"curves": curves, "states": states}
