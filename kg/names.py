"""Comparable form of entity names: width, case, punctuation, brackets and numerals are unified.

    ２型糖尿病（成人）, Ⅱ型糖尿病(成人) and II型 糖尿病【成人】 all become 2型糖尿病(成人)

Whatever distinguishes drugs is kept: a leading 注射用, strengths, everything in brackets. Time grows with the
characters. Many names run column by column, except for the few with a Roman numeral in Latin letters. Up to a few
thousand run one by one: so many operations on columns take some 10 ms to start. Both give the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import polars as pl

_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_VALUES = {numeral: str(value) for value, numeral in enumerate(_ROMAN, start=1)}

# Unicode has Ⅰ to Ⅻ and ⅰ to ⅻ in this order; NFKC would spell them with letters.
_ROMAN_CHARACTERS = {chr(first + place): str(place + 1) for first in (0x2160, 0x2170) for place in range(12)}

# Two letters or more, with no letter or digit beside them: III度. A single i or v only before a word for a grade (V级),
# because X线 and 维生素A are not numbers. A letter a to c may come between the numeral and the grade: IIIb期.
_GRADE = "[型期级度类相]"
# Matches ii in 糖尿病ii型 and iii in iiib期; not the x of x线, not the vi of vip.
_NUMERAL = re.compile(
    rf"(?<![a-z0-9])(?:(?P<long>[ivx]{{2,4}})(?=$|[^a-z0-9]|[a-c]{_GRADE})|(?P<short>[iv])(?=[a-c]?{_GRADE}))"
)
_MAYBE_NUMERAL = rf"(?:^|[^a-z0-9])(?:[ivx]{{2,4}}(?:$|[^a-z0-9]|[a-c]{_GRADE})|[iv][a-c]?{_GRADE})"

VARIANTS = {
    "(": "[{【〔〖「『《〈⟨﹝",
    ")": "]}】〕〗」』》〉⟩﹞",
    "-": "‐‑‒–—―−─⁃﹘",
    ",": "、،",
    "·": "•・‧∙⋅●",
    "~": "～〜∼",
    "": "\"'`´“”‘’„‟‛′″\u00ad\u200b\u200c\u200d\u2060\ufeff",
}
"""Variants by the character that replaces them; the last ones are removed. < and > are kept: they compare (GFR<50)."""

_UNIFIED = {variant: plain for plain, variants in VARIANTS.items() for variant in variants}
_EDGES = " ,.;:!?。·-~_/|"

# Unicode's White_Space, which polars means by it; Python's also has the four separators before the blank.
_BLANKS = "\t\n\v\f\r \x85\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_BLANK = re.compile(f"[{_BLANKS}]+")  # the two blanks in diabetes  mellitus
_LOOSE = re.compile("(?<=[^a-z0-9]) | (?=[^a-z0-9])")  # the blank in 2型 糖尿病, not the one in diabetes mellitus
_ROMAN_TABLE = str.maketrans(_ROMAN_CHARACTERS)
_UNIFIED_TABLE = str.maketrans(_UNIFIED)

FEW = 2_000
"""Names below this number are faster one by one."""


def normalise_names(names: pl.Series) -> pl.Series:
    """Return the comparable form of every name; null and blank names become the empty string.

    The function is idempotent. A name that is all punctuation keeps it.
    """
    plain = (
        names.cast(pl.String)
        .fill_null("")
        .str.replace_many(_ROMAN_CHARACTERS)
        .str.normalize("NFKC")
        .str.to_lowercase()
        .str.normalize("NFKC")
    )
    # A removed character may have separated a letter from its accent, which now compose: e\u200b\u0301 becomes é.
    unified = _tight(plain.str.replace_many(_UNIFIED)).str.normalize("NFKC")
    stripped = _numerals_to_digits(unified).str.strip_chars(_EDGES)
    return pl.select(
        pl.when(stripped != "").then(stripped).otherwise(unified.str.strip_chars()).alias(names.name)
    ).to_series()


def forms_of(names: Sequence[str]) -> list[str]:
    """Return the comparable form of every name, whether they are few or many."""
    if len(names) < FEW:
        return [normalise_name(name) for name in names]
    return normalise_names(pl.Series(names, dtype=pl.String)).to_list()


def normalise_name(name: str) -> str:
    """Return the comparable form of one name."""
    if _is_plain(name):
        return name
    if any(unicodedata.category(character) == "Cn" for character in name):
        return str(normalise_names(pl.Series([name], dtype=pl.String))[0])  # polars knows a newer Unicode than Python
    plain = unicodedata.normalize("NFKC", name.translate(_ROMAN_TABLE)).lower()
    plain = unicodedata.normalize("NFKC", plain).translate(_UNIFIED_TABLE)
    tight = _LOOSE.sub("", _BLANK.sub(" ", plain)).strip(" ")
    unified = unicodedata.normalize("NFKC", tight)
    return _NUMERAL.sub(_digits, unified).strip(_EDGES) or unified.strip(" ")


def _is_plain(name: str) -> bool:
    """Return True if all characters are common Chinese ones, which are their own form: 慢性支气管炎."""
    return bool(name) and min(name) >= "\u4e00" and max(name) <= "\u9fa5"


def _tight(names: pl.Series) -> pl.Series:
    """Keep white space only between two Latin letters or digits, as one blank."""
    return (
        names.str.replace_all(r"\s+", " ")
        .str.replace_all(r"([^a-z0-9]) ", "$1")
        .str.replace_all(r" ([^a-z0-9])", "$1")
        .str.strip_chars()
    )


def _numerals_to_digits(names: pl.Series) -> pl.Series:
    places = names.str.contains(_MAYBE_NUMERAL).arg_true()
    if places.is_empty():
        return names
    return names.scatter(places, [_NUMERAL.sub(_digits, name) for name in names.gather(places)])


def _digits(match: re.Match[str]) -> str:
    return _VALUES.get(match[0], match[0])
