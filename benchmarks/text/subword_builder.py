"""Tensor2tensor's way to build a vocabulary of subwords, written from its description, for comparison with ours.

Candidates are all strings that begin where a token of the last round begins. The longest are considered first: one that
occurs often enough becomes a token, and its count is taken from all its prefixes. Single characters are always tokens.
After four rounds the vocabulary is done; the minimum count is searched for that gives about the wanted size.

Words carry a mark at their beginning, where tensor2tensor marks their end, so that a token without the mark is one with
`##`: the form of WordPiece, which cuts words by the longest match as tensor2tensor does. Its escapes for characters
that training never saw are left out: such a word is [UNK].

Time grows with the rounds, the distinct words and the square of their length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

MARK = "\u2581"
"""What every word begins with: ▁."""

ROUNDS = 4
LOWEST, HIGHEST = 1, 1_000
"""Minimum counts between which is searched."""


def build_to_size(counts: Mapping[str, int], size: int) -> tuple[list[str], int]:
    """Return a vocabulary of about `size` tokens, the most frequent first, and its minimum count.

    The search ends within 1 % of the size, or where counts are used up; then the nearer of the last two is returned.
    """

    def search(low: int, high: int) -> tuple[list[str], int]:
        minimum = (low + high) // 2
        found = build(counts, minimum)
        if abs(len(found) - size) * 100 < size or low >= high or minimum < 2:
            return found, minimum
        other = search(minimum + 1, high) if len(found) > size else search(low, minimum - 1)
        return min((other, (found, minimum)), key=lambda one: abs(len(one[0]) - size))

    return search(LOWEST, HIGHEST)


def build(counts: Mapping[str, int], minimum: int, rounds: int = ROUNDS) -> list[str]:
    """Return the tokens of words that occur `counts` times, the most frequent first; `MARK` is where a word begins."""
    marked = {MARK + word: count for word, count in counts.items()}
    alphabet = {character for word in marked for character in word}
    found = dict.fromkeys(alphabet, 0)
    for _ in range(rounds):
        candidates = _candidates(marked, found)
        found = _chosen(candidates, minimum, alphabet)
    return sorted(found, key=lambda token: (found[token], token), reverse=True)


def _candidates(words: Mapping[str, int], tokens: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of all strings that begin at a token when the words are cut by the longest match."""
    longest = max(map(len, tokens))
    candidates: dict[str, int] = defaultdict(int)
    for word, count in words.items():
        start = 0
        while start < len(word):
            for end in range(start + 1, len(word) + 1):
                candidates[word[start:end]] += count
            start = next(end for end in range(min(len(word), start + longest), start, -1) if word[start:end] in tokens)
    return candidates


def _chosen(candidates: dict[str, int], minimum: int, alphabet: Iterable[str]) -> dict[str, int]:
    """Return the candidates that occur often enough without the longer ones that were chosen, and the alphabet."""
    by_length: dict[int, list[str]] = defaultdict(list)
    for candidate, count in candidates.items():
        if count >= minimum:
            by_length[len(candidate)].append(candidate)
    chosen: dict[str, int] = {}
    for length in sorted(by_length, reverse=True):
        for candidate in by_length[length]:
            count = candidates[candidate]
            if count < minimum:
                continue
            chosen[candidate] = count
            for end in range(1, length):
                candidates[candidate[:end]] -= count
    return chosen | {character: candidates.get(character, 0) for character in alphabet}


def as_wordpiece(tokens: Iterable[str]) -> list[str]:
    """Return the tokens in the form of WordPiece: `▁mr` as `mr`, `i` as `##i`; the mark alone is left out."""
    return [token[1:] if token.startswith(MARK) else f"##{token}" for token in tokens if token != MARK]


def with_characters(tokens: Iterable[str]) -> list[str]:
    """Return WordPiece tokens with every character as the beginning of a word too.

    In tensor2tensor ▁ and m are two tokens of their own for an m that begins a word; WordPiece needs one.
    """
    given = list(tokens)
    return list(dict.fromkeys([*given, *(token[2:] for token in given if len(token) == 3 and token[:2] == "##")]))
