"""Batch counts equal the counts of cutting every text into words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks.vocabulary.counts
from benchmarks.text.near_duplicates import real_texts
from models.tokenizer.wordpiece import split_words
from tasks.vocabulary.counts import count_words_of

TRICKY = "ⅡⅫⅯ❶⓫①₂⁹5.ＡａΣς%〇αҐ患者0９½ﬁ㎎℃İ\u200b\ue000\x1c\x85\xa0\ufe0f\u0301한\u1161\u11a8각¨ㇰŉ\n\r\u2028 "
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(TRICKY), max_size=20), max_size=8)


def plainly(texts: Iterable[str]) -> Counter[str]:
    return Counter(word for text in texts for word in split_words(text))


@settings(max_examples=500, deadline=None)
@given(texts=TEXTS, at_once=st.integers(1, 40))
def test_counts_are_those_of_the_words(texts: list[str], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks.vocabulary.counts, "CHARACTERS_AT_ONCE", at_once)
        assert count_words_of(texts) == plainly(texts)


def test_every_character_between_letters_and_between_others() -> None:
    for first in (*range(0, 0x44000, 0x4000), 0xE0000, 0x10C000):  # between: nothing new
        known = [chr(code) for code in range(first, first + 0x4000) if not 0xD800 <= code < 0xE000]
        texts = [f"a{character}b {character} 患{character}者" for character in known]
        assert count_words_of(texts) == plainly(texts)


@pytest.mark.parametrize("text", ["患\ud800者", "患\udc00x\u0301者", "\ud800"])
def test_a_lone_surrogate_counts_as_a_blank(text: str) -> None:
    assert count_words_of([text, "患"]) == plainly([text.replace("\ud800", " ").replace("\udc00", " "), "患"])


def test_real_text(shared_data: Path) -> None:
    texts = real_texts(shared_data / "chineseblue")[:3000]
    if not texts:
        pytest.skip("no Parquet files there")
    assert count_words_of(texts) == plainly(texts)
