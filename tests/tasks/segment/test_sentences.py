"""Segments are whole sentences of the right length that join to the text and never cut a number or a word."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import jieba
import numpy as np
import polars as pl
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from models.tokenizer.corpus import CorpusTokenizer
from tasks.segment.sentences import LINE, SENTENCE, CountedCost, cut, ends_in
from tasks.segment.stage import SegmentParams, segment, segment_words, split_document
from tasks.segment.units import count_units
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams, count_words, vocabulary
from tests.support.text.stages import do
from tests.support.text.tables import documents_artifact

jieba.setLogLevel("WARNING")

QUANTITIES = [
    "3.5mg",
    "1,000例",
    "12:30",
    "18~65岁",
    "120/80 mmHg",
    "5 mg",
    "38.5℃",
    "0.25g*12片",
    "2～3次",
    "3.5mg/kg",
    "≥100",
    "< 5",
    "±3.5",
    "-5℃",
    "120万",
    "100万IU",
    "100万IU/kg",
    "5 毫克",
    "5毫克/千克",
    "5毫克/千克/天",
    "80毫米汞柱",
    "3.5毫摩尔/升",
    "1∶1000",
    "三次",
    "二十毫克",
    "3个疗程",
    "80次/分",
    "两个月",
    "1：1000",
    "8：30分",
    "1，000ml",
    "3、4天",
    "5 ~ 10 mg",
    "3至5天",
    "三、四天",
    "1.2 ± 0.3 mg/L",
    "P<0.05",
    "P < .05",
    "三分之一",
    "百分之三十",
    "百分之30.5",
    "3分之1",
    "20余年",
    "二十多天",
    "38度5",
    "8点30分",
    "96次/min",
    "3000转/分",
    "三钱",
    "二钱五分",
    "三升半",
    "一钱匕",
    "廿四日",
    "Ⅱ~Ⅲ级",
    "½片",
    "39⁺⁶周",
    "Ca²⁺",
    "2年3个月",
    "1 000 ml",
    "5平方米",
    "5㎎",
    "5㎎/㎏",
    "5 mg/(kg·d)",
]
MARKS = ["，", "。", "；", "！”", "（", "）", "“", "\n", " "]
BITS = [*QUANTITIES, *MARKS, "患者", "头痛", "IL-2", "pneumonia"]
TEXTS = st.lists(st.sampled_from(BITS) | st.text(max_size=4), max_size=60).map("".join)


@settings(max_examples=300, deadline=None)
@given(TEXTS | st.text(st.sampled_from("病a bé.。！…;”）'\n\x1c\u2028 　"), max_size=40))
def test_ends_equal_the_matches_of_their_patterns(text: str) -> None:
    assert ends_in(text) == [match.end() for match in SENTENCE.finditer(text)]
    assert ends_in(text, only_lines=True) == [match.end() for match in LINE.finditer(text)]


def squeezed(text: str) -> str:
    return "".join(text.split())


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.integers(1, 40), st.integers(0, 20))
@example("a" * 500, 3, 1)
@example("（" + "甲" * 90 + "）", 10, 2)
def test_segments_have_the_right_length_and_join_to_the_text(text: str, longest: int, shortest: int) -> None:
    shortest = min(shortest, longest)
    spans = cut(text, CountedCost(text, count_units), longest, shortest)
    assert "".join(text[span.start : span.end] for span in spans) == text
    kept = split_document(text, longest, shortest)
    assert all(shortest <= count_units(piece) <= longest for piece in kept)
    assert all(piece == piece.strip() for piece in kept)
    if shortest <= 1:
        assert squeezed("".join(kept)) == squeezed(text)
    position = 0
    for piece in kept:  # in order, and each a piece of the text
        position = text.index(piece, position) + len(piece)


def test_sentences_keep_their_ends() -> None:
    text = "“头痛3天。”他说！真的？是……\n好；行。）然后（见图1。）继续"
    assert split_document(text, 8, 1) == ["“头痛3天。”", "他说！真的？", "是……\n好；行。）", "然后（见图1。）", "继续"]


def test_a_short_tail_takes_text_from_the_previous_piece() -> None:
    pieces = split_document("甲乙丙丁戊己庚辛壬。" * 7 + "完。", 30, 15)
    assert [count_units(piece) for piece in pieces] == [30, 20, 22]
    one_sentence = split_document("甲乙丙丁戊，" * 10 + "完。", 50, 20)
    assert sum(map(count_units, one_sentence)) == 62 and min(map(count_units, one_sentence)) >= 20


def lengths(text: str, longest: int, shortest: int, count: Callable[[str], int] = len) -> list[int]:
    return [span.end - span.start for span in cut(text, CountedCost(text, count), longest, shortest)]


def test_a_piece_of_exactly_the_least_length_takes_nothing() -> None:
    text = "热" * 29 + "。" + "痛" * 59 + "，" + "晕" * 29 + "，" + "咳" * 89 + "。"
    assert lengths(text, 100, 30) == [90, 30, 90]
    assert lengths(text, 100, 31) == [89, 31, 90]


def test_a_piece_that_takes_text_stays_within_the_maximum() -> None:
    def count(piece: str) -> int:  # a tokenizer that needs more tokens for two sentences than for each
        return len(piece) + 60 * (piece.startswith("痛") and "咳" in piece)

    text = "热" * 59 + "。" + "痛" * 39 + "。" + "咳" * 8 + "。"
    assert lengths(text, 100, 10) == [60, 49]
    assert lengths(text, 100, 10, count) == [99, 10]


def test_pieces_that_remain_too_short_are_left_out() -> None:
    assert split_document("太短。", 50, 10) == []
    assert split_document("", 50, 10) == split_document(" \n ", 50, 0) == []


@pytest.mark.parametrize("number", [*QUANTITIES, "IL-2", "hypertension"])
@pytest.mark.parametrize("longest", [10, 13, 20])
def test_numbers_units_and_words_are_kept_whole(number: str, longest: int) -> None:
    text = "患者服用药物治疗疾病" + "".join(f"{number}，共{number}后" for _ in range(12))
    pieces = split_document(text, longest, 1)
    assert len(pieces) > 4
    assert "".join(pieces).count(number) == 24 == sum(piece.count(number) for piece in pieces)


@pytest.mark.parametrize("comma", ["，", "、", ",", " "])
def test_a_long_list_of_numbers_is_cut_between_them(comma: str) -> None:
    numbers = [str(number) for number in range(100, 400)]
    pieces = split_document(comma.join(numbers) + "。", 20, 1)
    assert len(pieces) > 20
    assert regex.findall(r"\d+", " ".join(pieces)) == numbers


def test_text_can_be_cut_at_commas_next_to_one_digit() -> None:
    text = "体温38，脉搏80次，共3、后4，"
    assert split_document(text * 2, 8, 1) == ["体温38，", "脉搏80次，", "共3、后4，"] * 2


def test_brackets_are_kept_whole_where_they_fit() -> None:
    text = "治疗方案如下，" + "甲乙丙丁（一，二。三；四，五）戊己庚，" * 20
    for longest in (20, 25, 40):
        for piece in split_document(text, longest, 1):
            assert piece.count("（") == piece.count("）")
    assert split_document("（" + "甲，" * 300 + "）", 50, 1)[0].startswith("（甲，")


def enclosed_places(text: str) -> set[int]:
    """By hand: the places behind a bracket's opening up to its closing, in one line, at most 200 characters on."""
    found: set[int] = set()
    closing, start = dict(zip("）)】]」』》”〉}", "（(【[「『《“〈{", strict=True)), 0
    for line in text.split("\n"):
        waiting: list[int] = []
        for place, character in enumerate(line, start):
            if character in closing.values():
                waiting.append(place)
            elif waiting and closing.get(character) == text[waiting[-1]]:
                opened = waiting.pop()
                found |= set(range(opened + 1, place + 1)) if place - opened <= 200 else set()
        start += len(line) + 1
    return found


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["甲", "。", "（", "）", "[", "]", "“", "”", "\n", "甲" * 199]), max_size=60).map("".join)
)
@example("乙。（" + "甲" * 197 + "。甲）甲。")
@example("乙。（" + "甲" * 198 + "。甲）甲。")
def test_no_cut_is_inside_brackets_if_whole_sentences_fit(text: str) -> None:
    inside = enclosed_places(text)
    ends = [place for place in ends_in(text) if place not in inside]
    longest = max(np.diff([0, *ends, len(text)]).tolist()) if text else 1
    for span in cut(text, CountedCost(text, len), longest, 0):
        assert span.end in (*ends, len(text)) and span.tokens <= longest


def test_impossible_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="max_tokens=5 must be"):
        split_document("甲", 5, 6)
    with pytest.raises(ValidationError, match="is less than min_tokens"):
        SegmentParams(max_tokens=5, min_tokens=6)


def test_units_are_characters_and_runs_of_letters() -> None:
    assert count_units("患者 3.5mg，tshr！") == 2 + 3 + 1 + 1 + 1 + 1
    assert count_units("hypertension") == 3


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_words_join_to_the_text_and_are_the_same_for_both_engines(text: str) -> None:
    words = segment_words(text)
    assert "".join(words) == text
    assert words == segment_words(text, "jieba")
    assert "".join(segment_words(text, "jieba", hmm=True)) == text


def test_both_engines_find_the_same_words_of_real_text(shared_data: Path) -> None:
    texts = pl.read_parquet(shared_data / "zhongjing_eval" / "huatuo26m_qa6000.parquet")["answer"].to_list()
    texts += pl.read_parquet(shared_data / "tcm_ancient_books" / "sections.parquet", n_rows=200)["text"].to_list()
    for text in random.Random(0).sample(texts, 400):
        assert segment_words(text) == segment_words(text, "jieba")


def test_hmm_guesses_words_that_are_in_no_dictionary() -> None:
    text = "主治医师韦玮琪说"
    assert segment_words(text) == ["主治医师", "韦", "玮", "琪", "说"]
    assert len(segment_words(text, "rjieba", hmm=True)) < 5


COURSE = "主诉头痛3.5天，口服Aspirin 100mg，每日1次。查体未见异常。"
ARTICLES = [f"第{n}例患者，男，{n}岁。" + COURSE * (n % 9) for n in range(40)]


@pytest.mark.parametrize("with_vocabulary", [False, True])
def test_the_stage_counts_segments_and_rejects_short_ones(store: ArtifactStore, with_vocabulary: bool) -> None:
    documents = documents_artifact(store, ARTICLES)
    inputs = {"documents": documents}
    if with_vocabulary:
        counts = do(store, count_words, CountWordsParams(), documents=documents)
        inputs["vocabulary"] = do(store, vocabulary, VocabularyParams(size=200), words=counts)
    artifact = do(store, segment, SegmentParams(max_tokens=60, min_tokens=20), **inputs)
    rows = artifact.to_table("segments").to_pylist()
    assert len(rows) > 80
    for row in rows:
        assert 20 <= row["tokens"] <= 60
        assert sum(row["words"]) == len(row["text"])
        assert row["words"] == [len(word) for word in segment_words(row["text"])]
        assert row["segment_id"] == f"{row['doc_id']}-{row['position']}"
    if with_vocabulary:
        tokenizer = CorpusTokenizer(inputs["vocabulary"].read_file("tokenizer.json").decode())
        borders = tokenizer.encode([row["text"] for row in rows]).borders
        assert np.diff(borders).tolist() == [row["tokens"] for row in rows]
    short = artifact.to_table("rejects").to_pylist()
    assert {row["reason"] for row in short} == {"short_segment"}
    assert artifact.manifest.counters["tokens"] == sum(row["tokens"] for row in rows)
    by_document: dict[str, list[str]] = {}
    for row in rows:
        by_document.setdefault(row["doc_id"], []).append(row["text"])
    for document in documents.to_table().to_pylist():
        if document["doc_id"] in by_document:
            assert squeezed("".join(by_document[document["doc_id"]])) == squeezed(document["text"])


@pytest.mark.parametrize(("length", "kept"), [(19, 0), (20, 1), (21, 1)])
def test_a_segment_of_exactly_the_least_length_is_kept(store: ArtifactStore, length: int, kept: int) -> None:
    documents = documents_artifact(store, ["痛" * 30, "热" * length])
    artifact = do(store, segment, SegmentParams(max_tokens=60, min_tokens=20), documents=documents)
    assert artifact.to_table()["tokens"].to_pylist() == [30, length][: 1 + kept]


def test_segments_do_not_depend_on_the_parts(store: ArtifactStore) -> None:
    whole = do(store, segment, SegmentParams(max_tokens=60), documents=documents_artifact(store, ARTICLES))
    cut_up = documents_artifact(store, ARTICLES[:3], ARTICLES[3:30], ARTICLES[30:])
    parts = do(store, segment, SegmentParams(max_tokens=60), documents=cut_up)
    assert whole.to_table().to_pylist() == parts.to_table().to_pylist()


def test_a_corpus_of_short_documents_is_an_error(store: ArtifactStore) -> None:
    with pytest.raises(UserError, match=r"Empty corpus.*min_tokens=32"):
        do(store, segment, SegmentParams(), documents=documents_artifact(store, ["太短。"]))


def test_a_word_longer_than_its_column_is_counted_as_several(store: ArtifactStore) -> None:
    text = "甲" * 40 + "a" * 70_000
    artifact = do(store, segment, SegmentParams(max_tokens=20_000), documents=documents_artifact(store, [text]))
    for row in artifact.to_table().to_pylist():
        assert sum(row["words"]) == len(row["text"])
