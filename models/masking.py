"""Dynamic whole-word masking of a packed batch, on the CPU, vectorised over its tokens.

Every draw is a function of (seed, step, global row, view, place in the row): see models/encoder/randomness.py. So a row
gets the same mask whichever rows share its batch, its two views are masked independently, and each epoch masks anew.

Shape legend: S sequences (a row's two views are two sequences), T tokens laid end to end, M selected tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from infra.arrays.ranges import ranges
from models.encoder.randomness import Stream, uniforms
from models.tokenizer.special_ids import MASK, NUM_SPECIAL


@dataclass(frozen=True)
class Replacement:
    """Shares of the selected tokens that become [MASK] and a random token; the rest stay as they are."""

    masked: float
    random: float

    def __post_init__(self) -> None:
        if min(self.masked, self.random) < 0.0 or self.masked + self.random > 1.0:
            raise ValueError(f"shares of [MASK] and random tokens must add up to at most 1, got {self}")


BERT = Replacement(0.8, 0.1)
"""Devlin et al., 2019, section 3.1."""
ELECTRA = Replacement(0.85, 0.0)
"""Clark et al., 2020: their released code keeps 15 % of the selected tokens and masks the others."""
WHOLE = Replacement(1.0, 0.0)
"""Every selected token is masked: ELECTRA+EM+PAP, section 3.1."""


class Masked(NamedTuple):
    """A masked batch; all int64."""

    input_ids: np.ndarray
    """(T,) ids with replacements in place."""
    selected: np.ndarray
    """(M,) indices into T of the selected tokens, increasing."""
    original: np.ndarray
    """(M,) the original ids at these indices."""


def mask_words(
    input_ids: np.ndarray,
    word_starts: Sequence[np.ndarray],
    lengths: Sequence[int],
    *,
    vocab_size: int,
    seed: int,
    step: int,
    rows: np.ndarray,
    views: np.ndarray | None = None,
    probability: float = 0.15,
    replacement: Replacement = BERT,
    most: int | None = None,
    blocked: np.ndarray | None = None,
    num_special: int = NUM_SPECIAL,
    mask_id: int = MASK,
) -> Masked:
    """Select whole words and replace their tokens: by default 80 % [MASK], 10 % random, 10 % kept.

    A word is whatever `word_starts` says: a character, a segmented word, or an entity (`join_spans`). As in the
    original whole-word masking of BERT, the choice of replacement is made for each token, not for each word. A random
    token is any ordinary one, also the original by chance. Special tokens inside a word stay, and a word of nothing
    else cannot be selected.

    Without `most` each word is selected independently with `probability`. A sequence whose draws select nothing then
    gets one of its words, chosen uniformly: without it a short row would give masked language modelling nothing to
    learn and a contrastive objective two equal views. With `most`, n = min(most, max(1, round(probability x length)))
    tokens of each sequence are selected, as BERT's own data preparation does: words in random order, each taken where
    its tokens still fit into n. A sequence with no ordinary token in any word stays as it is.

    Args:
        input_ids: integers (T,) of S sequences laid end to end, each with [CLS] first and [SEP] last.
        word_starts: of each sequence, the increasing token indices within it at which its words begin ([CLS] is 0); a
            word reaches to the next start or to the token before the last [SEP].
        lengths: tokens of each sequence, S numbers.
        rows: global row numbers (S,).
        views: views (S,); 0 where absent.
        most: the most tokens that are selected in a sequence.
        blocked: bool (T,), tokens that must not be selected; a word that holds one is left out whole.

    Raises:
        ValueError: `vocab_size` leaves no ordinary token, `probability` or `most` is impossible, or `word_starts`
            points outside its sequence.
    """
    if vocab_size <= num_special:
        raise ValueError(f"vocab_size={vocab_size} leaves no token besides the {num_special} special ones")
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"mask_probability must be in [0, 1], got {probability}")
    if most is not None and most < 1:
        raise ValueError(f"max_predictions must be at least 1, got {most}")
    rows_S = np.asarray(rows, dtype=np.int64)
    views_S = np.zeros_like(rows_S) if views is None else np.asarray(views, dtype=np.int64)
    lengths_S = np.asarray(lengths, dtype=np.int64)
    words = _Words.of(np.asarray(input_ids), word_starts, lengths_S, num_special, blocked)
    if most is None:
        chosen_W = _choose_words(words, seed, step, rows_S, views_S, probability)
    else:
        # BERT rounds half to even (Python's round), and so does numpy.
        wanted_S = np.minimum(most, np.maximum(1, np.round(probability * lengths_S).astype(np.int64)))
        chosen_W = _choose_exactly(words, seed, step, rows_S, views_S, wanted_S)
    selected = words.token[chosen_W[words.word_of_token]]
    draws = _Draws(seed, step, rows_S, views_S)
    return _replace(
        np.asarray(input_ids), selected, words.offsets, draws, replacement, vocab_size, num_special, mask_id
    )


def join_spans(word_starts: np.ndarray, spans: np.ndarray, length: int) -> np.ndarray:
    """Word starts of one sequence in which every span is a word of its own, to be masked whole.

    Words that a span cuts are cut there: 急性|肺炎球菌 with the span 肺炎 become 急性|肺炎|球菌.

    Args:
        word_starts: increasing token indices (W,).
        spans: integers (N, 2), first token and the one behind the last, in order and apart from each other.
        length: tokens of the sequence, [CLS] and [SEP] among them.

    Returns:
        Increasing token indices, int64.
    """
    first, behind = np.asarray(spans, dtype=np.int64).reshape(-1, 2).T
    starts = np.asarray(word_starts, dtype=np.int64)
    number = np.searchsorted(first, starts, side="right") - 1
    inside = (number >= 0) & (starts < behind[number]) if len(first) else np.zeros(len(starts), dtype=bool)
    # The token behind a span begins a word, but for [SEP]; it is one already where another span begins there.
    return np.unique(np.concatenate([starts[~inside], first, behind[behind < length - 1]]))


class _Words(NamedTuple):
    """Words of a packed batch as flat arrays: W words with at least one ordinary token, N ordinary tokens in them."""

    offsets: np.ndarray
    """(S+1,) first token of each sequence."""
    sequence: np.ndarray
    """(W,) sequence of each word."""
    start: np.ndarray
    """(W,) its first token, counted within its sequence: the key of its draws."""
    token: np.ndarray
    """(N,) indices into T of the ordinary tokens of words, increasing."""
    word_of_token: np.ndarray
    """(N,) word of each token, as an index into W."""

    @classmethod
    def of(
        cls,
        ids: np.ndarray,
        starts: Sequence[np.ndarray],
        lengths: np.ndarray,
        num_special: int,
        blocked: np.ndarray | None = None,
    ) -> "_Words":
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        counts = np.array([len(s) for s in starts], dtype=np.int64)
        if len(counts) != len(lengths) or offsets[-1] != len(ids):
            raise ValueError(
                f"{len(ids)} tokens and {len(counts)} lists of word starts do not fit {len(lengths)} lengths"
            )
        sequence = np.repeat(np.arange(len(lengths)), counts)
        start = np.concatenate([np.empty(0, np.int64), *(np.asarray(s, dtype=np.int64) for s in starts)])
        _check_starts(start, sequence, lengths)
        begin = offsets[sequence] + start
        last_of_sequence = np.append(sequence[1:] != sequence[:-1], True)[: len(begin)]
        end = np.where(last_of_sequence, offsets[sequence + 1] - 1, np.append(begin[1:], 0)[: len(begin)])
        token = ranges(begin, end)
        word = np.repeat(np.arange(len(begin)), end - begin)
        ordinary = ids[token] >= num_special
        if blocked is not None:
            ordinary &= ~np.isin(word, word[blocked[token]])
        token, word = token[ordinary], word[ordinary]
        kept, word_of_token = np.unique(word, return_inverse=True)
        return cls(offsets, sequence[kept], start[kept], token, word_of_token)


def _check_starts(start: np.ndarray, sequence: np.ndarray, lengths: np.ndarray) -> None:
    bad = (start < 1) | (start >= lengths[sequence] - 1)
    bad[1:] |= (np.diff(start) <= 0) & (sequence[1:] == sequence[:-1])
    if bad.any():
        where = int(np.flatnonzero(bad)[0])
        index = int(sequence[where])
        raise ValueError(
            f"word_starts of sequence {index} include {int(start[where])}: starts must increase and be "
            f"between [CLS] (0) and [SEP] ({int(lengths[index]) - 1}), both excluded"
        )


def _choose_words(
    words: _Words, seed: int, step: int, rows: np.ndarray, views: np.ndarray, probability: float
) -> np.ndarray:
    """Return bool (W,): drawn with `probability`, or forced because its sequence drew none."""
    row, view = rows[words.sequence], views[words.sequence]
    chosen = uniforms(seed, step, row, Stream.SELECT_WORD, words.start, view) < probability
    if probability == 0.0:
        return chosen
    count = np.bincount(words.sequence, minlength=len(rows))
    empty = (np.bincount(words.sequence, weights=chosen, minlength=len(rows)) == 0) & (count > 0)
    pick = (uniforms(seed, step, rows, Stream.FORCED_WORD, 0, views) * count).astype(np.int64)
    first = np.cumsum(count) - count
    chosen[(first + pick)[empty]] = True
    return chosen


def _choose_exactly(
    words: _Words, seed: int, step: int, rows: np.ndarray, views: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """bool (W,): words in random order, each taken where its tokens still fit into what its sequence wants, (S,)."""
    sizes = np.bincount(words.word_of_token, minlength=len(words.sequence))
    draw = uniforms(seed, step, rows[words.sequence], Stream.SELECT_WORD, words.start, views[words.sequence])
    order = np.lexsort((draw, words.sequence))
    chosen = np.zeros(len(sizes), dtype=bool)
    left = wanted.copy()
    # Each round takes the words up to the first one that does not fit, and drops that one: rounds end when no sequence
    # has both room and words, after as many as the words that did not fit in the fullest sequence.
    while len(order):
        sequence, size = words.sequence[order], sizes[order]
        before = np.cumsum(size) - size
        first = np.searchsorted(sequence, sequence)
        fits = before - before[first] + size <= left[sequence]
        # Only the words before the first misfit of their sequence are taken now.
        misfits = np.cumsum(~fits)
        taken = misfits - (misfits - ~fits)[first] == 0
        chosen[order[taken]] = True
        left -= np.bincount(sequence[taken], weights=size[taken], minlength=len(left)).astype(np.int64)
        dropped = ~fits & (misfits - (misfits - ~fits)[first] == 1)
        order = order[~taken & ~dropped & (left[sequence] > 0)]
    return chosen


class _Draws(NamedTuple):
    """What the draws of a batch are keyed by."""

    seed: int
    step: int
    rows: np.ndarray
    views: np.ndarray


def _replace(
    ids: np.ndarray,
    selected: np.ndarray,
    offsets: np.ndarray,
    draws: _Draws,
    shares: Replacement,
    vocab_size: int,
    num_special: int,
    mask_id: int,
) -> Masked:
    sequence = np.searchsorted(offsets, selected, side="right") - 1
    place, row, view = selected - offsets[sequence], draws.rows[sequence], draws.views[sequence]
    kind = uniforms(draws.seed, draws.step, row, Stream.REPLACEMENT_KIND, place, view)
    draw = uniforms(draws.seed, draws.step, row, Stream.RANDOM_TOKEN, place, view)
    random_ids = num_special + (draw * (vocab_size - num_special)).astype(np.int64)
    original = ids[selected].astype(np.int64)
    becomes_random = kind < shares.masked + shares.random
    replaced = np.where(kind < shares.masked, mask_id, np.where(becomes_random, random_ids, original))
    out = ids.astype(np.int64)
    out[selected] = replaced
    return Masked(out, selected.astype(np.int64), original)
