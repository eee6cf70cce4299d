"""Whole-word masking: its statistics, and properties that hold for every input."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.encoder.randomness import Stream, uniforms
from models.masking import Replacement, join_spans, mask_words
from models.tokenizer.special_ids import MASK, NUM_SPECIAL

VOCAB = 1000


def test_statistics_over_many_tokens() -> None:
    """Selected 15 %, of them 80/10/10, random tokens uniform, positions uniform, views independent."""
    rng = np.random.default_rng(0)
    rows, length = 1000, 162
    ids = np.concatenate([[2, *rng.integers(5, VOCAB, length - 2), 3] for _ in range(2 * rows)])
    starts = [np.concatenate([[1], 1 + np.flatnonzero(rng.random(length - 3) < 0.6) + 1]) for _ in range(2 * rows)]
    masked = mask_words(
        ids,
        starts,
        [length] * 2 * rows,
        vocab_size=VOCAB,
        seed=1,
        step=5,
        rows=np.repeat(np.arange(rows), 2),
        views=np.tile([0, 1], rows),
    )
    maskable = 2 * rows * (length - 2)
    assert len(masked.selected) / maskable == pytest.approx(0.15, abs=0.005)
    after = masked.input_ids[masked.selected]
    kept, hidden = after == masked.original, after == MASK
    replaced = after[~kept & ~hidden]
    assert hidden.mean() == pytest.approx(0.8, abs=0.01)
    assert kept.mean() == pytest.approx(0.1, abs=0.01)
    assert len(replaced) / len(after) == pytest.approx(0.1, abs=0.01)
    counts = np.bincount(replaced, minlength=VOCAB)
    assert counts[:NUM_SPECIAL].sum() == 0 and len(counts) == VOCAB  # the last token is drawn, none beyond it
    expected = len(replaced) / (VOCAB - NUM_SPECIAL)
    assert ((counts[NUM_SPECIAL:] - expected) ** 2 / expected).sum() < 1135  # 994 degrees of freedom, p = 0.001
    chosen = np.zeros((2 * rows, length))
    chosen.ravel()[masked.selected] = 1
    by_position = chosen[:, 1:-1].reshape(2 * rows, 10, -1).mean((0, 2))
    assert np.abs(by_position - 0.15).max() < 0.015
    assert chosen[:, [0, -1]].sum() == 0


def test_views_and_steps_and_rows_are_independent() -> None:
    length, starts = 2002, np.arange(1, 2001)
    ids = np.concatenate([[2], np.full(2000, 7), [3]])

    def chosen(row: int, view: int, step: int) -> np.ndarray:
        result = mask_words(
            ids, [starts], [length], vocab_size=VOCAB, seed=1, step=step, rows=np.array([row]), views=np.array([view])
        )
        out = np.zeros(length)
        out[result.selected] = 1
        return out

    base = chosen(3, 0, 9)
    for other in (chosen(3, 1, 9), chosen(4, 0, 9), chosen(3, 0, 10)):
        assert abs(np.corrcoef(base[1:-1], other[1:-1])[0, 1]) < 0.07


@st.composite
def packed(draw: st.DrawFn) -> dict[str, Any]:
    """Rows with special tokens strewn in, words of any length, some rows without any word."""
    ids, starts, lengths = [], [], []
    for _ in range(draw(st.integers(1, 5))):
        inner = draw(st.lists(st.integers(0, 30), max_size=40))
        ids += [2, *inner, 3]
        lengths.append(len(inner) + 2)
        places = draw(st.sets(st.integers(1, len(inner)))) if inner else set()
        starts.append(np.array(sorted(places), dtype=np.int32))
    return {"input_ids": np.array(ids), "word_starts": starts, "lengths": lengths}


@settings(max_examples=150, deadline=None)
@given(batch=packed(), probability=st.floats(0.01, 1.0), seed=st.integers(0, 2**63))
def test_properties(batch: dict[str, Any], probability: float, seed: int) -> None:
    rows = np.arange(len(batch["lengths"])) * 11
    masked = mask_words(**batch, vocab_size=31, seed=seed, step=0, rows=rows, probability=probability)
    before, after, selected = batch["input_ids"], masked.input_ids, set(masked.selected.tolist())
    assert (before[masked.selected] >= NUM_SPECIAL).all()  # special tokens are never selected
    assert (masked.original == before[masked.selected]).all()
    untouched = np.setdiff1d(np.arange(len(before)), masked.selected)
    assert (after[untouched] == before[untouched]).all()
    assert np.isin(after[masked.selected], [0, 1, 2, 3]).sum() == 0  # nor is any but [MASK] put in
    offset = 0
    for starts, length in zip(batch["word_starts"], batch["lengths"], strict=True):
        ends = np.append(starts[1:], length - 1) if len(starts) else starts
        words = [
            {offset + i for i in range(s, e) if before[offset + i] >= NUM_SPECIAL}
            for s, e in zip(starts, ends, strict=True)
        ]
        words = [word for word in words if word]
        assert all(word <= selected or not word & selected for word in words)  # words are whole
        assert any(word <= selected for word in words) == bool(words)  # at least one, where there is one
        outside = set(range(offset, offset + length)) - set().union(*words)
        assert not outside & selected
        offset += length


@settings(max_examples=50, deadline=None)
@given(batch=packed(), seed=st.integers(0, 1000))
def test_mask_of_a_row_does_not_depend_on_other_rows(batch: dict[str, Any], seed: int) -> None:
    rows = np.arange(len(batch["lengths"])) + 100
    masked = mask_words(**batch, vocab_size=31, seed=seed, step=4, rows=rows)
    offsets = np.cumsum([0, *batch["lengths"]])
    for i, row in enumerate(rows):
        alone = mask_words(
            batch["input_ids"][offsets[i] : offsets[i + 1]],
            batch["word_starts"][i : i + 1],
            batch["lengths"][i : i + 1],
            vocab_size=31,
            seed=seed,
            step=4,
            rows=np.array([row]),
        )
        assert (alone.input_ids == masked.input_ids[offsets[i] : offsets[i + 1]]).all()


def test_forced_word_is_uniform() -> None:
    rows, words = 4000, 8
    ids = np.tile([2, *range(5, 5 + words), 3], rows)
    starts = [np.arange(1, words + 1)] * rows
    masked = mask_words(
        ids, starts, [words + 2] * rows, vocab_size=31, seed=1, step=0, rows=np.arange(rows), probability=1e-9
    )
    assert len(masked.selected) == rows
    counts = np.bincount(masked.original - 5, minlength=words)
    assert ((counts - rows / words) ** 2 / (rows / words)).sum() < 24.3  # 7 degrees of freedom, p = 0.001


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"word_starts": [np.array([0, 2])]}, r"sequence 0 include 0: .*\[CLS\]"),
        ({"word_starts": [np.array([1, 4])]}, "sequence 0 include 4"),
        ({"word_starts": [np.array([2, 2])]}, "must increase"),
        ({"vocab_size": 5}, "leaves no token"),
        ({"probability": 1.5}, r"mask_probability must be in \[0, 1\], got 1.5"),
        ({"lengths": [4]}, "do not fit"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"word_starts": [np.array([1, 2])], "lengths": [5], "vocab_size": 31, "probability": 0.15}
    with pytest.raises(ValueError, match=message):
        mask_words(np.array([2, 7, 8, 9, 3]), **good | change, seed=0, step=0, rows=np.array([0]))


@settings(max_examples=150, deadline=None)
@given(batch=packed(), probability=st.floats(0.01, 1.0), most=st.integers(1, 20), seed=st.integers(0, 99))
def test_exact_numbers_match_a_plain_loop(batch: dict[str, Any], probability: float, most: int, seed: int) -> None:
    """BERT's data preparation, word by word: in random order, each taken where it still fits."""
    rows = np.arange(len(batch["lengths"]))
    masked = mask_words(**batch, vocab_size=VOCAB, seed=seed, step=0, rows=rows, probability=probability, most=most)
    expected: list[int] = []
    begin = 0
    for row, (length, starts) in enumerate(zip(batch["lengths"], batch["word_starts"], strict=True)):
        ids = batch["input_ids"][begin : begin + length]
        ends = [*starts[1:], length - 1]
        words = [
            (float(uniforms(seed, 0, [row], Stream.SELECT_WORD, int(start), 0)[0]), tokens)
            for start, end in zip(starts, ends, strict=False)
            if (tokens := [int(place) for place in range(start, end) if ids[place] >= NUM_SPECIAL])
        ]
        wanted, chosen = min(most, max(1, round(probability * length))), []
        for _, tokens in sorted(words):
            if len(chosen) + len(tokens) <= wanted:
                chosen += tokens
        expected += sorted(begin + place for place in chosen)
        begin += length
    assert masked.selected.tolist() == expected


def test_blocked_words_are_never_selected() -> None:
    ids, starts = np.array([2, *[7] * 40, 3]), [np.arange(1, 41, 2)]
    blocked = np.zeros(42, dtype=bool)
    blocked[[5, 12]] = True  # in the words 5-6 and 11-12
    given = {"lengths": [42], "vocab_size": VOCAB, "seed": 0, "rows": np.array([0]), "blocked": blocked}
    seen: set[int] = set()
    for step in range(60):
        for most in (None, 30):
            seen |= set(mask_words(ids, starts, step=step, probability=0.9, most=most, **given).selected.tolist())
    assert seen == set(range(1, 41)) - {5, 6, 11, 12}


def test_replacement_shares_are_the_given_ones() -> None:
    ids, starts = np.array([2, *[7] * 4000, 3]), [np.arange(1, 4001)]
    given = {"lengths": [4002], "vocab_size": VOCAB, "seed": 0, "step": 0, "rows": np.array([0]), "probability": 1.0}
    masked = mask_words(ids, starts, replacement=Replacement(0.3, 0.5), **given)
    after = masked.input_ids[masked.selected]
    assert (after == MASK).mean() == pytest.approx(0.3, abs=0.03)
    assert (after == 7).mean() == pytest.approx(0.2, abs=0.03)
    with pytest.raises(ValueError, match="must add up to at most 1"):
        Replacement(0.9, 0.2)


@given(st.data())
def test_joined_spans_are_words_of_their_own(data: st.DataObject) -> None:
    length = data.draw(st.integers(3, 40))
    starts = sorted(data.draw(st.sets(st.integers(1, length - 2), min_size=1)))
    places = sorted(data.draw(st.sets(st.integers(1, length - 1), max_size=8)))
    spans = np.array(list(zip(places[::2], places[1::2], strict=False)), dtype=np.int64).reshape(-1, 2)
    joined = join_spans(np.array(starts), spans, length).tolist()
    assert joined == sorted(set(joined))
    inside = {place for first, behind in spans.tolist() for place in range(first + 1, behind)}
    borders = {place for span in spans.tolist() for place in span if place < length - 1}
    assert set(joined) == (set(starts) - inside) | borders
