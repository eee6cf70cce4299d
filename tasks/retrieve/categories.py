"""Candidates ordered also by their category: what the names of a whole category of ICD-10 have in common with a term.

A code that is called like no diagnosis (其他特指的 …) stands in a category whose other codes are. The names of all
codes of a three-character category are one text, which is searched by the fields and the formula of
tasks/retrieve/fields.py, without whole names. The score of a candidate is its own and `SearchFields.category` times
that of its category's text, so candidates of a category that speaks of the term come first. Which ones an index finds
stays; which of them keep a place among k, beside those of other queries and the siblings (tasks/normalise/queries.py),
changes.

This stands above the engine: whatever finds candidates, the texts of the categories are searched in this process, in a
folder of the embedded index. A list whose codes are none of ICD-10 has no categories, and its candidates stay as the
engine gives them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tasks.retrieve.candidates import Candidate, CandidateIndex
from tasks.retrieve.embedded import EmbeddedIndex, Floats


class CategoryIndex:
    """Finds what another index finds, in another order. Its own time grows with the categories and the candidates."""

    def __init__(self, index: CandidateIndex, categories: EmbeddedIndex) -> None:
        """Take what finds candidates, and the categories of the list (`EmbeddedIndex.categories`)."""
        self._index, self._categories = index, categories
        self._places = {category: place for place, category in enumerate(categories.codes)}

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`."""
        found = self._index.search(terms, k)
        return [self._ordered(own, scores) for own, scores in zip(found, self._categories.scores(terms), strict=True)]

    def _ordered(self, found: Sequence[Candidate], scores: Floats) -> list[Candidate]:
        weight = self._categories.fields.category
        worth = (weight * scores.astype(float)).tolist()
        places = (self._places.get(one.code[:3]) for one in found)
        added = (0.0 if place is None else worth[place] for place in places)
        judged = [Candidate(one.code, one.term, one.score + more) for one, more in zip(found, added, strict=True)]
        return sorted(judged, key=lambda one: (-one.score, one.term, one.code))


def with_categories(index: CandidateIndex, own: EmbeddedIndex) -> CandidateIndex:
    """What finds candidates with regard to the categories of a list, if it has some.

    Args:
        index: an engine that searches the list.
        own: the embedded index of the list, which may be the engine itself.
    """
    return index if own.categories is None else CategoryIndex(index, own.categories)
