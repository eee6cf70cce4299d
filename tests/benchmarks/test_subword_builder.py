"""The plain subword builder chooses what its description says, on words small enough to follow by hand."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.text.subword_builder import MARK, as_wordpiece, build, build_to_size, with_characters
from tasks.vocabulary.wordpiece import longest_match


def test_frequent_words_are_whole_and_take_their_count_from_their_prefixes() -> None:
    # ▁abc occurs 10 times and takes all occurrences of ▁ab, which occurs 12 times: the 2 of abd are left.
    counts = {"abc": 10, "abd": 2}
    assert set(build(counts, 3)) == {"▁abc", *"▁abcd"}
    # With 2 as the minimum, abd is whole too, and nothing is left for ▁ab.
    assert set(build(counts, 2)) == {"▁abc", "▁abd", *"▁abcd"}


def test_later_rounds_count_from_the_tokens_of_the_last() -> None:
    # Before the first round every character begins a token, so bc counts 4; after it, ▁abc covers the word.
    assert "bc" in build({"abc": 4}, 4, rounds=1)
    assert set(build({"abc": 4}, 4)) == {"▁abc", *"▁abc"}


def test_most_frequent_tokens_come_first() -> None:
    tokens = build({"mri": 9, "ct": 20}, 5)
    assert tokens[:2] == ["▁ct", "▁mri"]
    assert with_characters(as_wordpiece(tokens))[:2] == ["ct", "mri"]
    assert {"##m", "m"} <= set(with_characters(as_wordpiece(tokens)))


def test_search_finds_the_minimum_count_of_a_size() -> None:
    counts = {f"{a}{b}": 3 * number + 1 for number, (a, b) in enumerate((a, b) for a in "abcdefg" for b in "hijklm")}
    for size in (20, 30, 45):
        tokens, minimum = build_to_size(counts, size)
        assert tokens == build(counts, minimum)
        sizes = {least: len(build(counts, least)) for least in range(1, 140)}
        assert abs(len(tokens) - size) == min(abs(each - size) for each in sizes.values())


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(1, 20), min_size=1), st.integers(1, 30))
def test_every_word_can_be_cut(counts: dict[str, int], minimum: int) -> None:
    tokens = build(counts, minimum)
    assert len(tokens) == len(set(tokens)) and MARK in tokens
    pieces = set(with_characters(as_wordpiece(tokens)))
    for word in counts:
        cut = longest_match(word, pieces)
        assert "".join(piece.removeprefix("##") for piece in cut) == word
