"""Co-occurrence counts: those of a plain dictionary, whatever the parts, the partitions and the size of the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import run
from tasks.embed import cooccurrences as module
from tasks.embed.cooccurrences import CooccurrencesParams, cooccurrences
from tasks.embed.pair_counts import LONGEST_WINDOW, count_pairs, hashes, in_order, unit
from tests.support.text.words import embedding_inputs, topical_texts

sequences = st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=1, max_size=6)


def plain(texts: Sequence[Sequence[int]], window: int) -> dict[tuple[int, int], Fraction]:
    """X of GloVe, section 3: both directions, each pair of places within the window."""
    found: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for text in texts:
        for place, word in enumerate(text):
            for other in range(max(0, place - window), min(len(text), place + window + 1)):
                if other != place:
                    found[word, text[other]] += Fraction(1, abs(place - other))
    return found


def laid_out(texts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    flat = np.array([word for text in texts for word in text], dtype=np.uint32)
    return flat, np.cumsum([0, *map(len, texts)]).astype(np.int64)


@given(texts=sequences, window=st.integers(1, LONGEST_WINDOW), slots=st.sampled_from([2, 64, 1024]))
def test_counts_are_exactly_those_of_a_dictionary(texts: list[list[int]], window: int, slots: int) -> None:
    found = list(count_pairs(*laid_out(texts), window, slots))
    merged = in_order(np.concatenate([one.keys for one in found]), np.concatenate([one.sums for one in found]))
    ours = {
        (int(row), int(column)): Fraction(int(total), unit(window))
        for row, column, total in zip(merged.rows, merged.columns, merged.sums, strict=True)
    }
    assert len(ours) == len(merged.keys)
    # The upper triangle stands for both directions.
    assert ours == {pair: count for pair, count in plain(texts, window).items() if pair[0] <= pair[1]}
    order = hashes(merged.keys)
    assert (order[1:] > order[:-1]).all()


def test_a_small_table_is_emptied_again_and_again() -> None:
    drawn = np.random.default_rng(0)
    texts = [drawn.integers(0, 500, 20).tolist() for _ in range(200)]
    assert len(list(count_pairs(*laid_out(texts), 5, 512))) > 20
    assert len(list(count_pairs(*laid_out(texts), 5))) == 1


def test_large_rows_do_not_collide() -> None:
    high = 2**32 - 2
    (found,) = count_pairs(np.array([high, 3, high], dtype=np.uint32), np.array([0, 3]), 2)
    assert sorted(zip(found.rows.tolist(), found.columns.tolist(), found.sums.tolist(), strict=True)) == [
        (3, high, 4),
        (high, high, 2),
    ]


def rows_of(artifact: Artifact) -> list[tuple[int, int, float]]:
    table = artifact.to_table("cooccurrences")
    return list(zip(*(table[name].to_pylist() for name in ("row", "column", "count")), strict=True))


def test_the_result_does_not_depend_on_partitions_or_parts(
    tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = topical_texts(seed=2, topics=2, words_per_topic=9, texts=40, length=25)
    wanted = None
    for number, (pairs_at_once, parts) in enumerate(
        [(1 << 24, [texts]), (1000, [texts]), (700, [texts[:9], texts[9:]])]
    ):
        monkeypatch.setattr(module, "PAIRS_AT_ONCE", pairs_at_once)
        store = ArtifactStore(tmp_path / str(number))
        given_ = embedding_inputs(store, *parts)
        found = run(cooccurrences, store, CooccurrencesParams(), given_).artifact
        wanted = wanted or rows_of(found)
        assert rows_of(found) == wanted
    assert len(found.parts()) > 20
    rows = {word: row for row, word in enumerate(given_["words"].to_table()["word"].to_pylist())}
    reference = plain([[rows[word] for word in text] for text in texts], 15)
    assert {(row, column): count for row, column, count in wanted} == {
        pair: float(np.float32(float(count))) for pair, count in reference.items() if pair[0] <= pair[1]
    }


def test_files_that_a_killed_run_left_are_not_added_twice(
    tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = topical_texts(seed=3, topics=2, words_per_topic=60, texts=60, length=20)
    store = ArtifactStore(tmp_path / "killed")
    inputs = embedding_inputs(store, texts)
    monkeypatch.setattr(module, "SLOTS", 1 << 11)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module.PartWriter, "count", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        run(cooccurrences, store, CooccurrencesParams(), inputs)
    monkeypatch.setattr(module, "SLOTS", 1 << 16)
    resumed = run(cooccurrences, store, CooccurrencesParams(), inputs).artifact
    other = ArtifactStore(tmp_path / "other")
    assert rows_of(resumed) == rows_of(
        run(cooccurrences, other, CooccurrencesParams(), embedding_inputs(other, texts)).artifact
    )


@settings(max_examples=5)
@given(window=st.integers(LONGEST_WINDOW + 1, 100))
def test_longer_windows_are_refused(window: int) -> None:
    with pytest.raises(ValueError, match="less than or equal to 20"):
        CooccurrencesParams(window=window)
