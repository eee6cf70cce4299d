"""GloVe: Stanford's steps in plain numpy, its gradient, the same bits for any number of threads, and a resumed run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from models.word_vectors import WordVectors
from tasks.embed import cooccurrences as counting
from tasks.embed import glove as training
from tasks.embed.adagrad import BLOCKS, Parameters, chunk_of, train_chunk
from tasks.embed.cooccurrences import CooccurrencesParams, cooccurrences
from tasks.embed.glove import GloveParams, glove
from tests.support.text.words import embedding_inputs, topical_texts

TEXTS = topical_texts(seed=1, topics=3, words_per_topic=20, texts=60, length=40)
PARAMS = GloveParams(dimensions=10, epochs=3)

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def random_pairs(seed: int, words: int, number: int) -> Pairs:
    """Distinct pairs of the upper triangle with counts on both sides of x_max."""
    drawn = np.random.default_rng(seed)
    rows, columns = np.triu_indices(words)
    chosen = drawn.permutation(len(rows))[:number]
    counts = np.exp(drawn.normal(0.5, 1.5, len(chosen))).astype(np.float32)
    return rows[chosen].astype(np.uint32), columns[chosen].astype(np.uint32), counts


def stanford(pairs: Pairs, vectors: np.ndarray, biases: np.ndarray, x_max: float, alpha: float, rate: float) -> float:
    """One epoch of Stanford's program: `vectors` (2, W, D) and `biases` (2, W) of words and contexts change."""
    squares, bias_squares, cost = np.ones_like(vectors), np.ones_like(biases), 0.0
    for row, column, count in zip(*pairs, strict=True):
        for i, j in dict.fromkeys([(row, column), (column, row)]):
            w, c = vectors[0, i].copy(), vectors[1, j].copy()
            difference = w @ c + biases[0, i] + biases[1, j] - np.log(count)
            weighted = (1.0 if count > x_max else (count / x_max) ** alpha) * difference
            cost += 0.5 * weighted * difference
            for side, word, gradient in ((0, i, weighted * c), (1, j, weighted * w)):
                vectors[side, word] -= rate * gradient / np.sqrt(squares[side, word])
                squares[side, word] += (rate * gradient) ** 2
                biases[side, word] -= rate * weighted / np.sqrt(bias_squares[side, word])
                bias_squares[side, word] += (rate * weighted) ** 2
    return cost


def in_cells(pairs: Pairs) -> Pairs:
    """Pairs in the order that tasks/embed/adagrad.py states: by round, and by block within it."""
    blocks = [(int(row) % BLOCKS, int(column) % BLOCKS) for row, column in zip(pairs[0], pairs[1], strict=True)]
    places = sorted(range(len(blocks)), key=lambda place: (sum(blocks[place]) % BLOCKS, min(blocks[place])))
    return tuple(array[places] for array in pairs)  # type: ignore[return-value]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("width", [5, 16])
def test_an_epoch_is_that_of_stanfords_formula(width: int, threads: int) -> None:
    pairs = random_pairs(seed=4, words=40, number=700)
    ours = Parameters.start(40, width, seed=3)
    vectors = np.stack([ours.words, ours.contexts]).astype(np.float64)[:, :, :width]
    biases = np.stack([ours.word_biases, ours.context_biases]).astype(np.float64)
    # A high rate: at Stanford's 0.05 an epoch of few pairs hardly depends on the sums of squares.
    wanted = stanford(in_cells(pairs), vectors, biases, 10.0, 0.75, 0.5)
    with ThreadPoolExecutor(threads) as pool:
        cost = train_chunk(ours, chunk_of(*pairs, 10.0, 0.75), 0.5, pool)
    assert cost == pytest.approx(wanted, rel=1e-5)
    assert np.abs(vectors).max() > 0.3
    for side, (found, bias) in enumerate(((ours.words, ours.word_biases), (ours.contexts, ours.context_biases))):
        assert np.abs(found[:, :width] - vectors[side]).max() < 1e-5
        assert np.abs(bias - biases[side]).max() < 1e-5
        assert not found[:, width:].any()


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), count=st.floats(0.1, 100), equal=st.booleans())
def test_a_step_is_the_gradient_of_the_loss(seed: int, count: float, equal: bool) -> None:
    i, j = (2, 2) if equal else (2, 5)
    pair = np.array([i], np.uint32), np.array([j], np.uint32), np.array([count], np.float32)
    before, after = Parameters.start(8, 8, seed), Parameters.start(8, 8, seed)
    with ThreadPoolExecutor(1) as pool:
        train_chunk(after, chunk_of(*pair, 10.0, 0.75), 1.0, pool)
    log = float(np.log(np.float32(count)))
    weight = min(1.0, (float(np.float32(count)) / 10.0) ** 0.75)

    def loss(arrays: dict[str, np.ndarray]) -> float:
        total = 0.0
        for one, other in {(i, j), (j, i)}:
            dot = arrays["words"][one] @ arrays["contexts"][other]
            total += weight * (dot + arrays["word_biases"][one] + arrays["context_biases"][other] - log) ** 2 / 2
        return total

    start = {name: array.astype(np.float64) for name, array in before.arrays().items()}
    for name in ("words", "contexts", "word_biases", "context_biases"):
        numeric = np.zeros_like(start[name])
        for place in np.ndindex(*numeric.shape):
            both = []
            for sign in (1, -1):
                moved = {**start, name: start[name].copy()}
                moved[name][place] += sign * 1e-4
                both.append(loss(moved))
            numeric[place] = (both[0] - both[1]) / 2e-4
        # The rate is 1 and squares begin at 1, and a pair's two directions share no parameter.
        step = start[name] - after.arrays()[name]
        assert np.abs(step - numeric).max() < 1e-4 * max(1.0, np.abs(numeric).max())


def test_rounds_share_no_block_and_hold_every_pair() -> None:
    pairs = random_pairs(seed=5, words=60, number=1500)
    chunk = chunk_of(*pairs, 10.0, 0.75)
    for number in range(BLOCKS):
        seen: set[int] = set()
        for cell in range(number * BLOCKS, (number + 1) * BLOCKS):
            own = slice(chunk.borders[cell], chunk.borders[cell + 1])
            blocks = set((chunk.rows[own] % BLOCKS).tolist()) | set((chunk.columns[own] % BLOCKS).tolist())
            assert len(blocks) <= 2 and not blocks & seen
            seen |= blocks
    assert chunk.borders[0] == 0 and chunk.borders[-1] == 1500
    assert sorted(zip(chunk.rows, chunk.columns, strict=True)) == sorted(zip(*pairs[:2], strict=True))


def test_threads_change_no_bit() -> None:
    pairs = random_pairs(seed=6, words=300, number=20_000)
    chunk, found = chunk_of(*pairs, 10.0, 0.75), []
    for threads in (1, 2, 8):
        parameters = Parameters.start(300, 20, seed=1)
        with ThreadPoolExecutor(threads) as pool:
            costs = [train_chunk(parameters, chunk, 0.05, pool) for _ in range(2)]
        found.append((costs, [array.tobytes() for array in parameters.arrays().values()]))
    assert found[0] == found[1] == found[2]


def inputs_of(store: ArtifactStore) -> dict[str, Artifact]:
    found = embedding_inputs(store, TEXTS[:20], TEXTS[20:])
    pairs = run(cooccurrences, store, CooccurrencesParams(), found).artifact
    return {"words": found["words"], "cooccurrences": pairs}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def trained(store: ArtifactStore) -> Artifact:
    return run(glove, store, PARAMS, inputs_of(store)).artifact


def test_vectors_are_the_sums_of_words_and_contexts(store: ArtifactStore, trained: Artifact) -> None:
    inputs = inputs_of(store)
    table = inputs["cooccurrences"].to_table()
    columns = [table[name].to_numpy() for name in ("row", "column", "count")]
    parameters = Parameters.start(inputs["words"].rows(), 10, seed=1)
    chunk = chunk_of(columns[0], columns[1], columns[2], 10.0, 0.75)
    with ThreadPoolExecutor(1) as pool:
        losses = [train_chunk(parameters, chunk, 0.05, pool) / len(table) for _ in range(3)]
    assert np.array_equal(WordVectors.open(trained.path).matrix, (parameters.words + parameters.contexts)[:, :10])
    lines = Path(trained.path, "losses.csv").read_text().splitlines()
    assert lines == ["epoch,loss", *(f"{epoch},{loss:.6f}" for epoch, loss in enumerate(losses, start=1))]
    assert losses[2] < losses[0]


def test_words_of_a_topic_are_near_each_other(store: ArtifactStore) -> None:
    # GloVe sees no pair that never occurs: topics without a common word would not be told apart.
    mixed = topical_texts(seed=1, topics=3, words_per_topic=20, texts=300, length=40, noise=0.2)
    inputs = embedding_inputs(store, mixed)
    pairs = run(cooccurrences, store, CooccurrencesParams(), inputs).artifact
    given_ = {"words": inputs["words"], "cooccurrences": pairs}
    found = WordVectors.open(run(glove, store, GloveParams(dimensions=10, epochs=25), given_).artifact.path)
    near = [(word, other) for word in found.words[:30] for other, _ in found.nearest(word, 3)]
    assert np.mean([one[0] == other[0] for one, other in near]) > 0.9


def test_partitions_and_workers_change_no_file(
    tmp_path: Path, trained: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "PAIRS_AT_ONCE", 3000)
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    other = ArtifactStore(tmp_path)
    inputs = inputs_of(other)
    assert len(inputs["cooccurrences"].parts()) > 5
    assert run(glove, other, PARAMS, inputs).artifact.manifest.files == trained.manifest.files


def test_pieces_of_the_pairs_ignore_the_borders_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "PAIRS_AT_ONCE", 100)
    found = []
    for number, pairs_at_once in enumerate((1 << 24, 3000)):
        monkeypatch.setattr(counting, "PAIRS_AT_ONCE", pairs_at_once)
        store = ArtifactStore(tmp_path / str(number))
        inputs = inputs_of(store)
        assert inputs["cooccurrences"].rows() > 500
        found.append(run(glove, store, PARAMS, inputs).artifact.manifest.files)
    assert found[0] == found[1]


def test_a_killed_run_resumes_after_its_last_epoch(tmp_path: Path, trained: Artifact) -> None:
    store = ArtifactStore(tmp_path)
    seen: list[int] = []

    def killed(name: str, done: int, total: int, note: str = "") -> None:
        if done == 2:
            raise KeyboardInterrupt

    def watched(name: str, done: int, total: int, note: str = "") -> None:
        seen.append(done)

    inputs = inputs_of(store)
    with pytest.raises(KeyboardInterrupt):
        run(glove, store, PARAMS, inputs, on_progress=killed)
    assert run(glove, store, PARAMS, inputs, on_progress=watched).artifact.manifest.files == trained.manifest.files
    assert seen == [2, 3]


def test_divergence_names_the_setting(store: ArtifactStore) -> None:
    params = PARAMS.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(UserError, match=r"The loss of epoch \d is not a number\. Lower glove\.learning_rate"):
        run(glove, store, params, inputs_of(store))
