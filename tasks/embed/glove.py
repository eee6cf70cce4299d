"""Stage `glove`: GloVe's vectors of a co-occurrence matrix (Pennington et al., 2014; CMedLMs).

The pairs are put once into files in the order of training, which every epoch maps (16 bytes per pair in the folder for
temporary files). A vector is the sum of the word's and its context's. After each epoch the parameters are saved, and a
killed run resumes with the next one.

Time grows with the pairs times the epochs. Memory: 16 bytes per word and dimension, and one chunk of pairs; the files
are read in order, so a corpus may be larger than memory. The result does not depend on the number of threads, workers
or partitions. CMedLMs states the 50 dimensions alone; all else is as in the example of Stanford's program.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import numpy as np
from pydantic import Field

from infra.artifacts import Artifact, Part
from infra.builds import open_scratch
from infra.errors import UserError
from infra.settings import Settings
from infra.stage import Output, StageParams, stage
from models.word_vectors import WordVectors
from tasks.embed.adagrad import BLOCKS, Chunk, Parameters, chunk_of, train_chunk
from tasks.embed.publish import publish

PAIRS_AT_ONCE = 1 << 22
"""Pairs of a chunk; the order of training depends on it."""
CHECKPOINT, LOSSES = "epoch.npz", "losses.csv"


class GloveParams(StageParams):
    """Settings of GloVe."""

    dimensions: int = Field(default=50, ge=1, description="Width of a vector.")
    x_max: float = Field(default=10.0, gt=0, description="Count from which all pairs weigh the same.")
    alpha: float = Field(default=0.75, gt=0, description="Exponent of the weight of rarer pairs.")
    epochs: int = Field(default=15, ge=1, description="Passes over the pairs.")
    learning_rate: float = Field(default=0.05, gt=0, description="Learning rate of AdaGrad.")
    seed: int = 1
    """Seed of initial vectors and of the order of pairs."""


@stage(name="glove", version=1, params=GloveParams, tables=("word_vectors",), unit="epoch", heavy=True)
def glove(inputs: Mapping[str, Artifact], params: GloveParams, out: Output) -> None:
    """Train vectors of `inputs["words"]` on `inputs["cooccurrences"]`; `losses.csv` has the mean loss of each epoch.

    Raises:
        UserError: training diverged.
    """
    table = inputs["words"].to_table("embedding_words")
    words, frequencies = table["word"].to_pylist(), table["frequency"].to_pylist()
    pairs = inputs["cooccurrences"]
    parameters = Parameters.start(len(words), params.dimensions, params.seed)
    checkpoint = f"{out.scratch}/{CHECKPOINT}"
    losses = _restore(parameters, checkpoint)
    out.on_progress("glove", len(losses), params.epochs)
    with tempfile.TemporaryDirectory(prefix="yiwen-glove-") as name, _threads() as threads:
        chunks = _Chunks(pairs.parts("cooccurrences"), params, Path(name))
        for epoch in range(len(losses), params.epochs):
            began = time.monotonic()
            cost = sum(train_chunk(parameters, chunk, params.learning_rate, threads) for chunk in chunks)
            losses.append(cost / pairs.rows("cooccurrences"))
            if not np.isfinite(losses[-1]):
                raise UserError(f"The loss of epoch {epoch + 1} is not a number. Lower glove.learning_rate.")
            _save(parameters, checkpoint, losses)
            speed = pairs.rows("cooccurrences") / max(time.monotonic() - began, 1e-9)
            out.on_progress("glove", epoch + 1, params.epochs, f"loss {losses[-1]:.4f}, {speed:,.0f} pairs/s")
    matrix = (parameters.words + parameters.contexts)[:, : params.dimensions]
    publish(out, WordVectors(words, np.ascontiguousarray(matrix)), frequencies)
    lines = [f"{epoch},{loss:.6f}\n" for epoch, loss in enumerate(losses, start=1)]
    out.add_bytes(LOSSES, "".join(["epoch,loss\n", *lines]).encode())


def _threads() -> ThreadPoolExecutor:
    # More threads than half the blocks would find no cell to work on.
    return ThreadPoolExecutor(max_workers=min(Settings.from_environment().workers, BLOCKS // 2))


class _Chunks:
    """The pairs of an artifact in chunks, in the order of training: written to files when first read, then mapped."""

    def __init__(self, parts: Sequence[Part], params: GloveParams, folder: Path) -> None:
        self._parts, self._params, self._folder = parts, params, folder
        self._number = 0

    def __iter__(self) -> Iterator[Chunk]:
        if not self._number:
            for rows, near, counts in _cut(self._parts):
                chunk = chunk_of(rows, near, counts, self._params.x_max, self._params.alpha)
                for name, array in chunk._asdict().items():
                    np.save(self._file(self._number, name), array)
                self._number += 1
        for number in range(self._number):
            # `asarray`: Numba takes plain arrays, over the same mapped pages.
            yield Chunk(*(np.asarray(np.load(self._file(number, name), mmap_mode="r")) for name in Chunk._fields))

    def _file(self, number: int, name: str) -> Path:
        return self._folder / f"{name}-{number:05d}.npy"


def _cut(parts: Sequence[Part]) -> Iterator[list[np.ndarray]]:
    """Yield the columns of the parts, end to end, in pieces of `PAIRS_AT_ONCE` rows: borders of parts do not count."""
    held: list[np.ndarray] = []
    for part in parts:
        columns = [column.to_numpy() for column in part.read().columns]
        held = [np.concatenate(both) for both in zip(held, columns, strict=True)] if held else columns
        while len(held[0]) >= PAIRS_AT_ONCE:
            yield [column[:PAIRS_AT_ONCE] for column in held]
            held = [column[PAIRS_AT_ONCE:] for column in held]
    if held and len(held[0]):
        yield held


def _save(parameters: Parameters, path: str, losses: Sequence[float]) -> None:
    with open_scratch(path) as file:
        np.savez(file, **{"losses": np.array(losses), **parameters.arrays()})  # type: ignore[arg-type]


def _restore(parameters: Parameters, path: str) -> list[float]:
    """Load what an earlier run saved, and return the losses of its epochs; none if there was no such run."""
    filesystem, location = fsspec.core.url_to_fs(path)
    if not filesystem.exists(location):
        return []
    with fsspec.open(path, "rb") as file, np.load(file, allow_pickle=False) as saved:
        for name, array in parameters.arrays().items():
            array[:] = saved[name]
        found: list[float] = saved["losses"].tolist()
    return found
