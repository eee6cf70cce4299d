"""Alignment of the output of `segphrase_segment` with the characters of our segments.

The program writes one line per sentence: ids of words, with <phrase> and </phrase> around phrases. It drops marks and
splits lines, but keeps all words in order; so the n-th word of the output is the n-th word of the input.

Time and memory grow with the words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tasks.phrases.words import Vocabulary

_OPEN, _CLOSE = -2, -3


class AlignmentError(ValueError):
    """The program's output does not match its input."""


def marked_words(output: bytes, expected: np.ndarray) -> np.ndarray:
    """Return the phrases in the program's output: first word and the word after the last, counted through all lines.

    Args:
        output: everything that the program wrote.
        expected: ids of the words in its input, int (W,); `Vocabulary.unknown` is written as -1.

    Returns:
        int64 (P, 2), in order.

    Raises:
        AlignmentError: the words differ, or a mark has no partner.
    """
    numbers = output.replace(b"</phrase>", str(_CLOSE).encode()).replace(b"<phrase>", str(_OPEN).encode())
    try:
        pieces = np.array(numbers.split(), dtype=np.int64)
    except ValueError as error:
        raise AlignmentError(f"it contains something other than words: {error}") from error
    is_word = pieces > _OPEN
    _check_words(pieces[is_word], np.where(expected == Vocabulary.unknown, -1, expected))
    words_before = np.cumsum(is_word)[~is_word]
    marks = pieces[~is_word]
    if len(marks) % 2 or (marks[::2] != _OPEN).any() or (marks[1::2] != _CLOSE).any():
        raise AlignmentError("a phrase begins or ends without its partner")
    spans = words_before.reshape(-1, 2)
    if (spans[:, 0] >= spans[:, 1]).any():
        raise AlignmentError("a phrase has no word")
    return spans


def _check_words(written: np.ndarray, given: np.ndarray) -> None:
    if not np.array_equal(written, given):
        shared = min(len(written), len(given))
        differ = np.flatnonzero(written[:shared] != given[:shared])
        place = int(differ[0]) if len(differ) else shared
        raise AlignmentError(
            f"it has {len(written):,} words instead of {len(given):,}, different from word {place:,} on"
        )


@dataclass(frozen=True)
class CharacterSpans:
    """Phrases of some texts, in order."""

    starts: np.ndarray
    """First character of each phrase in its text, int (P,)."""
    ends: np.ndarray
    """Character after its last, int (P,)."""
    borders: np.ndarray
    """Phrase at which each text begins, and the number of phrases, int (T + 1,)."""

    def by_text(self) -> list[list[tuple[int, int]]]:
        """Return the phrases of each text."""
        pairs = list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))
        borders = self.borders.tolist()
        return [pairs[start:end] for start, end in pairwise(borders)]


def to_characters(spans: np.ndarray, starts: np.ndarray, ends: np.ndarray, borders: np.ndarray) -> CharacterSpans:
    """Convert spans of words to spans of characters.

    Args:
        spans: first word and the word after the last, int (P, 2), in order, none across a border.
        starts, ends: characters of each word in its text, int (W,).
        borders: word at which each text begins, and the number of words, int (T + 1,).
    """
    first, last = spans[:, 0], spans[:, 1] - 1
    return CharacterSpans(starts[first], ends[last], np.searchsorted(first, borders))
