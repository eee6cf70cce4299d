"""Progress of a training for people: by steps, or by what it has spent of its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.pretrain.params import TrainParams
from tasks.pretrain.train import train
from tasks.training.checkpoints import Checkpoints
from tasks.training.launch import Progress
from tasks.training.run_spec import RunSpec
from tests.support.training.synthetic_examples import training


def spec(**changes: Any) -> RunSpec:
    return RunSpec(
        name="0123abcd",
        store="",
        sources={},
        storage="",
        objective="bert",
        model={"num_layers": 2, "vocab_size": 100},
        training=training(steps=1_000, **changes),
        workers=1,
        cpus_per_worker=1,
        gpu=False,
    )


@pytest.mark.parametrize(
    ("changes", "spent", "done", "total", "unit"),
    [
        ({}, {}, 20, 1_000, "step"),
        ({"cpu_seconds": 90.5}, {"cpu_seconds": 30.9}, 30, 91, "CPU second"),
        ({"flops": 6.2e14}, {"flops": 1.509e14}, 150, 620, "teraFLOP"),
        ({"flops": 6.2e14}, {"flops": 6.21e14}, 620, 620, "teraFLOP"),
    ],
)
def test_budget_is_counted_in_place_of_steps(
    changes: dict[str, float], spent: dict[str, float], done: int, total: int, unit: str
) -> None:
    run = spec(**changes)
    figures = {"loss": 2.5, "mlm": 2.5, "tokens_per_second": 1234.0, **spent}
    assert (run.total, run.unit) == (total, unit)
    assert run.progress([{"step": 20, "split": "train", "figures": figures}]) == Progress(
        done, "1,234 tokens/s, loss 2.5, mlm 2.5"
    )
    assert run.has_budget == bool(changes)


@pytest.mark.parametrize(("every", "first"), [(250, "250"), (5_000, "1,000")])
def test_run_without_a_checkpoint_says_that_it_begins_again(every: int, first: str, tmp_path: Path) -> None:
    run = spec(checkpoint_every=every).model_copy(update={"storage": str(tmp_path)})
    assert run.interruption_note() == (
        "The training has no checkpoint yet, so it will begin again at step 0; the first is written after step "
        f"{first} (training.checkpoint_every)."
    )
    Checkpoints(run.storage, run.name).write(20, {}, {})
    assert run.interruption_note() == ""


def test_the_stage_names_what_the_run_counts() -> None:
    params = TrainParams(objective="bert", training=training(steps=1_000, flops=1e12))
    assert train.unit_of(params) == "teraFLOP"
