"""Segmentation: cuts at sentence ends, never inside a number or a word, and nothing lost on the way."""

from __future__ import annotations

import random
import re
from pathlib import Path

import jieba
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import ArtifactStore
from infra.stage import run
from tasks.segment import SegmentParams, count_units, cut_document, segment, segment_words, split_document
from tests.tables import documents_artifact

pieces = st.sampled_from(
    [*["患者", "糖尿病", "3.5mg", "18-75岁", "。", "；", "，", "（见", "）", "TSHR", "！”", "、"], " ", "\n"]
)
marks = st.sampled_from("患者糖尿病免疫组化阳性IHCab12.5 \n，。mg/d％Ａ😀")
documents = st.lists(pieces, max_size=120).map("".join)


def plain(text: str) -> str:
    return re.sub(r"\s+", "", text)


@settings(max_examples=200, deadline=None)
@given(text=documents, most=st.integers(8, 40))
def test_segments_join_to_the_text_and_fit(text: str, most: int) -> None:
    cut = cut_document(text, most, count_units)
    assert plain("".join(piece for piece, _ in cut)) == plain(text)
    assert all(0 < tokens <= most for _, tokens in cut)
    # A run of letters that had to be cut is counted in its halves, which may take a token more.
    assert all(count_units(piece) <= tokens for piece, tokens in cut)


@settings(max_examples=200, deadline=None)
@given(text=documents, least=st.integers(1, 20))
def test_only_long_enough_segments_are_given(text: str, least: int) -> None:
    kept = split_document(text, 40, least)
    assert all(least <= count_units(piece) <= 40 for piece in kept)


@settings(max_examples=200, deadline=None)
@given(
    words=st.lists(
        st.sampled_from(["患者", "糖尿病", "3.5mg", "18-75岁", "。", "，", "TSHR", "（见", "）"]), max_size=80
    )
)
def test_no_number_unit_or_word_is_cut(words: list[str]) -> None:
    text = "的".join(words)  # apart from each other: side by side they are one run, which may have to be cut
    segments = [piece for piece, _ in cut_document(text, 12, count_units)]
    for whole in ("3.5mg", "18-75", "TSHR"):
        assert sum(piece.count(whole) for piece in segments) == text.count(whole)


def test_sentences_stay_whole_where_they_fit() -> None:
    text = "甲型流感起病急（潜伏期1～3天。多为2天）。“高热可达39.5℃！”患者说。" * 3
    for piece in split_document(text, 60, 1):
        assert piece.endswith(("。", "！”"))
        assert piece.count("（") == piece.count("）")


def test_short_tail_takes_from_the_one_before() -> None:
    text = "一二三四五六七八九。" * 4 + "尾。"
    lengths = [tokens for _, tokens in cut_document(text, 40, count_units, min_tokens=10)]
    assert lengths == [30, 12]


def test_impossible_lengths_are_told() -> None:
    with pytest.raises(ValueError, match=r"max_tokens=3.*min_tokens=5"):
        split_document("甲", 3, 5)
    with pytest.raises(ValueError, match=r"max_tokens \(3\) is under min_tokens \(5\)"):
        SegmentParams(max_tokens=3, min_tokens=5)


@settings(max_examples=200, deadline=None)
@given(text=st.text(marks | st.characters(codec="utf-8"), max_size=40))
def test_words_join_to_the_text_and_are_jiebas(text: str) -> None:
    words = segment_words(text)
    assert "".join(words) == text
    assert words == list(jieba.cut(text, HMM=False))
    assert "".join(segment_words(text, "jieba")) == text


def test_words_of_real_text_are_jiebas(shared_data: Path) -> None:
    texts = pl.read_parquet(shared_data / "toyhom_dialogue" / "im_sample.parquet")["answer"].to_list()
    for text in random.Random(0).sample(texts, 300):
        assert segment_words(text) == list(jieba.cut(text, HMM=False))


def test_stage_keeps_what_is_too_short_in_rejects(store: ArtifactStore) -> None:
    artifact = run(
        segment,
        store,
        SegmentParams(max_tokens=30, min_tokens=10),
        {"documents": documents_artifact(store, ["糖尿病患者应长期控制血糖。" * 5, "短。"])},
    ).artifact
    rows = artifact.to_table().to_pylist()
    assert [row["position"] for row in rows] == list(range(len(rows)))
    assert all(sum(row["words"]) == len(row["text"]) and 10 <= row["tokens"] <= 30 for row in rows)
    assert [row["excerpt"] for row in artifact.to_table("rejects").to_pylist()] == ["短。"]
    assert artifact.manifest.counters["rejected_short_segment"] == 1
