"""Language of a text among those written with Chinese characters, recognised by its characters alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tasks.clean.characters import Kind, han_of
from tasks.clean.profile import Language

MIN_MARKS = 5
"""Least number of characters of a script for it to count: の on a label does not make a text Japanese."""

MIN_KANA, MIN_HANGUL, MIN_CANTONESE = 0.2, 0.3, 0.03
"""Least share of all East Asian characters. Kana are about half of Japanese, CANTONESE a tenth of written Cantonese."""


def language_of(counts: Sequence[int]) -> Language | None:
    """Return the language of a text by its counts (`counts_of`), or None where it has no East Asian characters."""
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
    """Return True if a language is among those to keep. "zh" stands for both of its scripts; None is always kept."""
    if language is None or language in languages:
        return True
    return language in ("zh-Hans", "zh-Hant") and "zh" in languages
