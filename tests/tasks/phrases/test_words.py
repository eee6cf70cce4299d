"""Words as numbers: no text is lost, marks separate sentences, signs inside terms do not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.phrases.words import BLANK, MARKS, SEPARATOR, Unit, Vocabulary, cut_units, join_words
from tasks.segment.words import segment_words

TEXTS = st.text(st.sampled_from("患者糖尿病β-受体CD4+ 3.5mg，。（）《》\n\u3000😀·") | st.characters(codec="utf-8"))


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, unit=st.sampled_from(["words", "characters"]))
def test_pieces_join_to_the_text(text: str, unit: Unit) -> None:
    pieces = cut_units(text, list(map(len, segment_words(text))), unit)
    assert "".join(pieces) == text
    if unit == "characters":
        assert all(len(piece) == 1 or piece.isascii() for piece in pieces)


@pytest.mark.parametrize(
    ("piece", "mark"),
    [
        *[("，", ","), ("。", "."), ("\n", "."), ("\r\n", "."), ("？", "."), ("；", ";"), ("（", "("), ("】", ")")],
        *[("“", '"'), ("％", ";"), ("……", ";"), ("——", ";"), ("😀", ";"), ("!!", "!"), ("，。", ";")],
    ],
)
def test_marks_separate_sentences(piece: str, mark: str) -> None:
    assert MARKS[SEPARATOR - Vocabulary()[piece]] == mark


@pytest.mark.parametrize("piece", [" ", "\u3000", "\t", "\xa0"])
def test_blanks_are_skipped(piece: str) -> None:
    assert Vocabulary()[piece] == BLANK


def test_words_are_numbered_in_order_of_appearance() -> None:
    vocabulary = Vocabulary()
    assert vocabulary.codes(["糖尿病", "-", "CD4", "+", "糖尿病", "，", "3.5"]) == [0, 1, 2, 3, 0, SEPARATOR, 4]
    assert vocabulary.words == ["糖尿病", "-", "CD4", "+", "3.5"]


def test_closed_vocabulary_accepts_no_more_words() -> None:
    vocabulary = Vocabulary(["甲", "乙"], closed=True)
    assert vocabulary.codes(["乙", "丙", "。", "丙", "甲"]) == [
        1,
        vocabulary.unknown,
        SEPARATOR - 1,
        vocabulary.unknown,
        0,
    ]
    assert vocabulary.words == ["甲", "乙"]
    assert Vocabulary(["甲"])["乙"] == 1


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["糖尿病", "肾病"], "糖尿病肾病"),
        (["breast", "cancer"], "breast cancer"),
        (["CD4", "+", "T", "细胞"], "CD4+T细胞"),
        (["β", "-", "受体"], "β-受体"),
    ],
)
def test_phrases_are_shown_as_they_are_written(words: list[str], shown: str) -> None:
    assert join_words(words) == shown
