"""Word2Vec: gensim's own result, deterministic, resumed after any epoch, published in every format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models import KeyedVectors, Word2Vec

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import run
from models.word_vectors import WordVectors
from tasks.embed import word2vec as module
from tasks.embed.word2vec import Word2VecParams, word2vec
from tests.support.text.words import embedding_inputs, topical_texts

TEXTS = topical_texts(seed=1, topics=3, words_per_topic=8, texts=120, length=30)
PARAMS = Word2VecParams(dimensions=16, epochs=3, alpha=0.05)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def inputs(store: ArtifactStore) -> dict[str, Artifact]:
    return embedding_inputs(store, TEXTS[:50], TEXTS[50:])


@pytest.fixture(scope="module")
def trained(store: ArtifactStore, inputs: dict[str, Artifact]) -> Artifact:
    return run(word2vec, store, PARAMS, inputs).artifact


def test_vectors_are_those_that_gensim_trains_in_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small jobs: the learning rate falls from one to the next.
    monkeypatch.setattr(module, "BATCH_WORDS", 300)
    store = ArtifactStore(tmp_path)
    trained = run(word2vec, store, PARAMS, embedding_inputs(store, TEXTS[:50], TEXTS[50:])).artifact
    counts = Counter(word for text in TEXTS for word in text)
    order = sorted(counts, key=lambda word: (-counts[word], word))
    model = Word2Vec(vector_size=16, alpha=0.05, min_count=1, sorted_vocab=0, workers=1, seed=1, batch_words=300)
    model.build_vocab_from_freq({word: counts[word] for word in order}, corpus_count=len(TEXTS))
    model.train(TEXTS, total_examples=len(TEXTS), epochs=3)
    found = WordVectors.open(trained.path)
    assert list(found.words) == order
    # The learning rate of an epoch is rounded differently when it is trained in a call of its own.
    assert np.abs(found.matrix - model.wv.vectors).max() < 1e-5
    assert np.abs(model.wv.vectors).max() > 0.1


def test_words_of_a_topic_are_near_each_other(trained: Artifact) -> None:
    found = WordVectors.open(trained.path)
    near = [found.nearest(word, 3) for word in found.words]
    share = np.mean([own[0] == other[0] for own, some in zip(found.words, near, strict=True) for other, _ in some])
    assert share > 0.9


def test_every_file_has_the_same_vectors(trained: Artifact) -> None:
    found = WordVectors.open(trained.path)
    keyed = KeyedVectors.load(str(Path(trained.path, "vectors.kv")))
    table = trained.to_table("word_vectors")
    assert table["word"].to_pylist() == list(found.words) == keyed.index_to_key
    assert table["frequency"].to_pylist() == [keyed.get_vecattr(word, "count") for word in found.words]
    for name in ("vectors.txt", "vectors.bin"):
        read = WordVectors.read(Path(trained.path, name))
        assert list(read.words) == list(found.words)
        assert np.array_equal(read.matrix, found.matrix) and np.array_equal(keyed.vectors, found.matrix)


def test_equal_inputs_give_equal_files(tmp_path: Path, trained: Artifact) -> None:
    other = ArtifactStore(tmp_path)
    again = run(word2vec, other, PARAMS, embedding_inputs(other, TEXTS[:50], TEXTS[50:])).artifact
    assert again.manifest.files == trained.manifest.files
    seeded = run(word2vec, other, PARAMS.model_copy(update={"seed": 2}), embedding_inputs(other, TEXTS)).artifact
    assert not np.array_equal(WordVectors.open(seeded.path).matrix, WordVectors.open(trained.path).matrix)


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_killed_run_resumes_after_its_last_epoch(tmp_path: Path, trained: Artifact, epochs: int) -> None:
    store = ArtifactStore(tmp_path)
    inputs = embedding_inputs(store, TEXTS[:50], TEXTS[50:])
    seen: list[tuple[int, int]] = []

    def killed(name: str, done: int, total: int, note: str = "") -> None:
        seen.append((done, total))
        if done == epochs:
            raise KeyboardInterrupt

    def watched(name: str, done: int, total: int, note: str = "") -> None:
        seen.append((done, total))

    with pytest.raises(KeyboardInterrupt):
        run(word2vec, store, PARAMS, inputs, on_progress=killed)
    resumed = run(word2vec, store, PARAMS, inputs, on_progress=watched).artifact
    assert seen == [*((done, 3) for done in range(epochs + 1)), *((done, 3) for done in range(epochs, 4))]
    assert resumed.manifest.files == trained.manifest.files


def test_skip_gram_and_threads_train_too(store: ArtifactStore, inputs: dict[str, Artifact]) -> None:
    for change in ({"skip_gram": True}, {"threads": 2}):
        params = PARAMS.model_copy(update=change)
        found = WordVectors.open(run(word2vec, store, params, inputs).artifact.path)
        assert np.isfinite(found.matrix).all() and found.matrix.shape == (24, 16)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"alpha": 0.01, "min_alpha": 0.1}, "min_alpha=0.1 is above alpha=0.01"),
        ({"window": 0}, "greater than or"),
        ({"alpha": 2.0}, "less than or equal to 1"),
    ],
)
def test_unusable_settings_are_refused(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Word2VecParams(**wrong)
