"""Stage `train`: encoded examples in, a trained checkpoint and its curves out.

The stage writes `run.json`, starts the training driver as a child process with a Ray of its own, follows the
run's metrics, and keeps the last checkpoint. Checkpoints of an unfinished run lie in the build's scratch
folder under the run's fingerprint: a killed flow, started again, goes on where the last checkpoint was made.

Time grows with steps × batch size × length; memory with the model and one global batch shared out over the
workers, never with the corpus.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fsspec
import torch
from fsspec.implementations.local import LocalFileSystem
from pydantic import Field

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.settings import REPOSITORY, available_cores
from infra.stage import Output, StageParams, stage
from models import objectives
from models.training import CHECKPOINT_FILE, training_config
from tasks.curves import draw_curves
from tasks.follow import RunFollower
from tasks.metrics_log import read_metrics
from tasks.run_spec import Cluster, RunSpec

LOG_LINES_SHOWN = 30


class TrainParams(StageParams):
    """What is trained, and how. `cluster` is left out of the fingerprint: it changes speed, not results."""

    objective: str
    model: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any]
    cluster: Cluster = Field(default_factory=Cluster, exclude=True)


@stage(name="train", version=1, params=TrainParams, tables=("metrics",), unit="step")
def train(inputs: Mapping[str, Artifact], params: TrainParams, out: Output) -> None:
    """Train `params.objective` on `inputs["examples"]`; `inputs["vocabulary"]` sets the vocabulary size."""
    spec = resolve_run(inputs, params, out)
    run_file = _run_folder(spec) / "run.json"
    run_file.write_text(spec.model_dump_json(indent=1), encoding="utf-8")
    _run_driver(spec, run_file, out)
    _keep_result(spec, run_file, out)


def check_training(params: TrainParams, vocabulary_size: int) -> None:
    """Build the model without memory, so that impossible sizes are told before any work is done.

    Raises:
        UserError: an unknown key or an impossible value; the message names it.
    """
    try:
        training_config(params.training)
        with torch.device("meta"):
            objectives.build(params.objective, {**params.model, "vocab_size": vocabulary_size})
    except ValueError as error:
        raise UserError(f"This model cannot be trained: {error}") from error


def resolve_run(inputs: Mapping[str, Artifact], params: TrainParams, out: Output) -> RunSpec:
    """The run with nothing left open: sizes from the inputs, workers and threads from this machine."""
    examples, vocabulary = inputs["examples"], inputs["vocabulary"]
    check_training(params, vocabulary.rows())
    cluster = params.cluster
    workers = cluster.workers
    return RunSpec(
        name=out.build.place.fingerprint,
        store=out.build.store.root,
        examples=examples.fingerprint,
        storage=out.build.scratch,
        objective=params.objective,
        model={**params.model, "vocab_size": vocabulary.rows()},
        training=params.training,
        workers=workers,
        cpus_per_worker=cluster.cpus_per_worker or max(1, available_cores() // workers),
        gpu=torch.cuda.is_available() if cluster.gpu is None else cluster.gpu,
        max_failures=cluster.max_failures,
    )


def _run_folder(spec: RunSpec) -> Path:
    """Where `run.json` and the driver's log lie: with the checkpoints where those are local."""
    filesystem, path = fsspec.core.url_to_fs(spec.storage)
    local = isinstance(filesystem, LocalFileSystem)
    return Path(path) if local else Path(tempfile.mkdtemp(prefix="yiwen-run-"))


def _run_driver(spec: RunSpec, run_file: Path, out: Output) -> None:
    """Run the driver as a child that cannot outlive us, and follow it."""
    log = run_file.with_name("driver.log")
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "tasks.driver", str(run_file), "--quiet"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        try:
            RunFollower(spec, out.on_progress).until(lambda: child.poll() is not None)
        finally:
            child.kill()
            child.wait()
    if child.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        raise RuntimeError(
            f"Training stopped with exit code {child.returncode}; run again to go on from the last checkpoint. "
            f"The last lines of {log}:\n" + "\n".join(lines)
        )


def _keep_result(spec: RunSpec, run_file: Path, out: Output) -> None:
    entries = read_metrics(spec.metrics_path)
    with out.part() as part:
        part.write("metrics", [row for entry in entries for row in _rows(entry)])
    with fsspec.open(spec.result_path, "rb") as file:
        checkpoint = json.loads(file.read())["checkpoint"]
    with tempfile.TemporaryDirectory(prefix="yiwen-result-") as name:
        folder = Path(name)
        filesystem, path = fsspec.core.url_to_fs(f"{checkpoint}/{CHECKPOINT_FILE}")
        filesystem.get_file(path, str(folder / CHECKPOINT_FILE))
        (folder / "run.json").write_bytes(run_file.read_bytes())
        draw_curves(entries, folder / "curves.png")
        out.build.add_folder(folder)
    out.count("steps", spec.config.steps)
    out.count("workers", spec.workers)


def _rows(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"step": entry["step"], "split": entry["split"], "name": name, "value": value}
        for name, value in entry["figures"].items()
    ]
