"""Codes as sources write them, several in a cell, one by one in one form.

ICD-10 and the morphology of ICD-O look alike: M95600/0 is a tumour of nerves, M95.6 would be a deformity of bones. Of a
range (C01—C02) or an exception (D35.0除外E05.8) no single code is what the entity has.
"""

from __future__ import annotations

import re

import polars as pl

MORPHOLOGY = re.compile(r"M[0-9]{4,5}[A-Z]?/[0-9]", re.IGNORECASE)
"""A code of ICD-O."""

NOT_ONE_CODE = re.compile(r"[—–~-]|除外|不包括|不含")
"""A range or an exception."""

_ICD10 = r"[A-Z][0-9][0-9](?:\.[0-9X]{1,4})?"
_OTHER_CODE = r"^[A-Z0-9][A-Z0-9.:-]*$"


def codes_in(cells: pl.Series) -> pl.Series:
    """The codes in every cell, a list each: `A15.6,A16.5` has two, `C34/D02.2` too, `E14.9†` is E14.9.

    A cell without a code of ICD, such as one of another system, is one code in capitals where it looks like one. A
    range or an exception among codes of ICD has none.
    """
    plain = cells.str.normalize("NFKC").str.to_uppercase().str.replace_all(r"\s", "")
    found = plain.str.extract_all(f"{MORPHOLOGY.pattern}|{_ICD10}")
    several = plain.str.contains(NOT_ONE_CODE.pattern)
    other = plain.str.extract_all(_OTHER_CODE)
    own = pl.when(several).then(pl.lit([], pl.List(pl.String))).otherwise(found)
    return pl.select(pl.when(found.list.len() > 0).then(own).otherwise(other)).to_series()
