"""The first twenty steps of a tiny eHealth with the paper's absolute positions have their recorded losses.

A change of these values is a change of what training computes: name its reason where it is committed, and write the
file anew with `PYTHONPATH=. python tests/models/objectives/ehealth/test_golden_curve.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from models import objectives
from models.training.loop import TrainingConfig, train
from tests.support.training.memory_part import stream_of
from tests.support.training.token_rows import random_rows

GOLDEN = Path(__file__).with_name("golden") / "ehealth_tiny.json"
MODEL: dict[str, Any] = {
    "num_layers": 2,
    "hidden_size": 128,
    "intermediate_size": 512,
    "num_heads": 4,
    "embedding_size": 128,
    "generator_divisor": 4,
    "max_positions": 128,
    "positions": "absolute",
    "initializer_range": 0.08,
    "mask_probability": 0.15,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "rtd_weight": 50.0,
    "mts_weight": 20.0,
    "csp_weight": 1.0,
    "mts_negatives": 5,
    "csp_temperature": 0.07,
    "vocab_size": 1000,
}
"""The settings of the first preset ehealth-tiny, which the recorded losses are of."""
NAMES = ("loss", "mlm", "rtd", "mts", "csp", "gradient_norm", "replaced_rate")
STEPS = 20
TOLERANCE = 1e-4
"""Relative, in float32 on any CPU. Another order of summation (MKL instead of oneDNN, two threads instead of one)
and instructions of 2005 in place of AVX-512 were measured to change the values by 3.3e-7 at most.
"""


def measure() -> list[dict[str, float]]:
    """Losses of steps 1 to 20 on synthetic rows."""
    torch.manual_seed(0)
    objective = objectives.build("ehealth", MODEL)
    lengths = [int(length) for length in torch.randint(8, 48, (60,), generator=torch.Generator().manual_seed(1))]
    rows = random_rows(lengths, vocab_size=1000)
    config = TrainingConfig(
        steps=STEPS,
        batch_size=16,
        learning_rate=5e-4,
        warmup_steps=5,
        log_every=1,
        evaluate_every=STEPS,
        held_out_batches=1,
    )
    curve: list[dict[str, float]] = []

    def report(step: int, split: str, figures: Any) -> None:
        if split == "train":
            curve.append({name: figures[name] for name in NAMES})

    train(objective, stream_of(rows), stream_of(rows[:16]), config, report=report)
    return curve


def test_tiny_ehealth_still_has_its_golden_curve() -> None:
    golden = json.loads(GOLDEN.read_text())
    found = measure()
    assert len(found) == len(golden) == STEPS
    for step, (ours, expected) in enumerate(zip(found, golden, strict=True), start=1):
        assert ours == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE), step
    assert found[-1]["loss"] < found[0]["loss"]


if __name__ == "__main__":
    torch.set_num_threads(1)
    lines = ",\n".join(json.dumps(figures) for figures in measure())
    GOLDEN.write_text(f"[\n{lines}\n]\n")
