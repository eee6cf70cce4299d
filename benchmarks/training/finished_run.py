"""What a finished pre-training has left in a store, and its figures on all held-out rows, for benchmarks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from infra.artifacts import Artifact, ArtifactStore
from models.training.checkpoint import CHECKPOINT_FILE, load_state
from models.training.reader import ExampleStream
from tasks.training.run_spec import RunSpec


def newest(home: Path, stage: str, preset: str) -> Artifact:
    """Return the newest artifact of a stage. Without one the program ends and names the preset that makes it."""
    found = ArtifactStore(home).latest(stage)
    if found is None:
        raise SystemExit(f"{home} has no artifact of the stage {stage}. Run pretrain/{preset} with YIWEN_HOME={home}.")
    return found


def run_of(home: Path, objective: str) -> tuple[RunSpec, dict[str, Any]]:
    """Return the newest run of an objective, and the weights of its last checkpoint."""
    for found in reversed(ArtifactStore(home).list("train")):
        spec = RunSpec.model_validate_json(found.read_file("run.json"))
        if spec.objective == objective:
            with tempfile.TemporaryDirectory(prefix="yiwen-run-") as folder:
                (Path(folder) / CHECKPOINT_FILE).write_bytes(found.read_file(CHECKPOINT_FILE))
                return spec, load_state(Path(folder))["model"]
    raise SystemExit(
        f"{home} has no finished run of {objective}. Run pretrain/{objective}-tiny with YIWEN_HOME={home}."
    )


@torch.no_grad()
def figures(objective: Any, stream: ExampleStream, draws: int, batch: int) -> dict[str, float]:
    """Return the rates over all rows of a stream, `draws` times."""
    sums: dict[str, float] = {}
    for draw in range(draws):
        for number in range(stream.rows // batch):
            rows = stream.take(number * batch, batch)
            found = objective.metrics(objective.collate(rows, seed=draw, step=number))
            sums = {name: sums.get(name, 0.0) + float(value) for name, value in found.items()}
    return dict(objective.rates(sums))
