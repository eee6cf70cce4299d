"""Merging of WordPiece equals its definition: count all pairs anew, merge the most frequent, ties by spelling."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.vocabulary.wordpiece import learn_merges


def merges_by_definition(counts: Mapping[str, int], min_frequency: int) -> list[str]:
    words = {word: [word[0], *(f"##{letter}" for letter in word[1:])] for word in counts}
    found: dict[str, None] = {}
    while True:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, pieces in words.items():
            for pair in pairwise(pieces):
                pairs[pair] += counts[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < min_frequency:
            return list(found)
        token = best[0] + best[1].removeprefix("##")
        found[token] = None
        for pieces in words.values():
            at = 0
            while at < len(pieces) - 1:
                if (pieces[at], pieces[at + 1]) == best:
                    pieces[at : at + 2] = [token]
                at += 1


@settings(max_examples=150)
@given(
    counts=st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 30), max_size=25),
    least=st.integers(1, 12),
)
def test_merges_are_those_of_the_definition(counts: dict[str, int], least: int) -> None:
    assert learn_merges(counts, least) == merges_by_definition(counts, least)


@pytest.mark.parametrize("seed", range(3))
def test_merges_of_many_words_are_those_of_the_definition(seed: int) -> None:
    """Long words of frequent roots, whose pairs lose most of their counts to other merges."""
    drawn = random.Random(seed)
    roots = ["".join(drawn.choices("abcdefgh", k=drawn.randint(2, 5))) for _ in range(30)]
    counts = Counter("".join(drawn.choices(roots, k=drawn.randint(1, 3))) for _ in range(1_000))
    merges = learn_merges(counts, 4)
    assert len(merges) > 100
    assert merges == merges_by_definition(counts, 4)


def test_a_pair_whose_count_fell_keeps_its_place_among_the_others() -> None:
    """`ab` takes most of `bc`'s 12, but 5 are left: fewer than those of `xy`, and enough to be merged."""
    counts = {"abc": 7, "abd": 20, "zbc": 5, "xy": 6}
    assert learn_merges(counts, 5) == ["ab", "abd", "abc", "xy", "##bc", "zbc"]
    assert learn_merges(counts, 6) == ["ab", "abd", "abc", "xy"]
