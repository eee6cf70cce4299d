"""Codes in the cells of sources, which may have several per cell, each in one form.

ICD-10 and the morphology of ICD-O look alike: M95600/0 is a tumour of nerves, M95.6 would be a deformity of bones. In a
range (C01—C02) or an exception (D35.0除外E05.8) no single code is the entity's own.
"""

from __future__ import annotations

import re

import polars as pl

MORPHOLOGY = re.compile(r"M[0-9]{4,5}[A-Z]?/[0-9]", re.IGNORECASE)
"""Code of ICD-O: `M95600/0`; not `M95.6`, which is ICD-10."""

NOT_ONE_CODE = re.compile(r"[—–~-]|除外|不包括|不含")
"""Range or exception: `C01—C02`, `D35.0除外E05.8`."""

_ICD10 = r"[A-Z][0-9][0-9](?:\.[0-9X]{1,4})?"
"""`D66`, `K25.900`, `D66.X00`."""
_OTHER_CODE = r"^[A-Z0-9][A-Z0-9.:-]*$"
"""Anything that looks like a code, such as `MESH:D003920`; not `见E14`."""


def codes_in(cells: pl.Series) -> pl.Series:
    """Return a list of codes per cell: two for `A15.6,A16.5` and for `C34/D02.2`, E14.9 for `E14.9†`.

    A cell without an ICD code counts as one code of another system, in capitals, if it looks like a code. A range or an
    exception of ICD codes has none.
    """
    plain = cells.str.normalize("NFKC").str.to_uppercase().str.replace_all(r"\s", "")
    found = plain.str.extract_all(f"{MORPHOLOGY.pattern}|{_ICD10}")
    several = plain.str.contains(NOT_ONE_CODE.pattern)
    other = plain.str.extract_all(_OTHER_CODE)
    own = pl.when(several).then(pl.lit([], pl.List(pl.String))).otherwise(found)
    return pl.select(pl.when(found.list.len() > 0).then(own).otherwise(other)).to_series()
