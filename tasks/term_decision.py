"""How many standard terms a diagnosis has, and which: the last step of normalisation.

A ranker gives every candidate a probability. Candidates at least as probable as a threshold are answers; where the
diagnosis has fewer parts (冠心病伴心力衰竭 has two) than that, at most as many as parts, if that rule did better on the
dev set. There is always an answer: the most probable candidate where none reaches the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasks.retrieve import Candidate

THRESHOLDS = tuple(round(0.02 * step, 2) for step in range(1, 50))
"""The thresholds that are tried: 0.02 to 0.98."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A diagnosis with its candidates, the most probable first."""

    parts: int
    """Diagnoses that it is made of, as tasks/diagnosis_queries.py splits it; at least 1."""
    candidates: tuple[Candidate, ...]
    """`score` is the probability in [0, 1] that the candidate is one of its terms. Empty where nothing was found."""


@dataclass(frozen=True)
class TermDecision:
    """Which candidates are answers."""

    threshold: float = 0.5
    bounded: bool = True
    """At most as many terms as the diagnosis has parts."""

    def choose(self, ranked: Ranked) -> tuple[Candidate, ...]:
        """The answers, the most probable first; empty only where there is no candidate. Terms are distinct."""
        chosen = [one for one in ranked.candidates if one.score >= self.threshold] or ranked.candidates[:1]
        distinct: dict[str, Candidate] = {}
        for one in chosen:
            distinct.setdefault(one.term, one)
        return tuple(distinct.values())[: ranked.parts if self.bounded else None]


def tune_decision(ranked: Sequence[Ranked], gold: Sequence[Sequence[str]]) -> tuple[TermDecision, float]:
    """The decision with the best micro-F1 over sets of terms (CBLUE's metric for CHIP-CDN), and that F1.

    Of equals the one nearest to a threshold of 0.5, the bounded one first. Time grows with candidates and thresholds.

    Raises:
        ValueError: there is no diagnosis to tune on.
    """
    if not ranked:
        raise ValueError("a decision is tuned on labelled diagnoses; there is none")
    terms = [frozenset(one) for one in gold]
    decisions = [TermDecision(threshold, bounded) for bounded in (True, False) for threshold in THRESHOLDS]
    scores = np.array([_micro_f1([one.choose(each) for each in ranked], terms) for one in decisions])
    distance = np.array([abs(one.threshold - 0.5) for one in decisions])
    best = int(np.lexsort((np.arange(len(decisions)), distance, -scores))[0])
    return decisions[best], float(scores[best])


def _micro_f1(answers: Sequence[Sequence[Candidate]], gold: Sequence[frozenset[str]]) -> float:
    hits = sum(one.term in terms for given, terms in zip(answers, gold, strict=True) for one in given)
    total = sum(map(len, answers)) + sum(map(len, gold))
    return 2 * hits / total if total else 0.0
