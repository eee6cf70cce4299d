"""Candidates reordered by category: a candidate gains score if the other names of its category match as well.

A residual code such as 其他特指的 … is named like no diagnosis, but other codes in its category are. So all names of a
three-character category form one text. The text is searched with the fields and the formula of
tasks/retrieve/fields.py, except for whole names. A candidate's score becomes its own score plus `SearchFields.category`
times the score of its category. The set of candidates that an index returns does not change. Their order does, and with
it which of them keep a place among k next to the results of other queries and siblings
(tasks/normalise/queries/candidates.py).

This works on top of any engine: whichever finds the candidates, category texts are searched in this process, in a
folder of the embedded index. Lists whose codes have no hierarchy
(tasks/retrieve/icd_categories.py) have no categories, and their candidates keep the engine's order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tasks.retrieve.candidates import Candidate, CandidateIndex
from tasks.retrieve.embedded import EmbeddedIndex, Floats
from tasks.retrieve.icd_categories import category_of
from tasks.retrieve.placed import PlacedCandidates
from tasks.retrieve.sums import best_places


class CategoryIndex:
    """Reorders what another index finds. Time grows with the number of categories and candidates."""

    def __init__(self, index: CandidateIndex, categories: EmbeddedIndex) -> None:
        """Wrap an index; `categories` are those of its list (`EmbeddedIndex.categories`)."""
        self._index, self._categories = index, categories
        self._places = {category: place for place, category in enumerate(categories.codes)}
        # The category of each entry, if the entries are at hand; -1 for none, which gains nothing.
        codes = index.codes if isinstance(index, EmbeddedIndex) else ()
        self._category = np.array([self._places.get(category_of(code), -1) for code in codes], dtype=np.int64)

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`."""
        placed = self.placed(terms, k)
        if placed is not None:
            return [list(row) for row in placed]
        found = self._index.search(terms, k)
        return [self._ordered(own, worth) for own, worth in zip(found, self._categories.scores(terms), strict=True)]

    def placed(self, terms: Sequence[str], k: int) -> list[PlacedCandidates] | None:
        """Return what `search` does, by arrays; None if the list is searched elsewhere."""
        index = self._index
        if not isinstance(index, EmbeddedIndex):
            return None
        return [self._placed(index, index.scores_of(term), self._categories.scores_of(term), k) for term in terms]

    def _placed(self, index: EmbeddedIndex, scores: Floats, worth: Floats, k: int) -> PlacedCandidates:
        places = best_places(scores, k)
        category = self._category[places]
        added = np.where(category < 0, 0.0, self._categories.fields.category * worth.astype(float)[category])
        judged = scores[places].astype(float) + added
        # Entries are sorted by (term, code), so their places break ties.
        order = np.lexsort((places, -judged))
        return PlacedCandidates(index, places[order], judged[order])

    def _ordered(self, found: Sequence[Candidate], scores: Floats) -> list[Candidate]:
        weight = self._categories.fields.category
        worth = (weight * scores.astype(float)).tolist()
        places = (self._places.get(category_of(one.code)) for one in found)
        # A term without a code, or with one from another list, keeps its score.
        added = (0.0 if place is None else worth[place] for place in places)
        judged = [Candidate(one.code, one.term, one.score + more) for one, more in zip(found, added, strict=True)]
        return sorted(judged, key=lambda one: (-one.score, one.term, one.code))


def with_categories(index: CandidateIndex, own: EmbeddedIndex) -> CandidateIndex:
    """Return an index that reorders candidates by category, or the index itself if its list has no categories.

    Args:
        index: an engine that searches the list.
        own: the embedded index of the list; may be the engine itself.
    """
    return index if own.categories is None else CategoryIndex(index, own.categories)
