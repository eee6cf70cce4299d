"""From the output of `segphrase_segment` back to characters of our segments.

The program writes a line a sentence: ids of words, <phrase> and </phrase> around what it takes for one. It drops marks
and splits lines, but keeps every word and their order; so the n-th word that it writes is the n-th that it was given.

Time and memory grow with the words of what is aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tasks.phrase_words import Vocabulary

Span = tuple[int, int]


class AlignmentError(ValueError):
    """The program's output is not the text that it was given."""


def marked_words(lines: Iterable[str], expected: Sequence[int]) -> list[Span]:
    """The phrases in the program's output: first word and the word after the last, counted through all lines.

    Args:
        lines: of its output.
        expected: ids of the words that it was given; `Vocabulary.unknown` is written as -1.

    Raises:
        AlignmentError: it wrote other words, or a mark without its partner.
    """
    spans: list[Span] = []
    written: list[str] = []
    for line in lines:
        pieces = line.split()
        if "phrase>" not in line:
            written += pieces
            continue
        start = -1
        for piece in pieces:
            if piece == "<phrase>":
                start = len(written)
            elif piece == "</phrase>":
                if not 0 <= start < len(written):
                    raise AlignmentError(f"a phrase ends at word {len(written):,} that did not begin")
                spans.append((start, len(written)))
                start = -1
            else:
                written.append(piece)
    given = [str(code) if code != Vocabulary.unknown else "-1" for code in expected]
    if written != given:
        pairs = zip(written, given, strict=False)
        place = next((n for n, (one, other) in enumerate(pairs) if one != other), min(len(written), len(given)))
        raise AlignmentError(f"{len(written):,} words came back of {len(given):,}; they differ from word {place:,} on")
    return spans


def to_characters(spans: Sequence[Span], starts: np.ndarray, ends: np.ndarray, borders: np.ndarray) -> list[list[Span]]:
    """Spans of words as spans of characters, by segment.

    Args:
        spans: first word and the word after the last, in order, none across a border.
        starts, ends: characters of each word in its segment, int (W,).
        borders: word at which each segment begins, and the number of words, int (S + 1,).

    Returns:
        For each segment its spans in characters.
    """
    found: list[list[Span]] = [[] for _ in range(len(borders) - 1)]
    if not spans:
        return found
    words = np.array(spans)
    segments = np.searchsorted(borders, words[:, 0], side="right") - 1
    first, last = starts[words[:, 0]], ends[words[:, 1] - 1]
    for segment, start, end in zip(segments.tolist(), first.tolist(), last.tolist(), strict=True):
        found[segment].append((start, end))
    return found
