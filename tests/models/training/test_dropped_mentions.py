"""Mentions that length warm-up cuts off are dropped, and a run reports how many."""

from __future__ import annotations

from typing import Any

import torch

from models.objectives.bert.config import BertObjectiveConfig
from models.objectives.bert.objective import Bert
from models.training.columns import MENTIONS, WORDS, Column
from models.training.loop import TrainingConfig, train
from tests.support.training.memory_part import stream_of
from tests.support.training.synthetic_examples import VOCABULARY, synthetic_rows, training

LONGEST = 8


class Mentioning(Bert):
    """BERT on rows with mentions, of which it makes no use."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*WORDS, MENTIONS)


def test_mentions_that_are_cut_off_are_counted() -> None:
    rows = [row | {"mentions": spans(len(row["input_ids"]))} for row in synthetic_rows(0, 20)]
    # Of a cut row seven tokens and [SEP] remain.
    gone = sum(one["end"] > LONGEST - 1 for row in rows for one in row["mentions"])
    assert 0 < gone < sum(len(row["mentions"]) for row in rows)
    assert counted(Mentioning, rows) == [gone, 0]


def test_rows_without_mentions_have_no_such_figure() -> None:
    assert counted(Bert, synthetic_rows(0, 20)) == [None, None]


def spans(length: int) -> list[dict[str, int]]:
    """Mentions of two tokens: the first, those at the border of a cut row, and the last."""
    return [{"start": first, "end": first + 2, "entity": 0, "surface": 0} for first in (1, 5, 6, length - 3)]


def counted(kind: type[Bert], rows: list[dict[str, Any]]) -> list[float | None]:
    """Train two steps on all rows, cut in the first alone; returns the figure of each."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "intermediate_size": 32, "max_positions": 64}
    objective = kind(BertObjectiveConfig(vocab_size=VOCABULARY, **sizes))
    settings = training(
        steps=2, batch_size=len(rows), warmup_steps=1, length_warmup_steps=1, length_warmup_tokens=LONGEST
    )
    found: list[float | None] = []

    def report(step: int, split: str, figures: Any) -> None:
        if split == "step":
            found.append(figures.get("dropped_mentions"))

    streams = [stream_of(rows, columns=objective.columns) for _ in range(2)]
    train(objective, *streams, TrainingConfig(**settings), report=report)
    return found
