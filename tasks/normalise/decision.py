"""How many standard terms a diagnosis has, and which: the last step of normalisation.

Two things speak for a candidate: the probability that a ranker gives it, and how alike retrieval found it, relative to
the best candidate. Its score is

    sigmoid( logit(probability) - weight · (1 - likeness / best likeness) )

so that a weight of 0 is the ranker alone and a large one the order of retrieval. Candidates whose score reaches a
threshold are answers, at most as many as the diagnosis has parts (冠心病伴心力衰竭 has two) if that rule does better.
There is always an answer: the best candidate where none reaches the threshold. Weight, threshold and rule are those
that do best on the dev set, so a weak ranker harms nothing there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from tasks.retrieve.candidates import Candidate

THRESHOLDS = tuple(round(0.02 * step, 2) for step in range(1, 50))
"""The thresholds that are tried: 0.02 to 0.98."""
WEIGHTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""The weights of retrieval that are tried."""
_NEAREST = 1e-6
"""Probabilities are taken for no nearer to 0 and 1 than this, but for 1 itself."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A diagnosis with its candidates, and what a ranker says of them."""

    parts: int
    """Diagnoses that it is made of, as tasks/normalise/queries.py splits it; at least 1."""
    found: tuple[Candidate, ...]
    """In the order of retrieval, with its scores; without a ranker those that are answers first. May be empty."""
    probabilities: np.ndarray | None = None
    """float64 of each candidate; 1 is certain. None where there is no ranker."""


@dataclass(frozen=True)
class TermDecision:
    """Which candidates are answers."""

    threshold: float = 0.5
    bounded: bool = True
    """At most as many terms as the diagnosis has parts."""
    retrieval_weight: float = 0.0

    def order(self, judged: Judged) -> tuple[Candidate, ...]:
        """The candidates with their scores in [0, 1], best first, equals as they were found.

        Without a ranker as retrieval has them.
        """
        if judged.probabilities is None or not judged.found:
            return judged.found
        scores = _scores(judged, self.retrieval_weight)
        return tuple(
            Candidate(judged.found[place].code, judged.found[place].term, float(scores[place]))
            for place in np.argsort(-scores, kind="stable")
        )

    def choose(self, ordered: Sequence[Candidate], parts: int) -> tuple[Candidate, ...]:
        """The answers among candidates in order, best first; empty only where there is none. Terms are distinct."""
        chosen = list(takewhile(lambda one: one.score >= self.threshold, ordered)) or ordered[:1]
        distinct: dict[str, Candidate] = {}
        for one in chosen:
            distinct.setdefault(one.term, one)
        return tuple(distinct.values())[: parts if self.bounded else None]


def tune_decision(judged: Sequence[Judged], gold: Sequence[Sequence[str]]) -> tuple[TermDecision, float]:
    """The decision with the best micro-F1 over sets of terms (CBLUE's metric for CHIP-CDN), and that F1.

    Of equals the one with the smallest weight, then the threshold nearest to 0.5, the bounded one first. Time grows
    with candidates and weights, and with diagnoses and thresholds.

    Raises:
        ValueError: there is no diagnosis to tune on.
    """
    if not judged:
        raise ValueError("a decision is tuned on labelled diagnoses; there is none")
    terms = [frozenset(one) for one in gold]
    right = sum(map(len, terms))
    by_distance = np.array(sorted(THRESHOLDS, key=lambda threshold: abs(threshold - 0.5)))
    best, best_score = TermDecision(), -1.0
    for weight in WEIGHTS:
        counts = np.zeros((2, len(by_distance), 2), dtype=np.int64)
        for one, own in zip(judged, terms, strict=True):
            counts += _counts(one, own, weight, by_distance)
        given, hits = counts
        f1 = 2 * hits / np.maximum(given + right, 1)
        place, unbounded = np.unravel_index(int(f1.argmax()), f1.shape)
        if f1[place, unbounded] > best_score:
            best = TermDecision(float(by_distance[place]), not unbounded, weight)
            best_score = float(f1[place, unbounded])
    return best, best_score


def _scores(judged: Judged, weight: float) -> np.ndarray:
    """float64 score of each candidate, in the order in which they were found; likeness alone without a ranker."""
    likeness = np.array([one.score for one in judged.found])
    if judged.probabilities is None:
        return likeness
    relative = likeness / max(float(likeness.max()), _NEAREST)
    probability = np.clip(judged.probabilities, _NEAREST, 1 - _NEAREST)
    logits = np.log(probability / (1 - probability)) - weight * (1 - relative)
    return np.where(judged.probabilities >= 1.0, 1.0, 1 / (1 + np.exp(-logits)))


def _counts(judged: Judged, gold: frozenset[str], weight: float, thresholds: np.ndarray) -> np.ndarray:
    """What `TermDecision.choose` would give, counted for all thresholds at once: int64 (2, thresholds, 2), answers and
    the right ones among them, bounded and not.
    """
    if not judged.found:
        return np.zeros((2, len(thresholds), 2), dtype=np.int64)
    scores = _scores(judged, weight)
    order = np.arange(len(scores)) if judged.probabilities is None else np.argsort(-scores, kind="stable")
    terms = [judged.found[place].term for place in order]
    # Where each distinct term stands first; then, by a number of distinct terms, how many of them are right.
    firsts = np.array(sorted({term: place for place, term in reversed(list(enumerate(terms)))}.values()))
    hits = np.concatenate([[0], np.cumsum([terms[place] in gold for place in firsts])])
    falling = np.minimum.accumulate(scores[order])
    reached = np.maximum(np.searchsorted(-falling, -thresholds, side="right"), 1)
    unbounded = np.searchsorted(firsts, reached)
    given = np.stack([np.minimum(unbounded, judged.parts), unbounded], axis=1)
    return np.stack([given, hits[given]])
