"""The entity vocabulary: AutoPhrase's phrases and the names of a knowledge graph (EMBERT, appendix).

There is one row for every pair of a surface and an entity with that surface; a phrase without an entity becomes an
entity of its own. Surfaces that cannot be entities are dropped, with the reason.

Time grows with the characters of the surfaces, memory with their number.
"""

from __future__ import annotations

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from infra.arrays.batching import batches_of

STOP_WORDS_FILE = Path(__file__).with_name("stop_words.txt")

LONG_FROM = 4
"""Minimum characters of a candidate for a long entity: in EMBERT, those longer than three."""

PHRASE_ID = "phrase:"
"""Prefix of the id of an entity that is only a phrase; the surface follows."""

CHARACTERS_AT_ONCE = 1 << 23
"""Characters searched at once; bounds the occurrences in memory."""

Origin = Literal["kg", "phrase", "both"]
Reason = Literal["low_quality", "blank", "stop_word", "single_letter", "digits", "punctuation", "too_long"]


class Phrase(NamedTuple):
    """A phrase from AutoPhrase."""

    surface: str
    quality: float
    """From 0 to 1."""
    is_word: bool = False
    """Whether it is a single word of the text it was mined from."""


class Name(NamedTuple):
    """A name or an alias of an entity of the knowledge graph."""

    surface: str
    entity_id: str
    type: str
    """Empty where unknown."""


class Entity(NamedTuple):
    """A surface and an entity with that surface."""

    surface: str
    entity_id: str
    type: str
    origin: Origin
    quality: float | None
    """Quality of the phrase; None if no phrase is good enough."""


class Drop(NamedTuple):
    """A surface that cannot be an entity, and the reason."""

    surface: str
    origin: Origin
    reason: Reason


def build_vocabulary(
    phrases: Iterable[Phrase],
    names: Iterable[Name],
    *,
    min_quality: float = 0.5,
    min_quality_word: float = 0.8,
    max_length: int = 32,
    stop_words: frozenset[str] | None = None,
) -> tuple[list[Entity], list[Drop]]:
    """Return the entities, sorted by surface and id, and the drops, sorted; the order of the input does not matter.

    White space around a surface is stripped. Phrases of too low quality are ignored: an entity with such a surface has
    the origin kg. Surfaces of more than `max_length` characters are taken for sentences.

    Args:
        min_quality, min_quality_word: minimum quality of a phrase of several words, and of one that is a single word.
        stop_words: surfaces that are never entities; `read_stop_words()` by default.
    """
    stop_words = read_stop_words() if stop_words is None else stop_words
    named = {Name(name.surface.strip(), name.entity_id, name.type) for name in names}
    in_graph = {name.surface for name in named}
    good: dict[str, float] = {}
    poor: set[str] = set()
    for phrase in phrases:
        surface = phrase.surface.strip()
        if phrase.quality >= (min_quality_word if phrase.is_word else min_quality):
            good[surface] = max(phrase.quality, good.get(surface, 0.0))
        else:
            poor.add(surface)
    origins: dict[str, Origin] = dict.fromkeys(good, "phrase")
    origins |= {surface: "both" if surface in good else "kg" for surface in in_graph}
    reasons = {surface: _reason(surface, stop_words, max_length) for surface in origins}
    drops = [Drop(surface, origins[surface], reason) for surface, reason in reasons.items() if reason]
    drops += [Drop(surface, "phrase", "low_quality") for surface in poor - origins.keys()]
    kept = {name for name in named if not reasons[name.surface]}
    kept |= {Name(surface, PHRASE_ID + surface, "") for surface in good.keys() - in_graph if not reasons[surface]}
    entities = [Entity(*name, origins[name.surface], good.get(name.surface)) for name in sorted(kept)]
    return entities, sorted(drops)


def _reason(surface: str, stop_words: frozenset[str], max_length: int) -> Reason | None:
    """Return the reason why a surface cannot be an entity, or None if it can."""
    if not surface:
        return "blank"
    if surface in stop_words:
        return "stop_word"
    if not any(map(str.isalpha, surface)):
        return "digits" if any(map(str.isnumeric, surface)) else "punctuation"
    if len(surface) == 1 and unicodedata.category(surface) != "Lo":  # Chinese characters are Lo, alphabets are not
        return "single_letter"
    return "too_long" if len(surface) > max_length else None


def is_long_candidate(surface: str) -> bool:
    """Return whether an entity may be a long one."""
    return len(surface) >= LONG_FROM


@functools.cache
def read_stop_words() -> frozenset[str]:
    """Return the words of stop_words.txt: function words and small talk of dialogues, never entities."""
    return frozenset(STOP_WORDS_FILE.read_text(encoding="utf-8").split())


def count_occurrences(texts: Iterable[str], surfaces: Iterable[str]) -> Counter[str]:
    """Count the occurrences of each surface in some texts, including those inside or overlapping another.

    Matching is case-sensitive. Aho-Corasick: time grows with the characters of the texts (twice: to find and to count)
    and of the surfaces; memory with the surfaces and the occurrences in `CHARACTERS_AT_ONCE`.
    """
    counts: Counter[str] = Counter()
    patterns = sorted(set(surfaces) - {""})
    if not patterns:
        return counts
    for batch in batches_of(texts, CHARACTERS_AT_ONCE):
        found = pl.Series(batch, dtype=pl.String).str.extract_many(patterns, overlapping=True)
        tallied = found.explode().drop_nulls().value_counts()
        counts.update(dict(tallied.iter_rows()))
    return counts
