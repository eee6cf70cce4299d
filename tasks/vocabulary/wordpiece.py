"""Training of WordPiece on word counts: pairs of pieces are merged, the most frequent first, ties by spelling.

Only runs of letters have pieces, and any other character is a word of its own. Time therefore grows with the distinct
runs of letters, not with the text. Equal counts give equal vocabularies.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

Pair = tuple[str, str]


def letter_pieces(word: str) -> list[str]:
    """Return the letters of a word, all but the first marked as inside a word: `CT` is `C`, `##T`."""
    return [word[0], *(f"##{letter}" for letter in word[1:])]


def learn_merges(counts: Mapping[str, int], min_frequency: int) -> list[str]:
    """Return tokens in the order in which merging makes them, down to pairs that occur `min_frequency` times."""
    words = [(letter_pieces(word), count) for word, count in sorted(counts.items()) if len(word) > 1]
    pairs: Counter[Pair] = Counter()
    places: dict[Pair, set[int]] = defaultdict(set)
    for number, (pieces, count) in enumerate(words):
        for pair in pairwise(pieces):
            pairs[pair] += count
            places[pair].add(number)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    tokens: dict[str, None] = {}
    while heap:
        count, pair = heapq.heappop(heap)
        if -count != pairs[pair]:  # an old entry: other merges have changed the pair's count since
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        if -count < min_frequency:
            break
        merged = pair[0] + pair[1].removeprefix("##")
        tokens.setdefault(merged)
        changed = _merge(words, places.pop(pair), pair, merged, pairs, places)
        del pairs[pair]
        for other in sorted(changed):
            heapq.heappush(heap, (-pairs[other], other))
    return list(tokens)


def _merge(
    words: Sequence[tuple[list[str], int]],
    numbers: Iterable[int],
    pair: Pair,
    merged: str,
    pairs: Counter[Pair],
    places: dict[Pair, set[int]],
) -> set[Pair]:
    """Merge a pair in the words that contain it, and return the pairs that became more frequent."""
    grown = set()
    for number in numbers:
        pieces, count = words[number]
        for old in pairwise(pieces):
            pairs[old] -= count
            if old != pair:
                places[old].discard(number)
        position = 0
        while position < len(pieces) - 1:
            if (pieces[position], pieces[position + 1]) == pair:
                pieces[position : position + 2] = [merged]
            position += 1
        for new in pairwise(pieces):
            pairs[new] += count
            places[new].add(number)
            if merged in new:  # no other pair has become more frequent
                grown.add(new)
    return grown


def longest_match(word: str, tokens: Mapping[str, object] | set[str]) -> list[str]:
    """Return the pieces that WordPiece cuts a word into, longest match first, or none if a letter is unknown."""
    pieces: list[str] = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = word[start:end] if start == 0 else f"##{word[start:end]}"
            if piece in tokens:
                pieces.append(piece)
                start = end
                break
        else:
            return []
    return pieces


def piece_frequencies(counts: Mapping[str, int], tokens: set[str]) -> Counter[str]:
    """Return the number of uses of each token when the words are cut with them."""
    frequencies: Counter[str] = Counter()
    for word, count in counts.items():
        for piece in longest_match(word, tokens):
            frequencies[piece] += count
    return frequencies
