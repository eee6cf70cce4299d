"""Exact search of vectors: the standard terms whose names mean what a search term means.

The vectors of all names of a list are one matrix, in the order of the documents of its embedded index. Queries are
multiplied with it block by block, and an entry gets the best cosine of its names: nothing is approximated. Cosines are
rounded to five decimals, so that what the last bits of a product would decide is decided by (term, code) instead.

Time grows with queries x names x width. Memory: the matrix, mapped from its file, and queries x entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.retrieve.candidates import Candidate

Encode = Callable[[Sequence[str]], npt.NDArray[np.float32]]
"""Function of texts that returns unit vectors, float32 (N, D); zeros for a text that means nothing to it."""

QUERIES_AT_ONCE = 256
NAMES_AT_ONCE = 8_192
DECIMALS = 5
"""Decimals of cosines that decide an order."""


class VectorIndex:
    """Vectors of the names of a list, open for searching.

    Args:
        codes, terms: entries, sorted by (term, code).
        firsts: int64 (entries + 1): the first name of each entry, and the number of names.
        matrix: float16 or float32 (names, width).
        encode: vectors of search terms, by the encoder of the names.
    """

    def __init__(
        self,
        codes: Sequence[str],
        terms: Sequence[str],
        firsts: npt.NDArray[np.int64],
        matrix: npt.NDArray[Any],
        encode: Encode,
    ) -> None:
        if firsts[-1] != len(matrix):
            raise ValueError(f"there are {firsts[-1]:,} names and {len(matrix):,} vectors")
        self._codes, self._terms, self._firsts = codes, terms, np.asarray(firsts, dtype=np.int64)
        self._matrix = matrix
        self.encode = encode
        self._places = {key: place for place, key in enumerate(zip(codes, terms, strict=True))}

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`; the scores are cosines. A term without a vector finds nothing."""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        found = []
        for start in range(0, len(terms), QUERIES_AT_ONCE):
            vectors_QD = self.encode(terms[start : start + QUERIES_AT_ONCE])
            cosines_QE = self._cosines(vectors_QD)
            found += [
                self._best(cosines_E, k) if vector_D.any() else []
                for vector_D, cosines_E in zip(vectors_QD, cosines_QE, strict=True)
            ]
        return found

    def nearest_name(self, term: str, found: Candidate) -> tuple[int, float]:
        """Return which name of an entry is nearest to a search term, counted through all names, and its cosine."""
        place = self._places[found.code, found.term]
        first, end = self._firsts[place : place + 2].tolist()
        cosines = np.round(self._matrix[first:end].astype(np.float32) @ self.encode([term])[0], DECIMALS)
        best = int(cosines.argmax())
        return first + best, float(cosines[best])

    def _cosines(self, vectors_QD: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the best cosine of each entry's names, float32 (Q, entries); -inf for an entry without any vector."""
        best_QE = np.empty((len(vectors_QD), len(self._codes)), np.float32)
        first = 0
        while first < len(self._codes):
            # Whole entries, so that the best of each is known at once.
            within = self._firsts[first] + NAMES_AT_ONCE
            end = max(first + 1, int(np.searchsorted(self._firsts, within, side="right")) - 1)
            start, stop = self._firsts[first], self._firsts[end]
            block_ND = np.asarray(self._matrix[start:stop], dtype=np.float32)
            cosines_QN = np.round(vectors_QD @ block_ND.T, DECIMALS)
            cosines_QN[:, ~block_ND.any(1)] = -np.inf
            best_QE[:, first:end] = np.maximum.reduceat(cosines_QN, self._firsts[first:end] - start, axis=1)
            first = end
        return best_QE

    def _best(self, cosines_E: npt.NDArray[np.float32], k: int) -> list[Candidate]:
        least = np.partition(cosines_E, -k)[-k] if k < len(cosines_E) else -np.inf
        # All that equal the last one, too: places decide between them.
        places = np.flatnonzero((cosines_E >= least) & (cosines_E > -np.inf))
        places = places[np.lexsort((places, -cosines_E[places]))][:k]
        return [Candidate(self._codes[at], self._terms[at], float(cosines_E[at])) for at in places.tolist()]
