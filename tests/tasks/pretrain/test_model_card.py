"""The card of a model says what its training found, and not what it spent."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.artifacts import ArtifactStore
from tasks.pretrain.model_card import TrainingRecord, write_model_card
from tasks.training.run_spec import RunSpec
from tests.support.training.synthetic_examples import training


@pytest.fixture
def spec() -> RunSpec:
    return RunSpec(
        name="0123abcd",
        store="",
        sources={},
        storage="",
        objective="bert",
        model={"num_layers": 2, "vocab_size": 100},
        training=training(steps=1_000_000, flops=1e12),
        workers=1,
        cpus_per_worker=1,
        gpu=True,
    )


def card(spec: RunSpec, tmp_path: Path, **figures: float) -> str:
    record = TrainingRecord(300, "0.1.0", figures, seconds=95.0)
    return write_model_card("toy", None, spec, record, [], ArtifactStore(tmp_path))


def test_cost_is_no_result(spec: RunSpec, tmp_path: Path) -> None:
    text = card(spec, tmp_path, mlm_accuracy=0.5, flops=1e12, cpu_seconds=60.0)
    assert "| mlm accuracy | 0.5000 |" in text and "in 2 min," in text
    assert "| flops" not in text and "type: flops" not in text and "| cpu" not in text and "type: mlm_accuracy" in text


def test_chance_has_a_column_only_where_there_is_one(spec: RunSpec, tmp_path: Path) -> None:
    assert "chance" not in card(spec, tmp_path, mlm_accuracy=0.5)
    text = card(spec, tmp_path, mlm_accuracy=0.5, sop_accuracy=0.75, sop_chance=0.5, sop_unseen_count=1200.0)
    assert "| sop accuracy | 0.7500 | 0.5000 |" in text and "| mlm accuracy | 0.5000 |  |" in text
    assert "| sop unseen count | 1,200 |  |" in text
