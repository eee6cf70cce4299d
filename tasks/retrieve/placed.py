"""Candidates of an index in this process, as places in its list and scores: a search finds hundreds, of which most are
never looked at, so that each becomes a `Candidate` only when somebody does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from tasks.retrieve.candidates import Candidate

Places = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


class Listed(Protocol):
    """A list of entries, sorted by (term, code)."""

    codes: list[str]
    terms: list[str]
    places: dict[tuple[str, str], int]
    """Place of each code and term."""


class PlacedCandidates(Sequence[Candidate]):
    """Candidates of a list; equal to any sequence of equal candidates."""

    __slots__ = ("listed", "places", "scores")

    def __init__(self, listed: Listed, places: Places, scores: Scores) -> None:
        """Take the places of the candidates in a list, int64 [candidates], and their scores, float64 [candidates]."""
        self.listed, self.places, self.scores = listed, places, scores

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> Candidate: ...
    @overload
    def __getitem__(self, at: slice) -> PlacedCandidates: ...
    def __getitem__(self, at: int | slice) -> Candidate | PlacedCandidates:
        if isinstance(at, slice):
            return PlacedCandidates(self.listed, self.places[at], self.scores[at])
        place = self.places[at]
        return Candidate(self.listed.codes[place], self.listed.terms[place], float(self.scores[at]))

    def __iter__(self) -> Iterator[Candidate]:
        places = self.places.tolist()
        codes, terms = map(self.listed.codes.__getitem__, places), map(self.listed.terms.__getitem__, places)
        return map(Candidate, codes, terms, self.scores.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PlacedCandidates) and other.listed is self.listed:
            return np.array_equal(self.places, other.places) and np.array_equal(self.scores, other.scores)
        if isinstance(other, PlacedCandidates | tuple | list):
            return tuple(self) == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process gets the candidates, not the whole list.
        return tuple, (tuple(self),)

    def taken(self, order: npt.NDArray[np.int64]) -> PlacedCandidates:
        """Return the candidates at these positions, in this order."""
        return PlacedCandidates(self.listed, self.places[order], self.scores[order])


@runtime_checkable
class PlacingIndex(Protocol):
    """An index that may search a list in this process."""

    def placed(self, terms: Sequence[str], k: int) -> list[PlacedCandidates] | None:
        """Return what `search` does, or None if the list is searched elsewhere."""
        ...
