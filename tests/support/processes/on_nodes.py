"""Work of tests on a Ray cluster of several nodes, as a flow does it, in a process that can be killed.

python -m tests.support.processes.on_nodes WORK ROOT SETTINGS
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

import polars as pl
from pydantic import Field

from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.cluster.executor import executor_for
from infra.settings import Settings
from infra.shuffle import Shuffle
from infra.stage import Executor, Output, SerialExecutor, StageParams, run, stage
from tests.support.training.synthetic_examples import write_part


class SlowParams(StageParams):
    parts: int = 12
    rows: int = 6
    seconds: float = Field(default=0.0, exclude=True)
    """Time that each unit takes longer, so that something can be killed meanwhile. It changes no result."""


def send_part(part: PartWriter, index: int, exchange: Shuffle, params: SlowParams) -> None:
    time.sleep(params.seconds)
    exchange.send(index, pl.DataFrame({"number": [index, index * index]}), None)


def receive_part(part: PartWriter, index: int, exchange: Shuffle, params: SlowParams) -> None:
    time.sleep(params.seconds)
    write_part(part, index, params)  # type: ignore[arg-type]
    part.count("received", int(exchange.receive()["number"].sum()))


@stage(name="encode", version=8, params=SlowParams, tables=("examples", "held_out"), heavy=True)
def exchanged_examples(inputs: Mapping[str, Any], params: SlowParams, out: Output) -> None:
    """An exchange of rows between units, then parts."""
    exchange = Shuffle(out.scratch, "numbers", senders=params.parts)
    out.prepare(send_part, range(params.parts), exchange, params)
    out.map(receive_part, range(params.parts), exchange, params)


def exchange(store: ArtifactStore, executor: Executor, seconds: float = 0.0) -> Artifact:
    return run(exchanged_examples, store, SlowParams(seconds=seconds), {}, executor=executor).artifact


WORK = {"exchange": exchange}


def alone(work: str, store: ArtifactStore, **settings: Any) -> Artifact:
    """Return the artifact of the same work in one process, which nothing disturbs."""
    return WORK[work](store, SerialExecutor(), **settings)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    with executor_for(Settings.from_environment()) as executor:
        WORK[sys.argv[1]](ArtifactStore(sys.argv[2]), executor, **json.loads(sys.argv[3]))
