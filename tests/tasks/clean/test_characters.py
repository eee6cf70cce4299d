"""Tables of characters: needs and kinds, also in texts longer than one block."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.clean.characters import (
    BLOCK,
    CANTONESE,
    SIMPLIFIED,
    TRADITIONAL,
    Kind,
    Need,
    all_counts,
    all_needs,
    counts_of,
    han_of,
    needs_of,
    radicals,
)
from tasks.clean.filters import PHRASE, problems_of, repeated_lines, repeated_phrase
from tasks.clean.language import language_of
from tasks.clean.profile import PROFILES


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("普通的文本，OK 1·2。\n甲 乙", Need.LINES),
        ("1/2 <b> @", Need.ADDRESSES | Need.MARKUP),
        ("普通的文本\n", Need.SPACING | Need.LINES),
        ("甲  乙", Need.SPACING),
        ("甲 \n乙", Need.SPACING | Need.LINES),
        ("\r", Need.LINE_ENDS | Need.NO_TEXT),
        ("\u3000", Need.BLANKS),
        ("\u200b", Need.INVISIBLE | Need.NO_TEXT),
        ("\U000e0041", Need.INVISIBLE | Need.NO_TEXT),
        ("e\u0301", Need.COMPOSITION),
        ("\uf900", Need.COMPOSITION),
        ("⼈", Need.RADICALS | Need.NO_TEXT),
        ("★", Need.NO_TEXT),
        ("㐂𠮷𰻝", 0),
        ("℃°Ωµ%‰≥±", Need.COMPOSITION if "Ω" == "\u2126" else 0),
    ],
)
def test_needs_of_a_text_are_those_of_its_characters(text: str, need: int) -> None:
    assert needs_of(text) == need
    assert needs_of("文" * BLOCK + text) == need


def test_kinds_are_counted_over_all_blocks() -> None:
    counts = counts_of("病 a1，のカ한嘅医醫│" * BLOCK)
    assert counts[Kind.HAN] == counts[Kind.LETTER] == counts[Kind.DIGIT] == counts[Kind.SYMBOL] == BLOCK
    assert counts[Kind.KANA] == counts[Kind.BLANK] == 2 * BLOCK
    assert counts[Kind.HANGUL] == counts[Kind.CANTONESE] == BLOCK
    assert counts[Kind.SIMPLIFIED] == counts[Kind.TRADITIONAL] == BLOCK
    assert han_of(counts) == 4 * BLOCK


def test_tables_of_characters_are_disjoint() -> None:
    tables = [*SIMPLIFIED, *TRADITIONAL, *CANTONESE]
    assert len(set(tables)) == len(tables)


def test_tables_of_both_scripts_agree_with_opencc() -> None:
    opencc = pytest.importorskip("opencc")
    for config, table in (("t2s", TRADITIONAL), ("s2t", SIMPLIFIED)):
        converted = opencc.OpenCC(config).convert("\n".join(table)).split("\n")
        assert all(old != new for old, new in zip(table, converted, strict=True))


def test_radicals_become_the_characters_in_their_names() -> None:
    assert len(radicals()) > 214 and not set(map(ord, radicals().values())) & radicals().keys()
    for code in range(0x2F00, 0x2FD6):
        assert unicodedata.name(radicals()[code]).startswith("CJK UNIFIED IDEOGRAPH")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", None),
        ("English, 123, русский", None),
        ("糖尿病", "zh-Hans"),
        ("优の选の好の药の品，用于治疗糖尿病以及高血压等慢性疾病的辅助用药", "zh-Hans"),
        ("呢個藥食咗之後唔好飲酒，佢哋話嘅", "zh-Hant"),
        ("呢個藥食咗之後唔好飲酒，佢哋話嘅，我喺屋企", "yue"),
        ("医者の仁術", "zh-Hans"),
        ("高血圧はこわい病気です", "ja"),
        ("고혈압은 무서운 병이다", "ko"),
    ],
)
def test_languages_are_recognised_by_their_characters(text: str, language: str | None) -> None:
    assert language_of(counts_of(text)) == language


@given(st.text("甲乙ab", min_size=PHRASE, max_size=80))
def test_the_most_frequent_phrase_is_found(text: str) -> None:
    phrases = [text[place : place + PHRASE] for place in range(len(text) - PHRASE + 1)]
    most = max(map(phrases.count, phrases))
    share, phrase = repeated_phrase(text)
    # Another phrase may share the fullest bucket, but the share is never higher than that of the most frequent phrase.
    assert phrases.count(phrase) * PHRASE >= share * len(text) - 1e-9 and share <= most * PHRASE / len(text)
    assert share == min(1.0, phrases.count(phrase) * PHRASE / len(text))


def test_phrases_are_counted_over_all_blocks() -> None:
    filler = "".join(chr(0x4E00 + (place * 7919 + place // 997) % 20_000) for place in range(BLOCK))
    text = (filler + "本院治疗白癜风效果很好啊" * (BLOCK // 24)) * 2
    share, phrase = repeated_phrase(text, 0.2)
    assert phrase in "本院治疗白癜风效果很好啊" * 2
    assert share == pytest.approx(text.count(phrase) * PHRASE / len(text))
    assert repeated_phrase(text, 0.9) == (0.0, "")


def test_repeated_lines_are_weighed_by_their_characters() -> None:
    line = "血压稳定，继续用药"
    assert repeated_lines(f"{line}\n好的\n好的\n{line}") == pytest.approx(len(line) / (2 * len(line) + 7))
    assert repeated_lines("好的\n" * 50) == 0


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.lists(st.integers(0, 60), min_size=20, max_size=60), max_size=4), bound=st.floats(0, 0.9))
def test_documents_are_dropped_by_their_share_of_repeated_lines(texts: list[list[int]], bound: float) -> None:
    # No two lines share a phrase, so that only whole lines are repeated.
    lines = ["".join(chr(0x4E00 + 20 * line + place) for place in range(12)) for line in range(61)]
    documents = ["\n".join(lines[line] for line in text) for text in texts]
    rules = PROFILES["ehealth"].model_copy(update={"max_repeated_lines": bound, "max_repeated_phrase": 1.0})
    for document, problem in zip(documents, problems_of(documents, documents, [rules] * len(documents)), strict=True):
        assert (problem is not None and problem[0] == "repeated_lines") == (repeated_lines(document) > bound)


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(
        st.text(st.sampled_from("病 a1，のカ한嘅医醫│\n\x00²"), max_size=6) | st.just("文 " * (BLOCK // 3)), max_size=9
    ),
    at=st.integers(0, 9),
)
def test_batch_of_texts_is_judged_like_each_alone(texts: list[str], at: int) -> None:
    texts.insert(at, "")
    assert all_needs(texts) == [needs_of(text) for text in texts]
    assert all_counts(texts).tolist() == [counts_of(text) for text in texts]
    for text, counts in zip(texts, all_counts(texts), strict=True):
        assert sum(counts) == len(text)
