"""The entity vocabulary: entities, drops with reasons, any order; occurrences against str.find."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.entities import entity_vocabulary
from kg.entities.entity_vocabulary import (
    Drop,
    Entity,
    Name,
    Phrase,
    build_vocabulary,
    count_occurrences,
    is_long_candidate,
    read_stop_words,
)

PHRASES = [
    Phrase("糖尿病", 0.9),
    Phrase("糖尿病", 0.7),
    Phrase("酮酸中毒", 0.6),
    Phrase("发热", 0.7, is_word=True),
    Phrase("咳嗽", 0.85, is_word=True),
    Phrase("请问医生", 0.2),
    Phrase("高血压", 0.1),
    Phrase("我们", 0.99, is_word=True),
]
NAMES = [
    Name(" 糖尿病 ", "D1", "disease"),
    Name("消渴", "D1", "disease"),
    Name("高血压", "D2", "disease"),
    Name("消渴", "S1", "symptom"),
    Name("120/80", "X1", "literal"),
    Name("A", "X2", "literal"),
    Name("β", "X2", "literal"),
    Name("——", "X3", "literal"),
    Name("  ", "X4", "literal"),
    Name("痰", "S2", "symptom"),
    Name("的" * 33, "X5", "literal"),
]


def test_phrases_and_names_are_combined() -> None:
    entities, drops = build_vocabulary(PHRASES, NAMES)
    assert entities == [
        Entity("咳嗽", "phrase:咳嗽", "", "phrase", 0.85),
        Entity("消渴", "D1", "disease", "kg", None),
        Entity("消渴", "S1", "symptom", "kg", None),
        Entity("痰", "S2", "symptom", "kg", None),
        Entity("糖尿病", "D1", "disease", "both", 0.9),
        Entity("酮酸中毒", "phrase:酮酸中毒", "", "phrase", 0.6),
        Entity("高血压", "D2", "disease", "kg", None),
    ]
    assert {(drop.surface, drop.origin): drop.reason for drop in drops} == {
        ("", "kg"): "blank",
        ("120/80", "kg"): "digits",
        ("A", "kg"): "single_letter",
        ("β", "kg"): "single_letter",
        ("——", "kg"): "punctuation",
        ("的" * 33, "kg"): "too_long",
        ("发热", "phrase"): "low_quality",
        ("请问医生", "phrase"): "low_quality",
        ("我们", "phrase"): "stop_word",
    }


@pytest.mark.parametrize("seed", range(5))
def test_order_does_not_matter(seed: int) -> None:
    drawn = random.Random(seed)
    phrases, names = drawn.sample(PHRASES, len(PHRASES)), drawn.sample(NAMES, len(NAMES))
    assert build_vocabulary(phrases, names) == build_vocabulary(PHRASES, NAMES)


def test_rules_can_be_changed() -> None:
    entities, drops = build_vocabulary(
        PHRASES, [Name("高血压病", "D2", "disease")], min_quality=0.65, min_quality_word=0.0, max_length=3,
        stop_words=frozenset({"咳嗽"}),
    )  # fmt: skip
    assert [entity.surface for entity in entities] == ["发热", "我们", "糖尿病"]
    assert {drop.reason for drop in drops} == {"stop_word", "too_long", "low_quality"}


def test_no_input_gives_an_empty_vocabulary() -> None:
    assert build_vocabulary([], []) == ([], [])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters() | st.sampled_from("病A1 的／"), max_size=6), max_size=8))
def test_every_surface_is_kept_or_dropped_once(surfaces: list[str]) -> None:
    entities, drops = build_vocabulary((), [Name(surface, "E", "") for surface in surfaces])
    assert sorted([*(e.surface for e in entities), *(d.surface for d in drops)]) == sorted(
        {surface.strip() for surface in surfaces}
    )
    assert all(isinstance(drop, Drop) and drop.reason for drop in drops)


def test_stop_words_are_words_and_not_medical_terms() -> None:
    assert {"的", "我们", "谢谢", "以及"} <= read_stop_words()
    assert not {"痰", "血", "头", "发热", "糖尿病", "药", "炎"} & read_stop_words()


@pytest.mark.parametrize(("surface", "long"), [("贫血", False), ("糖尿病", False), ("高血压病", True), ("", False)])
def test_long_candidates_have_more_than_three_characters(surface: str, long: bool) -> None:
    assert is_long_candidate(surface) is long


def occurrences(text: str, surface: str) -> int:
    return sum(text.startswith(surface, at) for at in range(len(text)))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text("病糖a尿\n", max_size=12), max_size=6),
    st.lists(st.text("病糖a尿", max_size=3), max_size=6),
    st.sampled_from([1, 5, 1 << 20]),
)
def test_all_occurrences_are_found(texts: list[str], surfaces: list[str], at_once: int) -> None:
    before = entity_vocabulary.CHARACTERS_AT_ONCE
    entity_vocabulary.CHARACTERS_AT_ONCE = at_once
    try:
        found = count_occurrences(texts, surfaces)
    finally:
        entity_vocabulary.CHARACTERS_AT_ONCE = before
    expected = {surface: sum(occurrences(text, surface) for text in texts) for surface in surfaces if surface}
    assert found == {surface: count for surface, count in expected.items() if count}
