"""Decision on which candidates are the standard terms of a diagnosis: the last step of normalisation.

The score of a candidate combines the probability that the ranker gives it with its likeness, i.e. its retrieval score:

    sigmoid( logit(probability) - weight · (1 - likeness / best likeness) )

With a weight of 0 only the ranker counts; a large weight restores the order of retrieval. Candidates whose score
reaches a threshold are answers. Optionally there are at most as many answers as the diagnosis has parts
(冠心病伴心力衰竭 has two). If no candidate reaches the threshold, the best one is the answer. Weight, threshold and
bound are those with the best result on dev, so there a weak ranker does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasks.retrieve.candidates import Candidate

THRESHOLDS = tuple(round(0.02 * step, 2) for step in range(1, 50))
"""Thresholds that are tried: 0.02 to 0.98."""
WEIGHTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Weights of retrieval that are tried."""
_NEAREST = 1e-6
"""Smallest distance of a probability to 0 and 1, so that its logit is finite. Exactly 1 is kept."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A diagnosis with its candidates and their probabilities."""

    parts: int
    """Number of diagnoses in a compound (tasks/normalise/queries/compounds.py); at least 1."""
    found: Sequence[Candidate]
    """Candidates in the order of retrieval, with its scores. Without a ranker the answers come first. May be empty."""
    probabilities: np.ndarray | None = None
    """Probability of each candidate, float64; 1 is certain. None without a ranker."""


@dataclass(frozen=True)
class TermDecision:
    """Rule that selects answers among candidates."""

    threshold: float = 0.5
    bounded: bool = True
    """Limit the number of answers to the number of parts."""
    retrieval_weight: float = 0.0

    def order(self, judged: Judged) -> Sequence[Candidate]:
        """Return the candidates with their scores in [0, 1], best first; ties keep the order of retrieval.

        Without a ranker the candidates are returned as they are.
        """
        if judged.probabilities is None or not judged.found:
            return judged.found
        scores = _scores(judged, self.retrieval_weight)
        return tuple(
            Candidate(judged.found[place].code, judged.found[place].term, float(scores[place]))
            for place in np.argsort(-scores, kind="stable")
        )

    def choose(self, ordered: Sequence[Candidate], parts: int) -> tuple[Candidate, ...]:
        """Return the answers among ordered candidates, best first. Terms are distinct.

        The result is empty only if there are no candidates.
        """
        # A term with several codes is one answer, with the code of its best candidate.
        distinct: dict[str, Candidate] = {}
        for one in ordered:
            if distinct and (one.score < self.threshold or (self.bounded and len(distinct) == parts)):
                break
            distinct.setdefault(one.term, one)
        return tuple(distinct.values())


def tune_decision(judged: Sequence[Judged], gold: Sequence[Sequence[str]]) -> tuple[TermDecision, float]:
    """Return the decision with the best micro-F1 over sets of terms (CBLUE's metric for CHIP-CDN), and that F1.

    Ties are resolved in favour of the smallest weight, then the threshold nearest to 0.5, then the bounded decision.
    Time grows with candidates times weights and with diagnoses times thresholds.

    Raises:
        ValueError: there is no diagnosis to tune on.
    """
    if not judged:
        raise ValueError("a decision can only be tuned on labelled diagnoses, and there are none")
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
    """Return the score of each candidate, float64, in the order of retrieval; just the likeness without a ranker."""
    likeness = np.array([one.score for one in judged.found])
    if judged.probabilities is None:
        return likeness
    relative = likeness / max(float(likeness.max()), _NEAREST)
    probability = np.clip(judged.probabilities, _NEAREST, 1 - _NEAREST)
    logits = np.log(probability / (1 - probability)) - weight * (1 - relative)
    return np.where(judged.probabilities >= 1.0, 1.0, 1 / (1 + np.exp(-logits)))


def _counts(judged: Judged, gold: frozenset[str], weight: float, thresholds: np.ndarray) -> np.ndarray:
    """Count the answers that `TermDecision.choose` would return, for all thresholds at once.

    Returns:
        int64 (2, thresholds, 2): number of answers and of correct answers, each bounded and unbounded.
    """
    if not judged.found:
        return np.zeros((2, len(thresholds), 2), dtype=np.int64)
    scores = _scores(judged, weight)
    order = np.arange(len(scores)) if judged.probabilities is None else np.argsort(-scores, kind="stable")
    terms = [judged.found[place].term for place in order]
    # A term with two codes counts once: `firsts` are the first places of distinct terms, and hits[n] is the number of
    # correct terms among the first n distinct ones.
    firsts = np.array(sorted({term: place for place, term in reversed(list(enumerate(terms)))}.values()))
    hits = np.concatenate([[0], np.cumsum([terms[place] in gold for place in firsts])])
    # Without a ranker the scores may rise; `choose` stops at the first one below the threshold.
    falling = np.minimum.accumulate(scores[order])
    reached = np.maximum(np.searchsorted(-falling, -thresholds, side="right"), 1)
    unbounded = np.searchsorted(firsts, reached)
    given = np.stack([np.minimum(unbounded, judged.parts), unbounded], axis=1)
    return np.stack([given, hits[given]])
