"""Segmentation of long entities into their parts (EMBERT, appendix).

A candidate is split at the cut points, and jieba (rjieba, with the short entities as its user dictionary) cuts each
part. If too many pieces are single characters, the cut is considered wrong and corrected with AutoPhrase: with its
phrases, so that the fewest single characters remain, or, as in the paper, with its own segmentation of the entity if
that is given (which is a little worse). A candidate that remains in one piece is a short entity after all.

Where the paper leaves details open:
- Candidates are cut in order of length, and those that turn out to be short enter the dictionary before longer ones are
  cut. So 依维莫司, a word that jieba does not know, stays whole in 依维莫司片.
- A suffix (性, 症) that jieba cuts off joins the piece before it; so do the parts of a number, or of Latin letters.
  障碍性 names nothing without the word before it: 再生障碍性|贫血, the paper's example.
- jieba guesses words that its dictionary lacks with its hidden Markov model. If too many single characters are left
  even so, the guess is considered wrong, and the candidate is cut without it.
- If there are still too many single characters, runs that no phrase explains become one unknown word.

Time grows with the characters of the surfaces, and with the square of their length for those that are corrected (names
are short); memory with the surfaces.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import rjieba

from kg.entities.cut_points import CutPoints
from kg.entities.entity_vocabulary import is_long_candidate, read_stop_words

SUFFIXES = frozenset("性型期度状样症病炎瘤癌疹征感内下")
"""Characters that form a word with the text before them and mean nothing alone, as jieba may cut them."""

BOUND_WORDS = frozenset({"障碍性"})
"""Words that mean nothing without the one before them: 再生障碍性, not 再生|障碍性."""

_INSIDE = re.compile(r"[0-9A-Za-z]{2}|[0-9][.%]|\.[0-9]")
"""Two characters with a border between them that is inside a number or Latin letters: `5.`, `DN`; not `3期`."""


class Segmentation(NamedTuple):
    """The pieces of an entity; they join to its surface."""

    pieces: tuple[str, ...]

    @property
    def is_long(self) -> bool:
        """Whether the entity has several pieces."""
        return len(self.pieces) > 1

    @property
    def atomic(self) -> str:
        """The last piece: the core term (贫血 in 再生障碍性贫血), with any punctuation that ends the surface."""
        return "".join(self.pieces[self._core() :])

    @property
    def adjective(self) -> str:
        """The pieces before the atomic term, merged; empty for a short entity."""
        return "".join(self.pieces[: self._core()])

    def _core(self) -> int:
        words = [at for at, piece in enumerate(self.pieces) if _is_word(piece)]
        return words[-1] if words else 0


class EntitySegmenter:
    """Cuts entities; words given to `learn` stay whole.

    Args:
        cut_points: where to cut first.
        phrases: AutoPhrase's phrases with their quality from 0 to 1.
        max_single_share: share of single characters among the pieces above which they are too many.
        corrections: segments, by surface, that replace such a cut; other surfaces are corrected with phrases.
        hmm: guess words that the dictionary lacks with jieba's hidden Markov model.
    """

    def __init__(
        self,
        cut_points: CutPoints,
        phrases: Mapping[str, float] | None = None,
        max_single_share: float = 0.3,
        corrections: Mapping[str, Sequence[str]] | None = None,
        hmm: bool = True,
    ) -> None:
        self._cut_points = cut_points
        self._phrases = phrases or {}
        self._corrections = corrections or {}
        self._max_single_share = max_single_share
        self._hmm = hmm
        self._jieba = rjieba.Jieba()

    def learn(self, words: Iterable[str]) -> None:
        """Add words to the user dictionary, in sorted order, because a word's probability depends on earlier ones."""
        for word in sorted(words, key=lambda word: (len(word), word)):
            self._jieba.add_word(word, None, None)

    def cut(self, surface: str) -> Segmentation:
        """Cut a surface into pieces."""
        parts = self._cut_points.split(surface)
        pieces = self._words_of(parts, self._hmm)
        if self._hmm and self._has_too_many_singles(pieces):
            pieces = self._words_of(parts, hmm=False)  # a wrong guess: 双氯芬|酸|二乙胺
        if self._has_too_many_singles(pieces):
            corrected = self._corrections.get(surface)
            pieces = merge_phrases(pieces, self._phrases) if corrected is None else join_bound(corrected)
        if self._has_too_many_singles(pieces):
            pieces = _merge_singles(pieces)
        return Segmentation(tuple(pieces))

    def _words_of(self, parts: Iterable[str], hmm: bool) -> list[str]:
        return join_bound([piece for part in parts for piece in self._jieba.cut(part, hmm)])

    def _has_too_many_singles(self, pieces: Sequence[str]) -> bool:
        return sum(map(_is_single, pieces)) > self._max_single_share * sum(map(_is_word, pieces))


def segment_entities(
    surfaces: Iterable[str],
    cut_points: CutPoints,
    phrases: Mapping[str, float] | None = None,
    max_single_share: float = 0.3,
    corrections: Mapping[str, Sequence[str]] | None = None,
    hmm: bool = True,
) -> dict[str, Segmentation]:
    """Return the pieces of every distinct surface, sorted by surface; the order of the input does not matter.

    Surfaces of at most three characters are short entities and form the user dictionary; `Segmentation.is_long` is true
    for those of the others that are really long. The other arguments are those of `EntitySegmenter`.
    """
    distinct = sorted(set(surfaces))
    segmenter = EntitySegmenter(cut_points, phrases, max_single_share, corrections, hmm)
    found = {surface: Segmentation((surface,)) for surface in distinct if not is_long_candidate(surface)}
    segmenter.learn(found)
    for _, group in itertools.groupby(sorted(filter(is_long_candidate, distinct), key=len), key=len):
        cut = {surface: segmenter.cut(surface) for surface in group}
        segmenter.learn(surface for surface, segmentation in cut.items() if not segmentation.is_long)
        found |= cut
    return {surface: found[surface] for surface in distinct}


def join_bound(pieces: Sequence[str]) -> list[str]:
    """Join pieces that cannot be separate: a suffix and the word before it, parts of a number, Latin letters."""
    joined: list[str] = []
    for piece in pieces:
        left = joined[-1] if joined else ""
        if (piece in SUFFIXES and _can_take_suffix(left)) or _INSIDE.fullmatch(left[-1:] + piece[0]):
            joined[-1] += piece
        else:
            joined.append(piece)
        if joined[-1] in BOUND_WORDS and len(joined) > 1 and _can_take_suffix(joined[-2]):
            joined[-2:] = [joined[-2] + joined[-1]]
    return joined


def _can_take_suffix(piece: str) -> bool:
    return _is_word(piece) and piece not in read_stop_words()


def merge_phrases(pieces: Sequence[str], phrases: Mapping[str, float]) -> list[str]:
    """Merge neighbouring pieces that make a phrase so that the fewest single characters are left.

    Ties go to the most pieces, then to the highest product of qualities, then to the latest merge. Time grows with the
    square of the number of pieces.
    """
    # Best way to cover the first n pieces, where smaller is better: (single characters, −pieces, −product of
    # qualities), and where its last piece begins.
    best: list[tuple[tuple[int, int, float], int]] = [((0, 0, -1.0), 0)]
    for end in range(1, len(pieces) + 1):
        ways = []
        for start in range(end):
            quality = phrases.get("".join(pieces[start:end]), 0.0) if end - start > 1 else 1.0
            if quality:
                singles, number, product = best[start][0]
                alone = end - start == 1 and _is_single(pieces[start])
                ways.append(((singles + alone, number - 1, product * quality), start))
        best.append(min(ways))
    merged: list[str] = []
    end = len(pieces)
    while end:
        start = best[end][1]
        merged.append("".join(pieces[start:end]))
        end = start
    return merged[::-1]


def _merge_singles(pieces: Sequence[str]) -> list[str]:
    """Merge every run of single characters into one piece; words like 的 and 或 stay separate."""
    stop_words = read_stop_words()
    unknown = [_is_single(piece) and piece not in stop_words for piece in pieces]
    merged: list[str] = []
    for at, piece in enumerate(pieces):
        if at and unknown[at - 1] and unknown[at]:
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


def _is_word(piece: str) -> bool:
    return any(map(str.isalnum, piece))


def _is_single(piece: str) -> bool:
    return len(piece) == 1 and piece.isalnum()
