"""A vocabulary is pruned to its size by dropping the least used tokens."""

from __future__ import annotations

from tasks.vocabulary.pruning import fitted

COUNTS = {"abcde": 5, "zde": 1, "ab": 20, "qcde": 9}
LETTERS = {*"abzq", "##b", "##c", "##d", "##e"}
MERGES = ["ab", "abc", "##de", "##cde"]


def test_the_least_used_tokens_are_dropped_first_and_the_others_keep_their_order() -> None:
    assert fitted(COUNTS, LETTERS, MERGES, 1, 4) == MERGES
    # Without abc the word abcde is ab ##cde, and nothing but zde is left to ##de.
    assert fitted(COUNTS, LETTERS, MERGES, 1, 3) == ["ab", "##de", "##cde"]
    assert fitted(COUNTS, LETTERS, MERGES, 1, 1) == ["ab"]
    assert fitted(COUNTS, LETTERS, MERGES, 1, 0) == []


def test_a_token_is_kept_if_dropping_it_would_leave_room() -> None:
    assert fitted(COUNTS, LETTERS, MERGES, 3, 4) == MERGES
    assert fitted(COUNTS, LETTERS, MERGES, 3, 3) == ["ab", "abc", "##cde"]


def test_the_size_is_not_exceeded_if_every_choice_leaves_room() -> None:
    counts = {"ab": 4}
    assert fitted(counts, {"a", "##b"}, ["ab"], 5, 1) == []
    # Neither can go alone: abc ##de, or else ab ##cde; zde alone is too rare for ##de, and yabc for abc.
    counts = {"abcde": 5, "qcde": 9, "ab": 20}
    assert len(fitted(counts, LETTERS, MERGES, 6, 2)) <= 2


def test_unused_tokens_are_dropped() -> None:
    assert fitted({"ecog": 9}, {"e", "##c", "##o", "##g"}, ["ec", "eco", "ecog"], 5, 10) == ["ecog"]
