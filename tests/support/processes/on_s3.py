"""Work of tests on a store of any root, in a process that can be killed, and what it left there.

python -m tests.support.processes.on_s3 WORK ROOT
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.errors import UserError
from infra.shuffle import Shuffle
from infra.stage import Output, StageParams, run, stage
from tasks.pretrain.train import TrainParams, train
from tasks.training.cluster import Cluster
from tests.support.training.synthetic_examples import TINY_MODEL, make_inputs, training, write_part


class CountParams(StageParams):
    parts: int = 4
    rows: int = 6


def send_part(part: PartWriter, index: int, exchange: Shuffle) -> None:
    import polars as pl

    exchange.send(index, pl.DataFrame({"number": [index, index + 1]}))


@stage(name="encode", version=7, params=CountParams, tables=("examples", "held_out"))
def shuffled_examples(inputs: Mapping[str, Any], params: CountParams, out: Output) -> None:
    """Rows in parts, a file, and rows on their way through the scratch folder."""
    exchange = Shuffle(out.scratch, "numbers", senders=params.parts)
    out.prepare(send_part, range(params.parts), exchange)
    out.map(write_part, range(params.parts), params)
    out.add_bytes("sum.txt", str(exchange.receive()["number"].sum()).encode())


def shuffle(store: ArtifactStore) -> Artifact:
    return run(shuffled_examples, store, CountParams(), {}).artifact


def pretrain(store: ArtifactStore) -> Artifact:
    given = TrainParams(
        objective="ehealth",
        model={**TINY_MODEL, "hidden_dropout": 0.1, "attention_dropout": 0.1},
        training=training(steps=12),
        cluster=Cluster(workers=0, cpus_per_worker=1),
    )
    return run(train, store, given, make_inputs(store)).artifact


WORK = {"shuffle": shuffle, "pretrain": pretrain}


def content(artifact: Artifact) -> dict[str, str]:
    """Return the hash of everything in an artifact that is the same in every run, by its path."""
    made = artifact.manifest
    parts = [part for table in made.tables.values() for part in table.parts]
    return {one.path: one.sha256 for one in [*parts, *made.files]}


if __name__ == "__main__":
    try:
        WORK[sys.argv[1]](ArtifactStore(sys.argv[2]))
    except UserError as error:
        sys.exit(f"{type(error).__name__}: {error}")
