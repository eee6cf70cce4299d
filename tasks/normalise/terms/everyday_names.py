"""Everyday names of diagnoses: what clinicians and patients call the codes of ICD-10.

    name,code
    胃窦癌,C16.3

The shipped table has some thousands of them, over all chapters. Each becomes a name of the entries with its code. A
list that refines ICD-10 gets it at the code above or below that it has (kg/code_names.py): C16.3 is C16.300 there. A
list without codes of ICD-10 gets none. A name that is a standard term of the list needs no row and is skipped, so the
list has the last word on its own terms.

Time and memory grow with the number of names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from infra.errors import UserError
from kg.code_names import listed_codes
from kg.fusion.vocabularies import read_table
from tasks.retrieve.candidates import Entry
from tasks.retrieve.fields import comparable_forms

NAMES = Path(__file__).parents[1] / "tables" / "diagnosis_names.csv"
"""Default table."""

EVERYDAY = "everyday"
"""Source of these names."""

# Matches C16 and C16.3, but not C16.300.
_CODE = re.compile(r"[A-Z]\d\d(?:\.\d)?")


def read_everyday_names(path: Path = NAMES) -> dict[str, str]:
    """Return the code of each name of a table.

    Raises:
        UserError: the file is unreadable or lacks a column, or a row has an empty cell, or a cell without a single
            code, or repeats a name. The message names the row.
    """
    codes: dict[str, str] = {}
    for number, row in enumerate(read_table(path, ("name", "code")), start=2):
        name, code = row["name"].strip(), row["code"].strip()
        if not name or not _CODE.fullmatch(code):
            raise UserError(f"{path}, row {number}: {name!r} needs a name and one code of ICD-10, not {code!r}.")
        if name in codes:
            raise UserError(f"{path}, row {number}: {name!r} is there twice. Delete one of its rows.")
        codes[name] = code
    return codes


def with_everyday_names(
    entries: Sequence[Entry], codes: dict[str, str] | None = None
) -> tuple[list[Entry], Counter[str]]:
    """Add everyday names to the entries of a list; by default those of the shipped table.

    Returns:
        The entries in their order, and counts of used and unused names.
    """
    codes = read_everyday_names() if codes is None else codes
    terms = {"".join(form) for form in comparable_forms([entry.term for entry in entries])}
    forms = comparable_forms(list(codes))
    listed = listed_codes(list(codes.values()), {entry.code for entry in entries if entry.code})
    names: dict[str, list[str]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for name, form, own in zip(codes, forms, listed, strict=True):
        if "".join(form) in terms:
            counts["everyday_names_already_terms"] += 1
        elif not own:
            counts["everyday_names_without_code"] += 1
        else:
            counts["everyday_names_added"] += 1
            names[own[0]].append(name)
    return [
        entry.with_names(names[entry.code], EVERYDAY) if entry.code in names else entry for entry in entries
    ], counts
