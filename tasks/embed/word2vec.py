"""Stage `word2vec`: gensim's Word2Vec with the settings of CMedLMs (Table 4).

The sequences are read part by part, once per epoch, so memory is bounded by a part and the weights (8 bytes per word
and dimension). After each epoch the weights are saved, and a killed run resumes with the next one.

One thread trains by default, and equal inputs give equal vectors. With more threads gensim's updates depend on the
order in which threads run, and vectors differ slightly between runs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import fsspec
import numpy as np
from pydantic import Field, model_validator

from infra.artifacts import Artifact, Part
from infra.builds import open_scratch
from infra.stage import Output, StageParams, stage
from models.word_vectors import WordVectors
from tasks.embed.publish import publish

BATCH_WORDS = 10_000
"""Words of a job of gensim's (`batch_words`); longer sequences would be cut."""
CHECKPOINT = "epoch.npz"


class Word2VecParams(StageParams):
    """Settings of CMedLMs, Table 4."""

    dimensions: int = Field(default=100, ge=1, description="Width of a vector.")
    window: int = Field(default=5, ge=1, description="Words on either side that are context.")
    negative: int = Field(default=5, ge=1, description="Noise words per word.")
    epochs: int = Field(default=5, ge=1, description="Passes over the corpus.")
    skip_gram: bool = Field(default=False, description="Skip-gram in place of CBOW, the continuous bag of words.")
    sample: float = Field(default=1e-3, ge=0, description="Share of the text above which words are downsampled.")
    # Above 1 weights may overflow, and gensim ends the whole process with a segmentation fault.
    alpha: float = Field(default=0.025, gt=0, le=1, description="Learning rate at the start.")
    min_alpha: float = Field(default=0.0001, gt=0, description="Learning rate at the end; it falls linearly.")
    threads: int = Field(default=1, ge=1, description="Threads; with more than one, vectors differ between runs.")
    seed: int = 1
    """Seed of initial vectors, and of the words that are drawn."""

    @model_validator(mode="after")
    def _rates(self) -> Word2VecParams:
        if self.min_alpha > self.alpha:
            raise ValueError(f"min_alpha={self.min_alpha} is above alpha={self.alpha}: the rate must not rise")
        return self


@stage(name="word2vec", version=1, params=Word2VecParams, tables=("word_vectors",), unit="epoch", heavy=True)
def word2vec(inputs: Mapping[str, Artifact], params: Word2VecParams, out: Output) -> None:
    """Train vectors of `inputs["words"]` on `inputs["sequences"]`."""
    table = inputs["words"].to_table("embedding_words")
    words, frequencies = table["word"].to_pylist(), table["frequency"].to_pylist()
    sequences = _Sequences(inputs["sequences"].parts("word_sequences"), words)
    model = _model(words, frequencies, sequences.number, params)
    checkpoint = f"{out.scratch}/{CHECKPOINT}"
    done = _restore(model, checkpoint)
    fall = (params.alpha - params.min_alpha) / params.epochs
    out.on_progress("word2vec", done, params.epochs)
    for epoch in range(done, params.epochs):
        began = time.monotonic()
        model.train(
            sequences,
            total_examples=sequences.number,
            epochs=1,
            start_alpha=params.alpha - fall * epoch,
            end_alpha=params.alpha - fall * (epoch + 1),
        )
        _save(model, checkpoint, epoch + 1)
        speed = sum(frequencies) / max(time.monotonic() - began, 1e-9)
        out.on_progress("word2vec", epoch + 1, params.epochs, f"{speed:,.0f} words/s")
    matrix = np.ascontiguousarray(model.wv.vectors, dtype=np.float32)
    publish(out, WordVectors(words, matrix), frequencies)


class _Sequences:
    """The sequences of an artifact as lists of words, read again from the first part for every epoch."""

    def __init__(self, parts: Sequence[Part], words: Sequence[str]) -> None:
        self._parts = parts
        self._words = np.array(words, dtype=object)
        self.number = sum(part.rows for part in parts)

    def __iter__(self) -> Iterator[list[str]]:
        for part in self._parts:
            for some in part.read()["rows"].iterchunks():
                words = self._words[some.values.to_numpy()]
                borders = some.offsets.to_pylist()
                for first, end in itertools.pairwise(borders):
                    yield words[first:end].tolist()


def _model(words: Sequence[str], frequencies: Sequence[int], sequences: int, params: Word2VecParams) -> Any:
    """Return gensim's model with its initial weights, whose rows are those of the words."""
    from gensim.models import Word2Vec  # takes seconds to import

    model = Word2Vec(
        vector_size=params.dimensions,
        window=params.window,
        negative=params.negative,
        sg=int(params.skip_gram),
        hs=0,
        cbow_mean=1,
        sample=params.sample,
        alpha=params.alpha,
        min_alpha=params.min_alpha,
        workers=params.threads,
        seed=params.seed,
        batch_words=BATCH_WORDS,
        min_count=1,  # rarer words are no rows of the sequences
        sorted_vocab=0,  # they are sorted already, ties by spelling
    )
    model.build_vocab_from_freq(dict(zip(words, frequencies, strict=True)), corpus_count=sequences)
    return model


def _save(model: Any, path: str, epochs: int) -> None:
    """Save what training changes, after a number of epochs."""
    _, keys, place, has_gauss, gauss = model.random.get_state()
    with open_scratch(path) as file:
        np.savez(
            file,
            epochs=epochs,
            vectors=model.wv.vectors,
            contexts=model.syn1neg,
            keys=keys,
            random=np.array([place, has_gauss, gauss]),
        )


def _restore(model: Any, path: str) -> int:
    """Load what an earlier run saved, and return the number of its epochs; 0 if there was none."""
    filesystem, location = fsspec.core.url_to_fs(path)
    if not filesystem.exists(location):
        return 0
    with fsspec.open(path, "rb") as file, np.load(file, allow_pickle=False) as saved:
        model.wv.vectors[:] = saved["vectors"]
        model.syn1neg[:] = saved["contexts"]
        place, has_gauss, gauss = saved["random"].tolist()
        model.random.set_state(("MT19937", saved["keys"], int(place), int(has_gauss), gauss))
        return int(saved["epochs"])
