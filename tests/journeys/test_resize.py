"""Losses do not change when a group of training processes shrinks and grows during a run, as Ray Train resizes it.

Ray itself takes no part. It would end the remaining processes and start as many as there is room for.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from infra import schemas
from infra.artifacts import ArtifactStore
from models import objectives
from models.training.loop import Worker
from tasks.training.metrics_log import read_metrics
from tasks.training.process import train_process
from tasks.training.run_spec import RunSpec
from tasks.training.sources import recorded
from tests.support.training import two_tasks
from tests.support.training.groups import Groups
from tests.support.training.synthetic_examples import TINY_MODEL, VOCABULARY, make_inputs, training

pytestmark = pytest.mark.slow


def write_spec(folder: Path, store: ArtifactStore, name: str, objective: str) -> RunSpec:
    sources = {"examples": make_inputs(store)["examples"]}
    model, own = TINY_MODEL, {}
    if objective == two_tasks.NAME:
        sources["classes"] = two_tasks.make_classes(store)
        model, own = two_tasks.SIZES, {"tasks": {"classify": {"batch_size": 6}}}
    spec = RunSpec(
        name="run",
        store=store.root,
        sources=recorded(sources),
        storage=str(folder / name),
        objective=objective,
        model={**model, "hidden_dropout": 0.1, "attention_dropout": 0.1, "vocab_size": VOCABULARY},
        training=training(**own),
        workers=(1, 2),
        cpus_per_worker=1,
        gpu=False,
    )
    Path(spec.storage).mkdir()
    spec.write()
    return spec


@pytest.fixture(scope="module")
def groups() -> Iterator[Groups]:
    with Groups("tests.support.training.group_member") as found:
        yield found


def losses(spec: RunSpec) -> dict[tuple[int, str, str], float]:
    return {
        (entry["step"], entry["split"], name): value
        for entry in read_metrics(spec.metrics_path)
        for name, value in entry["figures"].items()
        if name in ("loss", "mlm", "rtd", "mts", "csp", "class")
        or name.endswith("_loss")
        or name.startswith(("loss_", "gradient_norm"))
    }


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectives, "_OBJECTIVES", dict(objectives._OBJECTIVES))
    monkeypatch.setattr(schemas, "TABLES", dict(schemas.TABLES))
    two_tasks.register()


@pytest.mark.parametrize("objective", ["ehealth", two_tasks.NAME])
def test_resized_run_has_the_losses_of_one_that_is_not_resized(
    objective: str, store: ArtifactStore, tmp_path: Path, groups: Groups
) -> None:
    whole, resized = (write_spec(tmp_path, store, name, objective) for name in ("whole", "resized"))
    try:
        train_process(whole, Worker())
    finally:
        torch.use_deterministic_algorithms(False)

    assert groups.run(resized, 2, leaves=4) == [1, -signal.SIGKILL]  # a node is gone
    last = Path(resized.storage, "0.log").read_text().splitlines()[-1]
    # These errors end a run for good (GiveUpOnUserErrors); a lost neighbour must not.
    assert not last.startswith(("infra.errors.UserError", "FloatingPointError")), last
    assert groups.run(resized, 1, leaves=8) == [-signal.SIGKILL]  # there is room for two again
    assert resized.result() is None
    assert [one["step"] for one in read_metrics(resized.metrics_path) if one["split"] == "train"] == list(range(1, 9))
    assert groups.run(resized, 2) == [0, 0]

    result = resized.result()
    assert result is not None and result.workers == 2
    steps = [entry["step"] for entry in read_metrics(resized.metrics_path) if entry["split"] == "train"]
    assert steps == list(range(1, 13))
    # If a resize mixed up rows or random numbers, every later step would differ by per cents.
    assert losses(resized) == pytest.approx(losses(whole), abs=1e-4, rel=1e-4, nan_ok=True)
