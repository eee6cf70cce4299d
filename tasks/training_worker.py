"""One Ray Train worker: builds the objective, reads its share of the examples, trains, checkpoints."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from models import objectives
from models.allocator import keep_freed_memory
from models.reader import ExampleStream
from models.training import Worker, load_state, save_state, train
from tasks.metrics_log import MetricsLog
from tasks.run_spec import RunSpec


def train_worker(config: dict[str, Any]) -> None:
    """The function Ray Train runs on every worker; `config` is a `RunSpec` as a mapping."""
    spec = RunSpec.model_validate(config)
    context = ray.train.get_context()
    worker = Worker(
        rank=context.get_world_rank(),
        world_size=context.get_world_size(),
        device=ray.train.torch.get_device(),
    )
    _make_deterministic(spec, worker)
    artifact = ArtifactStore(spec.store).get("encode", spec.examples)
    if artifact is None:
        raise UserError(f"{spec.store} holds no encoded examples {spec.examples}; is it shared with this node?")
    objective = objectives.build(spec.objective, spec.model)
    state = _last_state()
    report = MetricsLog(spec.metrics_path, state["step"] if state else 0) if worker.rank == 0 else _ignore
    train(
        objective,
        ExampleStream(artifact.parts("examples"), spec.config.seed),
        ExampleStream(artifact.parts("held_out"), spec.config.seed),
        spec.config,
        worker=worker,
        state=state,
        report=report,
        save=_save,
    )


def _make_deterministic(spec: RunSpec, worker: Worker) -> None:
    torch.set_num_threads(spec.cpus_per_worker)
    torch.manual_seed(spec.config.seed)
    if worker.device.type == "cpu":
        torch.use_deterministic_algorithms(True)
        keep_freed_memory()


def _last_state() -> dict[str, Any] | None:
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        return load_state(Path(folder))


def _save(step: int, state: Mapping[str, Any] | None) -> None:
    # Every rank has to report, only the first has something to keep. Ray copies the folder before it returns.
    with tempfile.TemporaryDirectory(prefix="yiwen-checkpoint-") as folder:
        checkpoint = None
        if state is not None:
            save_state(state, Path(folder))
            checkpoint = Checkpoint.from_directory(folder)
        ray.train.report({"step": step}, checkpoint=checkpoint, checkpoint_dir_name=f"step-{step:09d}")


def _ignore(step: int, split: str, figures: Mapping[str, float]) -> None:
    """Only the first worker keeps the curves."""
