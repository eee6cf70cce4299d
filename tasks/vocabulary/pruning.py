"""Pruning of a vocabulary: the least used tokens are removed until exactly as many as wanted are left.

When a token is removed, only the words that contain it are cut again. Time therefore grows with the distinct runs of
letters plus the removed tokens, not with their product. Memory grows with the distinct runs.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from tasks.vocabulary.wordpiece import longest_match

Change = tuple[str, list[tuple[int, list[str]]]]
"""A removed token, and the words that contained it, by number, with their previous pieces."""


def fitted(counts: Mapping[str, int], letters: set[str], merges: Iterable[str], least: int, room: int) -> list[str]:
    """Return at most `room` of the merged tokens, in their order, each used `least` times when words are cut with them.

    Fewer than `room` are returned only if the text does not contain as many.

    Args:
        counts: number of occurrences of each run of letters.
        letters: single letters, which are never removed.
        merges: the merged tokens, in the order of the vocabulary.
        least: fewest uses of a token.
        room: most tokens to keep.
    """
    cut = _Cut(counts, letters, merges)
    queue = [(cut.used[token], token) for token in cut.merged]
    heapq.heapify(queue)
    held: list[str] = []  # tokens whose removal would remove others too, and leave fewer than `room`
    while queue:
        used, token = heapq.heappop(queue)
        if token not in cut.merged or used != cut.used[token]:
            continue  # an old entry: the token was removed, or its use has changed since
        if used >= least and len(cut.merged) <= room:
            break
        changes = cut.drop(token, least)
        if used >= least and len(cut.merged) < room:
            cut.restore(changes)
            held.append(token)
            continue
        for touched in sorted(_touched(changes, cut)):
            heapq.heappush(queue, (cut.used[touched], touched))
    for token in held:
        if len(cut.merged) > room and token in cut.merged:
            cut.drop(token, least)
    return list(cut.merged)


def _touched(changes: Iterable[Change], cut: _Cut) -> set[str]:
    """Return the remaining tokens whose frequency may have changed."""
    pieces = {piece for _, words in changes for number, before in words for piece in (*before, *cut.pieces[number])}
    return pieces & cut.merged.keys()


class _Cut:
    """Words cut into tokens, kept up to date while tokens are removed."""

    def __init__(self, counts: Mapping[str, int], letters: set[str], merges: Iterable[str]) -> None:
        self.merged: dict[str, None] = dict.fromkeys(merges)
        self._order = {token: number for number, token in enumerate(self.merged)}
        self._tokens = letters | self.merged.keys()
        self._words = list(counts.items())
        self.pieces = [longest_match(word, self._tokens) for word, _ in self._words]
        self.used: Counter[str] = Counter()
        self._places: dict[str, set[int]] = defaultdict(set)
        for number in range(len(self._words)):
            self._enter(number, self.pieces[number])

    def drop(self, token: str, least: int) -> list[Change]:
        """Remove a token, and with it those that are then used less than `least` times."""
        changes = []
        waiting = [(0, token)]
        while waiting:
            _, token = heapq.heappop(waiting)
            if token not in self.merged:
                continue
            change = self._drop_one(token)
            changes.append(change)
            for other in _touched([change], self):
                if self.used[other] < least:
                    heapq.heappush(waiting, (self.used[other], other))
        return changes

    def restore(self, changes: list[Change]) -> None:
        """Undo a `drop`."""
        for token, words in reversed(changes):
            self.merged[token] = None
            self._tokens.add(token)
            for number, before in words:
                self._leave(number)
                self._enter(number, before)
        self.merged = dict.fromkeys(sorted(self.merged, key=self._order.__getitem__))

    def _drop_one(self, token: str) -> Change:
        del self.merged[token]
        self._tokens.discard(token)
        words = []
        for number in sorted(self._places[token]):
            words.append((number, self.pieces[number]))
            self._leave(number)
            self._enter(number, longest_match(self._words[number][0], self._tokens))
        return token, words

    def _enter(self, number: int, pieces: list[str]) -> None:
        self.pieces[number] = pieces
        for piece in pieces:
            self.used[piece] += self._words[number][1]
            self._places[piece].add(number)

    def _leave(self, number: int) -> None:
        for piece in self.pieces[number]:
            self.used[piece] -= self._words[number][1]
            self._places[piece].discard(number)
