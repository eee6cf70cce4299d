"""Sense of a candidate beside that of the text: contexts that the text does not give, and words that contradict it.

    脱水        新生儿脱水          loses score: the text names no newborn
    肺癌        肺原位癌            loses score: the text does not say 原位
    急性肾炎    慢性肾炎综合征      loses score: acute is not chronic

Both are tables of regular expressions, with an example and a wrong name for each row. The factors of all rows that hold
for a candidate are multiplied with its score, and candidates are put in order again. A candidate that a context reaches
by its ICD-10 code or by its name counts alike, so lists with other codes have the contexts of their names.

This works on top of any engine, like tasks/retrieve/categories.py. Time grows with the number of candidates; what rows
say of a candidate is kept, so memory grows with the number of different candidates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from infra.errors import UserError
from kg.fusion.vocabularies import read_table
from tasks.retrieve.candidates import Candidate, CandidateIndex
from tasks.retrieve.placed import PlacedCandidates, PlacingIndex

CONTEXTS, CONTRADICTIONS = (
    Path(__file__).parents[1] / "tables" / f"diagnosis_{name}.csv" for name in ("contexts", "contradictions")
)
"""Default tables."""

_BITS, _WORD = 64, (1 << 64) - 1
CONTRADICTED = 0.5
"""Factor on the score of a candidate that contradicts the text."""


class Sense(NamedTuple):
    """A row of one of the tables."""

    asked: re.Pattern[str]
    """What the text says."""
    when: bool
    """The factor counts if the text does say so (a contradiction), or if it does not (a context)."""
    codes: re.Pattern[str] | None
    """Codes of the candidates that it concerns."""
    names: re.Pattern[str] | None
    """Names of the candidates that it concerns."""
    factor: float
    example: str
    """A text for which the factor counts."""
    wrong: str
    """Name of a candidate that loses score by it."""

    def concerns(self, code: str, term: str) -> bool:
        """Return True if the factor is for this candidate."""
        return bool((self.codes and self.codes.match(code)) or (self.names and self.names.search(term)))


def read_senses(contexts: Path = CONTEXTS, contradictions: Path = CONTRADICTIONS) -> tuple[Sense, ...]:
    """Read both tables.

    Raises:
        UserError: a file is unreadable or lacks a column, or a row has a faulty regular expression or a factor that is
            not between 0 and 1. The message names the row.
    """
    rows = []
    columns = ("context", "codes", "names", "given", "factor", "example", "wrong")
    for number, row in enumerate(read_table(contexts, columns), start=2):
        codes, names, given = (_pattern(contexts, number, row[column]) for column in ("codes", "names", "given"))
        if given is None or (codes is None and names is None):
            raise UserError(f"{contexts}, row {number}: fill in given, and codes or names.")
        factor = _factor(contexts, number, row["factor"])
        rows.append(Sense(given, False, codes, names, factor, row["example"], row["wrong"]))
    for number, row in enumerate(read_table(contradictions, ("said", "named", "example", "wrong")), start=2):
        said, named = (_pattern(contradictions, number, row[column]) for column in ("said", "named"))
        if said is None or named is None:
            raise UserError(f"{contradictions}, row {number}: fill in said and named.")
        rows.append(Sense(said, True, None, named, CONTRADICTED, row["example"], row["wrong"]))
    return tuple(rows)


class SenseIndex:
    """Reorders what another index finds."""

    def __init__(self, index: CandidateIndex, senses: Sequence[Sense] | None = None) -> None:
        """Wrap an index; by default with the senses of the tables."""
        self._index = index
        self._senses = tuple(read_senses() if senses is None else senses)
        self._questions = [(1 << at, row.asked.search, row.when) for at, row in enumerate(self._senses)]
        self._concerned: dict[tuple[str, ...], int] = {}
        if len(self._senses) > 2 * _BITS:
            raise ValueError(f"{len(self._senses)} rows do not fit into two words of {_BITS} bits")
        self._rows: npt.NDArray[np.uint64] | None = None
        """The same by place in the list of an index in this process, uint64 [entries, 2]."""
        self._is_known: npt.NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._factor = lru_cache(maxsize=None)(self._product)

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        """See `CandidateIndex.search`."""
        placed = self.placed(terms, k)
        if placed is not None:
            return [list(row) for row in placed]
        return [self._ordered(term, found) for term, found in zip(terms, self._index.search(terms, k), strict=True)]

    def placed(self, terms: Sequence[str], k: int) -> list[PlacedCandidates] | None:
        """Return what `search` does, by arrays; None if the list is searched elsewhere."""
        found = self._index.placed(terms, k) if isinstance(self._index, PlacingIndex) else None
        return found and [self._placed(term, own) for term, own in zip(terms, found, strict=True)]

    def _asked(self, text: str) -> int:
        """Return the rows whose factors count for a text, one bit each."""
        return sum([bit for bit, search, when in self._questions if (search(text) is not None) is when])

    def _placed(self, text: str, found: PlacedCandidates) -> PlacedCandidates:
        asked, terms = self._asked(text), found.listed.terms
        rows = self._rows_at(found)
        held = (rows[:, 0] & np.uint64(asked & _WORD)) | (rows[:, 1] & np.uint64(asked >> _BITS))
        concerned = held.nonzero()[0].tolist()
        if not concerned:
            return found
        scores, said = found.scores.copy(), rows[concerned].tolist()
        for at, place, (low, high) in zip(concerned, found.places[concerned].tolist(), said, strict=True):
            # A name that is the text itself has its sense, whatever the rows say.
            if terms[place] != text:
                scores[at] *= self._factor(asked & (low | high << _BITS))
        # Entries are sorted by (term, code), so their places break ties.
        return PlacedCandidates(found.listed, found.places, scores).taken(np.lexsort((found.places, -scores)))

    def _rows_at(self, found: PlacedCandidates) -> npt.NDArray[np.uint64]:
        """Return the rows that concern each candidate, uint64 [candidates, 2]."""
        if self._rows is None:
            self._rows = np.zeros((len(found.listed.codes), 2), dtype=np.uint64)
            self._is_known = np.zeros(len(self._rows), dtype=bool)
        for place in found.places[~self._is_known[found.places]].tolist():
            rows = self._rows_of(found.listed.codes[place], found.listed.terms[place])
            self._rows[place] = rows & _WORD, rows >> _BITS
            self._is_known[place] = True
        return self._rows[found.places]

    def _ordered(self, text: str, found: Sequence[Candidate]) -> list[Candidate]:
        asked = self._asked(text)
        judged = []
        for one in found:
            held = 0 if one.term == text else asked & self._rows_of(one.code, one.term)
            judged.append(Candidate(one.code, one.term, one.score * self._factor(held)) if held else one)
        return sorted(judged, key=lambda one: (-one.score, one.term, one.code))

    def _rows_of(self, *key: str) -> int:
        """Return the rows that concern a candidate, by its code and term, one bit each."""
        if key not in self._concerned:
            self._concerned[key] = sum([1 << at for at, row in enumerate(self._senses) if row.concerns(key[0], key[1])])
        return self._concerned[key]

    def _product(self, rows: int) -> float:
        product = 1.0
        for place, row in enumerate(self._senses):
            if rows >> place & 1:
                product *= row.factor
        return product


def _pattern(path: Path, number: int, pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern, re.IGNORECASE) if pattern else None
    except re.error as error:
        raise UserError(f"{path}, row {number}: {pattern!r} is not a regular expression ({error}).") from error


def _factor(path: Path, number: int, value: str) -> float:
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not 0 < factor < 1:
        raise UserError(f"{path}, row {number}: the factor {value!r} must be a number between 0 and 1.")
    return factor
