"""Categories of the codes of a list: E11.9 and E11.5 of ICD-10 both belong to E11, 51.2300X001 to 51.2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tasks.retrieve.candidates import Entry
from tasks.retrieve.placed import Listed

# What a code begins with, by grammar: E11 of E11.9 and K25 of K25.900X001 (ICD-10), M814 of M81400/3 (morphology of
# ICD-O, which is no M81.4 of ICD-10), 51.2 of 51.2300X001 (procedures of ICD-9-CM-3), AB12 of AB12-03 (any other list).
# Nothing of 肿瘤1.
_STEM = re.compile(r"M\d{3}(?=\d{1,2}[A-Z]?/\d)|[A-Z]\d\d|\d\d\.\d|[A-Z\d]{2,8}(?=[-./_])")
_PROCEDURE = re.compile(r"\d\d\.\d")


class Members(NamedTuple):
    """Categories of the entries of a list, by their places."""

    category: npt.NDArray[np.int64]
    """Number of each entry's category, int64 [entries]; -1 for none."""
    first: npt.NDArray[np.int64]
    """Where the places of each category begin, and where the last ones end, int64 [categories + 1]."""
    places: npt.NDArray[np.int64]
    """Places of the entries, one category after the other."""


@lru_cache(maxsize=100_000)
def category_of(code: str) -> str:
    """Return the category of a code in its list's hierarchy (E11 for E11.9), or "" if it has none."""
    match = _STEM.match(code.upper())
    return match[0] if match else ""


def are_procedures(codes: Sequence[str]) -> bool:
    """Return True if most codes of a list are those of procedures (ICD-9-CM-3): 51.2300X001."""
    return sum(map(bool, map(_PROCEDURE.match, codes))) * 2 > len(codes)


def same_category(one: str, other: str) -> bool:
    """Return True if two codes belong to one category, or are equal."""
    return one == other or (category_of(one) != "" and category_of(one) == category_of(other))


class Categories(dict[str, list[Entry]]):
    """Entries of each category, ordered by code and term."""

    _members: tuple[Listed, Members] | None = None

    def members(self, listed: Listed) -> Members:
        """Return the categories by places in a list that has all their entries."""
        if self._members is None or self._members[0] is not listed:
            number = {category: at for at, category in enumerate(self)}
            own = [number.get(category_of(code), -1) for code in listed.codes]
            places = [listed.places[entry.code, entry.term] for entries in self.values() for entry in entries]
            first = np.cumsum([0, *map(len, self.values())], dtype=np.int64)
            self._members = listed, Members(np.array(own, dtype=np.int64), first, np.array(places, dtype=np.int64))
        return self._members[1]


def categories_of(entries: Iterable[Entry]) -> Categories:
    """Return the categories of a list. Entries whose codes have no hierarchy belong to none."""
    categories = Categories()
    for entry in sorted(entries, key=lambda entry: (entry.code, entry.term)):
        if category := category_of(entry.code):
            categories.setdefault(category, []).append(entry)
    return categories
