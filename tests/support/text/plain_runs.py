"""Forms of texts and their n-grams in plain Python, to hold the fast ones against."""

from __future__ import annotations

import unicodedata


def plain(text: str) -> str:
    """The form of a text, in plain Python."""
    form = ""
    for character in text:
        folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        # A Hangul syllable stays one character.
        decomposed = character if "\uac00" <= character <= "\ud7a3" else folded
        form += "".join(c for c in decomposed if unicodedata.category(c)[0] in "LN")
    return form


def runs(form: str, size: int) -> set[str]:
    return {form[first : first + size] for first in range(len(form) - size + 1)}
