"""Candidates by characters and by meaning, united by reciprocal rank fusion (tasks/retrieve/fusion.py).

An answer that the characters alone would have put first is explained by them, as without an encoder. Any other was
found by meaning: its reason is the nearest name of the term, with the source `meaning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.normalise.meaning.folders import has_vectors
from tasks.retrieve.candidates import Candidate, CandidateIndex
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fusion import WEIGHT, FusedIndex
from tasks.retrieve.match import Match, match

if TYPE_CHECKING:
    from tasks.retrieve.vectors import VectorIndex

BY_MEANING = "meaning"
"""Source of a name that shares its meaning with a query, and characters perhaps or not."""


class UnitedIndex(FusedIndex):
    """Finds what characters find, and what means the same."""

    def __init__(self, index: CandidateIndex, vectors: VectorIndex, own: EmbeddedIndex, weight: float = WEIGHT) -> None:
        """`own`: the embedded index of the list, whose names have the vectors."""
        super().__init__(index, vectors, weight)
        self._vectors = vectors
        self._names, _ = own.names()

    def reason(self, queries: Sequence[str], found: Candidate, known: Match | None) -> Match | None:
        """Return why queries find a candidate; `known` is the reason by characters."""
        if known is not None and self.agrees(known.query, found):
            return known
        nearest = [(query, *self._vectors.nearest_name(query, found)) for query in queries]
        # Of queries that are equally near, the first.
        query, name, cosine = max(nearest, key=lambda one: one[2])
        return match(query, self._names[name], BY_MEANING) if cosine > 0 else known


def with_meaning(
    index: CandidateIndex, own: EmbeddedIndex, encoder: str | Path | bool | None = None, device: str | None = None
) -> CandidateIndex:
    """Return an index that finds by meaning too, or the index itself if nothing has vectors.

    Args:
        index: what searches by characters.
        own: the embedded index of the list.
        encoder: folder of an encoder, see `open_vectors`; None: that of the list's index, if it has one; False: none.

    Raises:
        UserError: as `open_vectors` does.
    """
    if encoder is False or (encoder is None and not has_vectors(own.folder)):
        return index
    from tasks.normalise.meaning.vectors import open_vectors  # without an encoder, nothing needs torch

    vectors = open_vectors(own, None if encoder in (None, True) else encoder, device)
    return UnitedIndex(index, vectors, own)
