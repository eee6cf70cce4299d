"""Filters that drop documents: empty, garbled, foreign, symbol-heavy or repetitive ones. The profile has the bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from infra.arrays.code_points import code_points
from infra.arrays.compiled import compiled
from tasks.clean.characters import Kind, all_counts, codes_of, han_of
from tasks.clean.language import is_kept, language_of
from tasks.clean.profile import CleanProfile

PHRASE = 10
"""Characters per phrase whose repetition is measured."""

MIN_FOR_REPETITION = 200
"""Characters of the shortest document whose repetition is measured; in a shorter one any repeat is a large share."""

LONG_FOR_A_GLANCE = 4_096
"""Characters of the longest text that is checked for repetition at a glance."""

MIN_LINE = 6
"""Characters of the shortest line whose repetition is measured: turns such as 好的 and 谢谢 may repeat freely."""

# matches: "──────", "……第1页 ......."
# not: "...", "aaaaaa"
_RULED = re.compile(r"([^\w\s])\1{4,}")
"""A rule of a table, or a line of dots to a page number."""

Problem = tuple[str, str]
"""Reason and detail of a rejected document."""


def problems_of(texts: Sequence[str], raws: Sequence[str], rules: Sequence[CleanProfile]) -> list[Problem | None]:
    """Return the problem for which each cleaned document is dropped, or None.

    Args:
        texts: the cleaned texts.
        raws: the texts before cleaning, in which characters that were lost in decoding can still be counted.
        rules: the profile of each text.
    """
    counts = all_counts(texts)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    plain = _are_plainly_chinese(counts, lengths, rules)
    varied, unrepeated = _are_varied(texts, lengths, np.array([rule.max_repeated_phrase for rule in rules]))
    long_enough = lengths >= np.array([rule.min_characters for rule in rules])  # at least 1: no empty text passes
    decoded = np.array(["\ufffd" not in raw for raw in raws], dtype=bool)
    fine = long_enough & decoded & plain & ((lengths < MIN_FOR_REPETITION) | (varied & unrepeated))
    return [
        None
        if is_fine
        else _problem_of_size(text, raw, rule)
        or (None if is_plain else _problem_of_characters(text, rule, counts[number].tolist()))
        or _problem_of_repetition(text, rule, varied[number], unrepeated[number])
        for number, (text, raw, rule, is_fine, is_plain) in enumerate(
            zip(texts, raws, rules, fine.tolist(), plain.tolist(), strict=True)
        )
    ]


def _problem_of_size(text: str, raw: str, rules: CleanProfile) -> Problem | None:
    if not text:
        return "empty", "nothing is left after cleaning"
    if len(text) < rules.min_characters:
        return "too_short", f"{len(text)} characters; the minimum is {rules.min_characters}"
    replaced = raw.count("\ufffd") / len(raw)
    if replaced > rules.max_replaced:
        return "garbled", f"{replaced:.1%} replacement characters; the maximum is {rules.max_replaced:.1%}"
    return None


def _are_plainly_chinese(
    counts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], rules: Sequence[CleanProfile]
) -> npt.NDArray[np.bool_]:
    """Return the texts in which `_problem_of_characters` would find nothing, at a glance: bool (T,)."""
    wanted = np.array([not {"zh", "zh-Hans"}.isdisjoint(rule.languages) for rule in rules], dtype=bool)
    other = counts[:, [Kind.KANA, Kind.HANGUL, Kind.CANTONESE]].any(axis=1)
    simplified = counts[:, Kind.SIMPLIFIED] >= counts[:, Kind.TRADITIONAL]
    visible = np.maximum(1, lengths - counts[:, Kind.BLANK])
    han = counts[:, Kind.HAN : Kind.CANTONESE + 1].sum(axis=1) / visible
    symbols = (counts[:, Kind.SYMBOL] + counts[:, Kind.DIGIT]) / visible
    enough = han >= np.array([rule.min_han_share for rule in rules])
    few = symbols <= np.array([rule.max_symbol_share for rule in rules])
    found: npt.NDArray[np.bool_] = wanted & ~other & simplified & enough & few
    return found


_BUCKETS = 256
_SCATTER = np.uint64(0x9E3779B97F4A7C15)
_TO_BUCKET = np.uint64(64 - 8)
"""Shift that leaves the 8 bits of a bucket."""
_LINE_END = ord("\n")


def _are_varied(
    texts: Sequence[str], lengths: npt.NDArray[np.int64], bounds: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return the texts in which, at a glance, no phrase exceeds its bound, and those in which no line repeats.

    A phrase within its bound is certain where no bucket of phrases is full enough. Long texts, with many phrases per
    bucket, are left to `repeated_phrase` and `repeated_lines`.
    """
    looked_at = np.flatnonzero((lengths >= MIN_FOR_REPETITION) & (lengths <= LONG_FOR_A_GLANCE))
    points, ends = code_points([texts[number] for number in looked_at.tolist()])
    fullest, repeats = np.zeros(len(looked_at), dtype=np.int64), np.zeros(len(looked_at), dtype=np.bool_)
    _fullest_buckets(points, ends, fullest)
    _find_repeats(points, ends, repeats)
    varied, unrepeated = np.zeros(len(texts), dtype=bool), np.zeros(len(texts), dtype=bool)
    varied[looked_at] = fullest * PHRASE <= bounds[looked_at] * lengths[looked_at]
    unrepeated[looked_at] = ~repeats
    return varied, unrepeated


@compiled
def _fullest_buckets(points: np.ndarray, ends: np.ndarray, fullest: np.ndarray) -> None:
    """Fill in for each text the number of phrases in its fullest bucket."""
    buckets = np.zeros(_BUCKETS, dtype=np.int64)
    for text in range(len(fullest)):
        buckets[:] = 0
        for place in range(ends[text], ends[text + 1] - PHRASE + 1):
            value = np.uint64(0)
            for offset in range(PHRASE):
                value = (value ^ np.uint64(points[place + offset])) * _SCATTER
            buckets[value >> _TO_BUCKET] += 1
        fullest[text] = buckets.max()


_LINES = 1 << 11
"""Places for the lines of one text; a text that is short enough for a glance has fewer than half as many."""


@compiled
def _find_repeats(points: np.ndarray, ends: np.ndarray, repeats: np.ndarray) -> None:
    """Mark the texts that hold a line twice, or two lines with one hash."""
    seen, owner = np.zeros(_LINES, dtype=np.uint64), np.full(_LINES, -1, dtype=np.int64)
    for text in range(len(repeats)):
        value, length = np.uint64(0), 0
        for place in range(ends[text], ends[text + 1] + 1):
            if place < ends[text + 1] and points[place] != _LINE_END:
                value = (value ^ np.uint64(points[place])) * _SCATTER
                value ^= value >> np.uint64(32)
                length += 1
                continue
            if length >= MIN_LINE:
                slot = value & np.uint64(_LINES - 1)
                # A place that another text used counts as free, so the table is never cleared.
                while owner[slot] == text and seen[slot] != value:
                    slot = (slot + np.uint64(1)) & np.uint64(_LINES - 1)
                repeats[text] |= owner[slot] == text
                seen[slot], owner[slot] = value, text
            value, length = np.uint64(0), 0


def repeated_lines(text: str) -> float:
    """Return the share of a text's characters that are in lines which occurred before."""
    lines = [line for line in text.split("\n") if len(line) >= MIN_LINE]
    different = set(lines)
    if len(different) == len(lines):
        return 0.0
    return (sum(map(len, lines)) - sum(map(len, different))) / len(text)


def repeated_phrase(text: str, bound: float = 0.0) -> tuple[float, str]:
    """Return the most frequent phrase of `PHRASE` characters, after the share of the text that it makes up.

    Phrases are counted by a hash in buckets, in linear time. Only if the fullest bucket exceeds the bound are its
    phrases counted; otherwise the share is 0.
    """
    bits = min(16, max(12, len(text).bit_length()))
    counts = np.zeros(2**bits, dtype=np.int64)
    for hashes in _phrase_hashes(text):
        counts += np.bincount(hashes >> np.uint32(32 - bits), minlength=len(counts))
    fullest = int(counts.argmax())
    if int(counts[fullest]) * PHRASE <= bound * len(text):
        return 0.0, ""
    kept = [hashes[hashes >> np.uint32(32 - bits) == fullest] for hashes in _phrase_hashes(text)]
    values, amounts = np.unique(np.concatenate(kept), return_counts=True)
    best = int(amounts.argmax())
    return min(1.0, int(amounts[best]) * PHRASE / len(text)), _phrase_of(text, values[best])


def _problem_of_characters(text: str, rules: CleanProfile, counts: Sequence[int]) -> Problem | None:
    language = language_of(counts)
    if not is_kept(language, rules.languages):
        return "language", f"the script is that of {language}; the profile keeps {', '.join(rules.languages)}"
    visible = max(1, len(text) - counts[Kind.BLANK])
    han = han_of(counts) / visible
    if han < rules.min_han_share:
        return "little_chinese", f"{han:.0%} Chinese characters; the minimum is {rules.min_han_share:.0%}"
    symbols = (counts[Kind.SYMBOL] + counts[Kind.DIGIT]) / visible
    if symbols > rules.max_symbol_share:
        return "symbols", f"{symbols:.0%} digits and symbols; the maximum is {rules.max_symbol_share:.0%}"
    return None


def _problem_of_repetition(text: str, rules: CleanProfile, is_varied: bool, is_unrepeated: bool) -> Problem | None:
    if len(text) < MIN_FOR_REPETITION:
        return None
    if (
        rules.max_repeated_lines < 1
        and not is_unrepeated
        and (share := repeated_lines(text)) > rules.max_repeated_lines
    ):
        return "repeated_lines", f"{share:.0%} is in repeated lines; the maximum is {rules.max_repeated_lines:.0%}"
    if rules.max_repeated_phrase < 1 and not is_varied:
        share, phrase = repeated_phrase(text, rules.max_repeated_phrase)
        if len(set(phrase)) == 1 and _RULED.search(phrase):  # the rules of a table are not a repeated phrase
            share, phrase = repeated_phrase(_RULED.sub("", text), rules.max_repeated_phrase)
        if share > rules.max_repeated_phrase:
            return "repeated_phrase", f"{phrase!r} is {share:.0%}; the maximum is {rules.max_repeated_phrase:.0%}"
    return None


def _phrase_hashes(text: str) -> Iterator[npt.NDArray[np.uint32]]:
    """Yield hashes of the phrase at each place, block by block."""
    for codes in codes_of(text, overlap=PHRASE - 1):
        yield _hashes(codes)


def _hashes(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    # Characters are joined to twos, fours, eights and tens: four passes instead of ten.
    two = codes[:-1] * np.uint32(0x9E3779B1) + codes[1:]
    four = two[:-2] * np.uint32(0x85EBCA6B) + two[2:]
    eight = four[:-4] * np.uint32(0xC2B2AE35) + four[4:]
    hashes: npt.NDArray[np.uint32] = (eight[:-2] * np.uint32(0x27D4EB2F) + two[8:]) * np.uint32(0x165667B1)
    return hashes


def _phrase_of(text: str, value: np.uint32) -> str:
    start = 0
    for hashes in _phrase_hashes(text):
        found = np.flatnonzero(hashes == value)
        if found.size:
            place = start + int(found[0])
            return text[place : place + PHRASE]
        start += len(hashes)
    return ""
