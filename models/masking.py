"""Dynamic whole-word masking of a packed batch, on the CPU, vectorised over its tokens.

Every draw is a function of (seed, step, global row, view, place in the row): see models/encoder/randomness.py. So a row
gets the same mask whichever rows share its batch, its two views are masked independently, and each epoch masks anew.

Shape legend: S sequences (a row's two views are two sequences), T tokens laid end to end, M selected tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from models.encoder.randomness import Stream, uniforms

PAD, UNK, CLS, SEP, MASK = range(5)
NUM_SPECIAL = 5
"""Number of special ids, [PAD] [UNK] [CLS] [SEP] [MASK], which are never selected nor drawn as a replacement."""

MASKED_SHARE = 0.8
RANDOM_SHARE = 0.1
"""Shares of selected tokens that become [MASK] (80 %) or a random token (10 %); the rest stay unchanged (Devlin et al.,
2019, section 3.1).
"""


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
    num_special: int = NUM_SPECIAL,
    mask_id: int = MASK,
) -> Masked:
    """Select whole words, each independently with `probability`, and replace their tokens: 80 % [MASK], 10 %
    random, 10 % kept.

    `input_ids` is an integer array (T,) of S sequences laid end to end, `lengths` their S lengths, each with [CLS]
    first and [SEP] last. `word_starts[i]` holds the increasing token indices, within sequence i, at which its words
    begin ([CLS] is 0); a word extends to the next start or to the token before [SEP]. `rows` (S,) are global row
    numbers and `views` (S,) the views, 0 if not given.

    As in BERT's original whole-word masking, the 80/10/10 choice is made per token, not per word. A random replacement
    is any ordinary token, by chance also the original. Special tokens inside a word stay, and a word of nothing else
    cannot be selected. If the draws select nothing in a sequence, one of its words is chosen uniformly: otherwise a
    short row would give MLM nothing to learn and CSP two equal views. A sequence without ordinary tokens in words does
    not change.

    Raises ValueError if `vocab_size` leaves no ordinary token, `probability` is outside [0, 1] or `word_starts` points
    outside its sequence.
    """
    if vocab_size <= num_special:
        raise ValueError(f"vocab_size={vocab_size} leaves no token besides the {num_special} special ones")
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"mask_probability must be in [0, 1], got {probability}")
    rows_S = np.asarray(rows, dtype=np.int64)
    views_S = np.zeros_like(rows_S) if views is None else np.asarray(views, dtype=np.int64)
    words = _Words.of(np.asarray(input_ids), word_starts, np.asarray(lengths, dtype=np.int64), num_special)
    chosen_W = _choose_words(words, seed, step, rows_S, views_S, probability)
    selected = words.token[chosen_W[words.word_of_token]]
    return _replace(
        np.asarray(input_ids),
        selected,
        words.offsets,
        seed,
        step,
        rows_S,
        views_S,
        vocab_size,
        num_special,
        mask_id,
    )


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
    def of(cls, ids: np.ndarray, starts: Sequence[np.ndarray], lengths: np.ndarray, num_special: int) -> "_Words":
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
        token = _ranges(begin, end)
        word = np.repeat(np.arange(len(begin)), end - begin)
        ordinary = ids[token] >= num_special
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


def _ranges(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the numbers begin[i] to end[i] - 1 of all i, end to end: begin (2, 7), end (4, 8) give 2, 3, 7."""
    sizes = end - begin
    first = np.cumsum(sizes) - sizes
    return np.arange(sizes.sum()) + np.repeat(begin - first, sizes)


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


def _replace(
    ids: np.ndarray,
    selected: np.ndarray,
    offsets: np.ndarray,
    seed: int,
    step: int,
    rows: np.ndarray,
    views: np.ndarray,
    vocab_size: int,
    num_special: int,
    mask_id: int,
) -> Masked:
    sequence = np.searchsorted(offsets, selected, side="right") - 1
    place, row, view = selected - offsets[sequence], rows[sequence], views[sequence]
    kind = uniforms(seed, step, row, Stream.REPLACEMENT_KIND, place, view)
    draw = uniforms(seed, step, row, Stream.RANDOM_TOKEN, place, view)
    random_ids = num_special + (draw * (vocab_size - num_special)).astype(np.int64)
    original = ids[selected].astype(np.int64)
    replaced = np.where(
        kind < MASKED_SHARE, mask_id, np.where(kind < MASKED_SHARE + RANDOM_SHARE, random_ids, original)
    )
    out = ids.astype(np.int64)
    out[selected] = replaced
    return Masked(out, selected.astype(np.int64), original)
