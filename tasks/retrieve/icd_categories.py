"""Three-character categories of ICD-10: E11.9 and E11.5 both belong to E11."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tasks.retrieve.candidates import Entry

Categories = Mapping[str, Sequence[Entry]]
"""Entries of each category, ordered by code."""

# Matches the start of E11.9 and of K25.900X001, but nothing of 肿瘤1.
_ICD10 = re.compile(r"[A-Z]\d\d")


def category_of(code: str) -> str:
    """Return the category of an ICD-10 code (E11 for E11.9), or "" if the code has another form."""
    return code[:3] if _ICD10.match(code) else ""


def categories_of(entries: Iterable[Entry]) -> Categories:
    """Return the categories of a list. Entries whose codes are not from ICD-10 belong to none."""
    categories: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.code, entry.term)):
        if category := category_of(entry.code):
            categories.setdefault(category, []).append(entry)
    return categories
