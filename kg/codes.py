"""ICD-10 codes as sources write them, several in a cell, one by one in one form."""

from __future__ import annotations

import polars as pl

_ICD10 = r"[A-Z][0-9][0-9](?:\.[0-9X]{1,4})?"
_OTHER_CODE = r"^[A-Z0-9][A-Z0-9.:-]*$"


def codes_in(cells: pl.Series) -> pl.Series:
    """The codes in every cell, a list each: `A15.6,A16.5` has two, `C34/D02.2` too, `E14.9†` is E14.9.

    A cell without an ICD-10 code, such as one of another system, is one code in capitals where it looks like one.
    """
    plain = cells.str.normalize("NFKC").str.to_uppercase().str.replace_all(r"\s", "")
    found = plain.str.extract_all(_ICD10)
    other = plain.str.extract_all(_OTHER_CODE)
    return pl.select(pl.when(found.list.len() > 0).then(found).otherwise(other)).to_series()
