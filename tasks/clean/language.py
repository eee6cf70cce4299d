"""Which of the languages that are written with Chinese characters a text is in, told by its characters alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tasks.clean.characters import Kind, han_of
from tasks.clean.profile import Language

MIN_MARKS = 5
"""So many characters of a script must be there before they count: の on a label makes no Japanese."""

MIN_KANA, MIN_HANGUL, MIN_CANTONESE = 0.2, 0.3, 0.03
"""Their least share of all East Asian characters. Japanese has about half, written Cantonese every tenth."""


def tell_language(counts: Sequence[int]) -> Language | None:
    """The language of a text with these characters (`counts_of`), or None where it has no East Asian ones."""
    kana, hangul, cantonese = counts[Kind.KANA], counts[Kind.HANGUL], counts[Kind.CANTONESE]
    marks = han_of(counts) + kana + hangul
    if not marks:
        return None
    if hangul >= max(MIN_MARKS, MIN_HANGUL * marks):
        return "ko"
    if kana >= max(MIN_MARKS, MIN_KANA * marks):
        return "ja"
    if cantonese >= max(MIN_MARKS, MIN_CANTONESE * marks):
        return "yue"
    return "zh-Hant" if counts[Kind.TRADITIONAL] > counts[Kind.SIMPLIFIED] else "zh-Hans"


def is_kept(language: Language | None, languages: Collection[Language]) -> bool:
    """Whether a language is among those asked for; "zh" stands for both of its scripts. None is not ours to judge."""
    if language is None or language in languages:
        return True
    return language in ("zh-Hans", "zh-Hant") and "zh" in languages
