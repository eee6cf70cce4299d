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
from itertools import product, takewhile

import numpy as np

from tasks.retrieve import Candidate

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
    """Diagnoses that it is made of, as tasks/diagnosis_queries.py splits it; at least 1."""
    found: tuple[Candidate, ...]
    """In the order of retrieval, with its scores. Empty where nothing was found."""
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
        likeness = np.array([one.score for one in judged.found])
        relative = likeness / max(float(likeness.max()), _NEAREST)
        probability = np.clip(judged.probabilities, _NEAREST, 1 - _NEAREST)
        logits = np.log(probability / (1 - probability)) - self.retrieval_weight * (1 - relative)
        scores = np.where(judged.probabilities >= 1.0, 1.0, 1 / (1 + np.exp(-logits)))
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
    with candidates, weights and thresholds.

    Raises:
        ValueError: there is no diagnosis to tune on.
    """
    if not judged:
        raise ValueError("a decision is tuned on labelled diagnoses; there is none")
    terms = [frozenset(one) for one in gold]
    by_distance = sorted(THRESHOLDS, key=lambda threshold: abs(threshold - 0.5))
    best, best_score = TermDecision(), -1.0
    for weight in WEIGHTS:
        ordered = [TermDecision(retrieval_weight=weight).order(one) for one in judged]
        for threshold, bounded in product(by_distance, (True, False)):
            decision = TermDecision(threshold, bounded, weight)
            answers = [decision.choose(own, one.parts) for own, one in zip(ordered, judged, strict=True)]
            score = _micro_f1(answers, terms)
            if score > best_score:
                best, best_score = decision, score
    return best, best_score


def _micro_f1(answers: Sequence[Sequence[Candidate]], gold: Sequence[frozenset[str]]) -> float:
    hits = sum(one.term in terms for given, terms in zip(answers, gold, strict=True) for one in given)
    total = sum(map(len, answers)) + sum(map(len, gold))
    return 2 * hits / total if total else 0.0
