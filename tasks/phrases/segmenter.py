"""Phrasal segmentation without the program: the best cut of a sentence into good phrases and single words.

Liu et al. (SegPhrase, SIGMOD 2015, section 4.2): the score of a phrase is the product of its frequency among sequences
of its length, a penalty on length and its quality; dynamic programming finds the best cut. Details follow the program:
logarithms with `EPSILON`; a word at which no good phrase begins is single and costs nothing; names that are known to be
good but were too rare to be judged score like the most frequent phrase.

Time grows with the words times the length of phrases, memory with the phrases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Words = tuple[int, ...]


class Judged(NamedTuple):
    """A phrase as ids of words."""

    words: Words
    quality: float
    """From 0 to 1."""
    frequency: int


EPSILON = 1e-8

ROUNDS = 10
"""Number of times that the interval of the penalty is halved."""

MAX_PENALTY = 200.0

_SCORE = -1
"""Key of a node at which a phrase ends; words are 0 and more."""


def phrase_scores(phrases: Mapping[Words, tuple[float, float]], penalty: float) -> tuple[dict[Words, float], float]:
    """Return logarithmic scores of phrases, and the score of a name that was not judged.

    Args:
        phrases: frequency and quality by words.
        penalty: divisor for each word beyond the first.
    """
    lengths = np.array([len(words) for words in phrases], dtype=np.int64)
    frequency, quality = np.array(list(phrases.values()), dtype=np.float64).reshape(-1, 2).T
    share = frequency / np.maximum(np.bincount(lengths, frequency)[lengths], EPSILON)
    # The program's sum over lengths runs from 0 words to the most there are.
    powers = penalty ** -np.arange(lengths.max(initial=0) + 1, dtype=np.float64)
    scores = np.log(share + EPSILON) + np.log(powers / powers.sum())[lengths - 1] + np.log(quality + EPSILON)
    return dict(zip(phrases, scores.tolist(), strict=True)), math.log(share.max(initial=0.0) + EPSILON)


class Segmenter:
    """Finds the best cut of sentences into given phrases, which have scores."""

    def __init__(self, scores: Mapping[Words, float]) -> None:
        self._root: dict[int, Any] = {}
        for words, score in scores.items():
            node = self._root
            for word in words:
                node = node.setdefault(word, {})
            node[_SCORE] = score

    def spans(self, sentence: Sequence[int]) -> list[tuple[int, int]]:
        """Return the phrases of the best cut in order: first word and the word after the last."""
        # best[i]: score of the best cut of the first i words; begins[i]: where its last piece begins.
        length = len(sentence)
        best = [0.0, *[-math.inf] * length]
        begins, is_phrase = [0] * (length + 1), [False] * (length + 1)
        for start in range(length):
            if best[start] == -math.inf:  # inside a phrase that every cut takes whole
                continue
            node, alone = self._root, True
            for end in range(start + 1, length + 1):
                if (step := node.get(sentence[end - 1])) is None:
                    break
                node = step
                if (score := node.get(_SCORE)) is not None:
                    alone = False
                    if best[start] + score > best[end]:
                        best[end], begins[end], is_phrase[end] = best[start] + score, start, True
            if alone and best[start] > best[start + 1]:
                best[start + 1], begins[start + 1], is_phrase[start + 1] = best[start], start, False
        found, end = [], length
        while end > 0:
            if is_phrase[end]:
                found.append((begins[end], end))
            end = begins[end]
        return found[::-1]


def length_penalty(phrases: Mapping[Words, tuple[float, float]], good: Iterable[Words], discard: float) -> float:
    """Return the penalty at which about a share `discard` of the phrases known to be good would be cut up."""
    wanted = [words for words in good if words in phrases]
    lower, upper = EPSILON, MAX_PENALTY
    for _ in range(ROUNDS):
        penalty = (lower + upper) / 2
        segmenter = Segmenter(phrase_scores(phrases, penalty)[0])
        cut_up = sum(segmenter.spans(words) != [(0, len(words))] for words in wanted)
        if cut_up <= discard * len(wanted):
            lower = penalty
        else:
            upper = penalty
    return penalty
