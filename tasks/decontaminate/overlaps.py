"""Overlaps of documents with benchmark texts, and documents without the passages that overlap.

Time grows with the characters, memory with the characters of the documents searched together (about 100 bytes each,
and more only where most of them overlap).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import regex

from tasks.decontaminate.ngrams import Matches, NgramIndex
from tasks.decontaminate.plain_form import PlainForms, plain_forms

FIRST_IDEOGRAPH = 0x2E80
"""First code point of scripts whose characters are more than letters: Chinese characters, kana, Hangul."""


class Shared(NamedTuple):
    """Overlap of a document with one benchmark text."""

    text: int
    """Number of the text in the index."""
    characters: int
    """Letters and digits of the document that are in n-grams of that text."""
    start: int
    end: int
    """Characters of the document from `start` to `end` are the longest such stretch, the first if there are several."""


class Overlap(NamedTuple):
    """All overlaps of a document."""

    spans: list[tuple[int, int]]
    """Stretches of the document that overlap with any text: first character, and the one behind the last."""
    shared: list[Shared]
    """Overlap with each benchmark text, in the order of the texts."""


def find_overlaps(texts: Sequence[str], index: NgramIndex, overlap_without_han: int) -> dict[int, Overlap]:
    """Return the overlaps of documents by their number in `texts`; documents without any are left out.

    A stretch without a Chinese character counts only if it has `overlap_without_han` letters and digits.
    """
    size = int(index.size[0])
    forms = plain_forms(texts)
    found = index.find(forms.points, forms.starts)
    if not len(found.places):
        return {}
    places = np.unique(found.places)
    begins, ends, stretch = _stretches(places, forms.starts, size)
    ideographs = np.concatenate([[0], np.cumsum(forms.points >= FIRST_IDEOGRAPH)])
    counts = (ideographs[ends] > ideographs[begins]) | (ends - begins >= overlap_without_han)
    is_kept = counts[stretch][np.searchsorted(places, found.places)]
    offsets = np.cumsum([0, *map(len, texts)])
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for begin, end in zip(begins[counts].tolist(), ends[counts].tolist(), strict=True):
        number, start, stop = _in_text(begin, end, forms, offsets)
        spans[number].append((start, stop))
    shared: dict[int, list[Shared]] = defaultdict(list)
    for number, one in _by_text(Matches(found.places[is_kept], found.texts[is_kept]), forms, offsets, size):
        shared[number].append(one)
    return {number: Overlap(spans[number], shared[number]) for number in spans}


def without_passages(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text without the sentences and lines that a span touches; lines that were apart are not joined."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    if not ends or ends[-1] < len(text):
        ends.append(len(text))
    touched: set[int] = set()
    for start, end in spans:
        touched.update(range(bisect_right(ends, start), bisect_left(ends, end) + 1))
    kept: list[str] = []
    start = 0
    for number, end in enumerate(ends):
        piece, start = text[start:end], end
        if number not in touched:
            kept.append(piece)
        elif "\n" in piece and kept and not kept[-1].endswith("\n"):
            kept.append("\n")
    return "".join(kept).strip()


# matches: "。", "！”", "……\n", "\n"
# not: "，", ".", "”"
_SENTENCE_END = regex.compile(r"[。！？；!?;…\n]++[”’」』）)】\]》〉\"']*+\s*+")


def _stretches(places: np.ndarray, starts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Join n-grams that overlap or adjoin to stretches.

    Returns:
        The start and end of each stretch, and the number of the stretch of each place.
    """
    owners = np.searchsorted(starts, places, side="right")
    is_first = np.concatenate([[True], (np.diff(places) > size) | (np.diff(owners) > 0)])
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(places)) - 1
    return places[firsts], places[lasts] + size, np.cumsum(is_first) - 1


def _in_text(begin: int, end: int, forms: PlainForms, offsets: np.ndarray) -> tuple[int, int, int]:
    """Return the number of the text that holds a stretch of the forms, and the start and end of the stretch in it."""
    number = int(np.searchsorted(forms.starts, begin, side="right")) - 1
    offset = int(offsets[number])
    return number, int(forms.origins[begin]) - offset, int(forms.origins[end - 1]) + 1 - offset


def _by_text(found: Matches, forms: PlainForms, offsets: np.ndarray, size: int) -> Iterable[tuple[int, Shared]]:
    """Yield the overlap of each document with each benchmark text, ordered by both."""
    owners = np.searchsorted(forms.starts, found.places, side="right")
    order = np.lexsort((found.places, found.texts, owners))
    owners, texts, places = owners[order], found.texts[order], found.places[order]
    is_first = np.concatenate([[True], (np.diff(owners) > 0) | (np.diff(texts) != 0)]) if len(order) else order
    firsts = np.flatnonzero(is_first)
    for first, last in zip(firsts, np.append(firsts[1:], len(order)), strict=True):
        begins, ends, _ = _stretches(places[first:last], forms.starts, size)
        longest = int(np.argmax(ends - begins))
        number, start, end = _in_text(int(begins[longest]), int(ends[longest]), forms, offsets)
        yield number, Shared(int(texts[first]), int((ends - begins).sum()), start, end)
