"""Reciprocal rank fusion: the candidates of two searches in one order (Cormack, Clarke and Büttcher, SIGIR 2009).

A candidate's worth is Σ weight / (60 + rank) over the rankings that have it. Ranks of different searches can be added
where their scores cannot: a sum of BM25 is no cosine.

The scores of the result remain those of the first search, so that whatever reads them (calibration, ranking) finds what
it knows: a candidate has its own score there, or that of the best candidate behind it. So scores never rise.
"""

from __future__ import annotations

from collections.abc import Sequence

from tasks.retrieve.candidates import Candidate, CandidateIndex

CONSTANT = 60
"""Constant added to ranks, of the paper: the larger, the less the first places weigh."""
WEIGHT = 0.5
"""Weight of ranks by meaning beside those by characters; chosen on the open benchmark's dev part."""

_Key = tuple[str, str]


def fuse(
    first: Sequence[Candidate], second: Sequence[Candidate], k: int, weight: float = WEIGHT, constant: int = CONSTANT
) -> list[Candidate]:
    """Return the best k candidates of two rankings, best first; equal ones are ordered by (term, code).

    Args:
        weight: weight of the second ranking; the first has 1.
    """
    worth: dict[_Key, float] = {}
    for ranking, share in ((first, 1.0), (second, weight)):
        for rank, one in enumerate(ranking, start=1):
            key = (one.code, one.term)
            worth[key] = worth.get(key, 0.0) + share / (constant + rank)
    scores = {(one.code, one.term): one.score for one in first}
    ordered = sorted(worth, key=lambda key: (-worth[key], key[1], key[0]))[:k]
    best = 0.0
    fused = []
    for code, term in reversed(ordered):
        best = max(best, scores.get((code, term), 0.0))
        fused.append(Candidate(code, term, best))
    return fused[::-1]


class FusedIndex:
    """Finds what either of two indices finds."""

    def __init__(self, index: CandidateIndex, other: CandidateIndex, weight: float = WEIGHT) -> None:
        """`weight`: weight of the other index's ranks."""
        self._index, self._other = index, other
        self._weight = weight
        self._firsts: dict[str, Candidate | None] = {}

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`; the scores are explained above."""
        found, others = self._index.search(terms, k), self._other.search(terms, k)
        # What `agrees` asks for: the last searches' first candidates, as far as they fit.
        if len(self._firsts) > _REMEMBERED:
            self._firsts.clear()
        self._firsts.update({term: own[0] if own else None for term, own in zip(terms, found, strict=True)})
        return [fuse(one, other, k, self._weight) for one, other in zip(found, others, strict=True)]

    def agrees(self, term: str, found: Candidate) -> bool:
        """Return True if the first index alone puts a candidate first for a search term.

        It is searched again if that was long ago.
        """
        if term not in self._firsts:
            self._firsts[term] = next(iter(self._index.search([term], 1)[0]), None)
        first = self._firsts[term]
        return first is not None and (first.code, first.term) == (found.code, found.term)


_REMEMBERED = 10_000
