"""A training of a tiny eHealth on synthetic rows, as a flow does it, in a process that can be killed.

python -m tests.support.processes.training_flow ROOT WORKERS
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence

from infra.artifacts import Artifact, ArtifactStore
from infra.settings import Settings
from infra.stage import run
from tasks.pretrain.train import TrainParams, train
from tasks.runner import stage_runner
from tasks.training.cluster import Cluster
from tests.support.training.synthetic_examples import TINY_MODEL, make_inputs, training

STEPS = 100
BETWEEN_CHECKPOINTS = 10


def params(workers: int | Sequence[int]) -> TrainParams:
    """Return the training; `workers` changes neither its result nor its fingerprint."""
    return TrainParams(
        objective="ehealth",
        model={**TINY_MODEL, "hidden_dropout": 0.1, "attention_dropout": 0.1},
        training=training(steps=STEPS, checkpoint_every=BETWEEN_CHECKPOINTS, evaluate_every=25),
        cluster=Cluster(workers=workers, cpus_per_worker=1),
    )


def trained_alone(store: ArtifactStore) -> Artifact:
    """Train in one process without Ray, which nothing disturbs."""
    return run(train, store, params(0), make_inputs(store)).artifact


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    with stage_runner(Settings.from_environment()) as run_stage:
        run_stage(train, params(json.loads(sys.argv[2])), **make_inputs(ArtifactStore(sys.argv[1])))
