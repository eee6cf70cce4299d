"""Work of tests on a Ray cluster of several nodes, as a flow does it, in a process that can be killed.

python -m tests.support.processes.on_nodes WORK ROOT SECONDS
"""

from __future__ import annotations

import functools
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import polars as pl

from infra.artifacts import ArtifactStore
from infra.builds import BuildPlace, PartWriter, Unit, WorkRecord
from infra.cluster.executor import executor_for
from infra.settings import Settings
from infra.shuffle import Shuffle
from infra.stage import Executor, Output, SerialExecutor, StageParams, run, stage
from tasks.deduplicate import partitions
from tasks.deduplicate.stage import DeduplicateParams, deduplicate
from tests.support.text.edited import document, edited
from tests.support.text.tables import documents_artifact
from tests.support.training.synthetic_examples import write_part


class ExchangeParams(StageParams):
    parts: int = 12
    rows: int = 6


def send_part(part: PartWriter, index: int, exchange: Shuffle, params: ExchangeParams) -> None:
    exchange.send(index, pl.DataFrame({"number": [index, index * index]}), None)


def receive_part(part: PartWriter, index: int, exchange: Shuffle, params: ExchangeParams) -> None:
    write_part(part, index, params)  # type: ignore[arg-type]
    part.count("received", int(exchange.receive()["number"].sum()))


@stage(name="encode", version=8, params=ExchangeParams, tables=("examples", "held_out"), heavy=True)
def exchanged_examples(inputs: Mapping[str, Any], params: ExchangeParams, out: Output) -> None:
    """An exchange of rows between units, then parts."""
    exchange = Shuffle(out.scratch, "numbers", senders=params.parts)
    out.prepare(send_part, range(params.parts), exchange, params)
    out.map(receive_part, range(params.parts), exchange, params)


def exchange(store: ArtifactStore, executor: Executor) -> None:
    run(exchanged_examples, store, ExchangeParams(), {}, executor=executor)


def deduplicated(store: ArtifactStore, executor: Executor) -> None:
    """Near duplicates of some 70 synthetic texts, in partitions, with all their exchanges of rows."""
    drawn = random.Random(1)
    texts = []
    for _ in range(20):
        texts.append(document(drawn, 4))
        for _ in range(drawn.randrange(1, 4)):
            texts.append(edited(texts[-1], 0.03, drawn))  # copies of copies: clusters need rounds
    texts += texts[:8]
    documents = documents_artifact(store, *(texts[start::4] for start in range(4)))
    params = DeduplicateParams(threshold=0.6, numbers_apart=False, documents_per_bucket=25)
    with patch.object(partitions, "DOCUMENTS_PER_PARTITION", 25):
        run(deduplicate, store, params, {"documents": documents}, executor=executor)


WORK: dict[str, Callable[[ArtifactStore, Executor], None]] = {"exchange": exchange, "deduplicated": deduplicated}


class Slow:
    """An executor whose units take longer, so that something can be killed meanwhile."""

    def __init__(self, executor: Executor, seconds: float) -> None:
        self._executor = executor
        self._seconds = seconds

    @property
    def in_process(self) -> bool:
        return self._executor.in_process

    def run(self, place: BuildPlace, function: Callable[..., None], units: Sequence[Unit]) -> Iterator[WorkRecord]:
        return self._executor.run(place, functools.partial(slowly, self._seconds, function), units)


def slowly(seconds: float, function: Callable[..., None], part: PartWriter, *arguments: Any) -> None:
    """Do a unit after some time."""
    time.sleep(seconds)
    function(part, *arguments)


def alone(work: str, store: ArtifactStore) -> ArtifactStore:
    """Do the same work in one process, which nothing disturbs; returns the store."""
    WORK[work](store, SerialExecutor())
    return store


if __name__ == "__main__":
    from tests.support.processes import on_nodes  # workers import its functions by that name

    logging.basicConfig(level=logging.INFO)
    with executor_for(Settings.from_environment()) as executor:
        on_nodes.WORK[sys.argv[1]](ArtifactStore(sys.argv[2]), on_nodes.Slow(executor, float(sys.argv[3])))
