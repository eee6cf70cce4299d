"""The form in which names of entities are compared: width, case, punctuation, brackets and numerals made one.

    ２型糖尿病（成人）, Ⅱ型糖尿病(成人) and II型 糖尿病【成人】 are all 2型糖尿病(成人)

What tells drugs apart stays: 注射用 at the front, strengths, everything inside brackets. Time grows with the
characters: all of it runs column by column, but for the few names that hold a Roman numeral in Latin letters.
"""

from __future__ import annotations

import re

import polars as pl

_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_VALUES = {numeral: str(value) for value, numeral in enumerate(_ROMAN, start=1)}

# Ⅰ to Ⅻ and ⅰ to ⅻ stand in this order; NFKC would spell them with letters.
_ROMAN_CHARACTERS = {chr(first + place): str(place + 1) for first in (0x2160, 0x2170) for place in range(12)}

# Two letters and more between anything but letters and digits; i and v alone only before a word for a grade, since
# X线 and 维生素A are no numbers. One letter may follow where the grade does: IIIb期.
_GRADE = "[型期级度类相]"
_NUMERAL = re.compile(
    rf"(?<![a-z0-9])(?:(?P<long>[ivx]{{2,4}})(?=$|[^a-z0-9]|[a-c]{_GRADE})|(?P<short>[iv])(?=[a-c]?{_GRADE}))"
)
_MAYBE_NUMERAL = rf"(?:^|[^a-z0-9])(?:[ivx]{{2,4}}(?:$|[^a-z0-9]|[a-c]{_GRADE})|[iv][a-c]?{_GRADE})"

VARIANTS = {
    "(": "[{【〔〖「『《〈<⟨﹝",
    ")": "]}】〕〗」』》〉>⟩﹞",
    "-": "‐‑‒–—―−─⁃﹘",
    ",": "、،",
    "·": "•・‧∙⋅●",
    "~": "～〜∼",
    "": "\"'`´“”‘’„‟‛′″\u00ad\u200b\u200c\u200d\u2060\ufeff",
}
"""By the character that stands for them; of the last ones nothing is left."""

_UNIFIED = {variant: plain for plain, variants in VARIANTS.items() for variant in variants}
_EDGES = " ,.;:!?。·-~_/|"


def normalise_names(names: pl.Series) -> pl.Series:
    """The comparable form of every name; null and blank ones become the empty string.

    The form of a form is itself. A name of punctuation alone keeps its punctuation.
    """
    plain = (
        names.cast(pl.String)
        .fill_null("")
        .str.replace_many(_ROMAN_CHARACTERS)
        .str.normalize("NFKC")
        .str.to_lowercase()
        .str.normalize("NFKC")
    )
    # What stood between a letter and its accent may be gone now.
    unified = _tight(plain.str.replace_many(_UNIFIED)).str.normalize("NFKC")
    stripped = _numerals_to_digits(unified).str.strip_chars(_EDGES)
    return pl.select(
        pl.when(stripped != "").then(stripped).otherwise(unified.str.strip_chars()).alias(names.name)
    ).to_series()


def normalise_name(name: str) -> str:
    """The comparable form of one name; for many, `normalise_names` is faster."""
    return str(normalise_names(pl.Series([name], dtype=pl.String))[0])


def _tight(names: pl.Series) -> pl.Series:
    """White space only between two Latin letters or digits, and one blank there."""
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
