"""Segmentation cuts at sentence ends, never inside a number or a word, and loses no text."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jieba
import polars as pl
import pytest
import rjieba
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.stage import Output, StageParams, run, stage
from tasks.documents import make_document
from tasks.files.raw_input import RawInput
from tasks.segment.stage import SegmentParams, cut_document, segment, split_document
from tasks.segment.units import UnitCosts, count_units
from tasks.segment.words import Engine, read_terms, segment_words
from tests.support.processes.limited import limited
from tests.support.text.tables import documents_artifact

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
    # A run of letters that had to be cut may have one token more than when it is whole.
    assert all(count_units(piece) <= tokens for piece, tokens in cut)


@settings(max_examples=200, deadline=None)
@given(text=documents, least=st.integers(1, 20))
def test_only_segments_that_are_long_enough_are_returned(text: str, least: int) -> None:
    kept = split_document(text, 40, least)
    assert all(least <= count_units(piece) <= 40 for piece in kept)


@settings(max_examples=200, deadline=None)
@given(
    words=st.lists(
        st.sampled_from(["患者", "糖尿病", "3.5mg", "18-75岁", "。", "，", "TSHR", "（见", "）"]), max_size=80
    )
)
def test_no_number_unit_or_word_is_cut(words: list[str]) -> None:
    text = "的".join(words)  # separated: adjacent ones would be one run, which may have to be cut
    segments = [piece for piece, _ in cut_document(text, 12, count_units)]
    for whole in ("3.5mg", "18-75", "TSHR"):
        assert sum(piece.count(whole) for piece in segments) == text.count(whole)


def test_sentences_are_kept_whole_where_they_fit() -> None:
    text = "甲型流感起病急（潜伏期1～3天。多为2天）。“高热可达39.5℃！”患者说。" * 3
    for piece in split_document(text, 60, 1):
        assert piece.endswith(("。", "！”"))
        assert piece.count("（") == piece.count("）")


def test_a_short_tail_takes_text_from_the_previous_segment() -> None:
    text = "一二三四五六七八九。" * 4 + "尾。"
    lengths = [tokens for _, tokens in cut_document(text, 40, count_units, min_tokens=10)]
    assert lengths == [30, 12]


def test_impossible_lengths_are_errors() -> None:
    with pytest.raises(ValueError, match=r"max_tokens=3.*min_tokens=5"):
        split_document("甲", 3, 5)
    with pytest.raises(ValueError, match=r"max_tokens \(3\) is less than min_tokens \(5\)"):
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


def test_segments_that_are_too_short_are_rejected(store: ArtifactStore) -> None:
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


TURNS = "\n".join(
    f"{who}：{text}" for who, text in [("患者", "头痛三天了。很痛。"), ("医生", "发热吗？"), ("患者", "不发热。")] * 6
)


# In a process of its own, because one that has run other tests holds memory of theirs.
CUT_BOOK = """
import sys
from pathlib import Path
from infra.artifacts import ArtifactStore
from infra.stage import run
from tasks.segment.stage import SegmentParams, segment
from tests.support.processes.limited import limited
from tests.support.text.tables import documents_artifact
store = ArtifactStore(Path(sys.argv[1]))
book = "".join(f"第{number}例患者反复头痛伴恶心呕吐，行头颅磁共振检查未见异常。" for number in range(12_000))
given = {"documents": documents_artifact(store, [book])}
cut = run(segment, store, SegmentParams(max_tokens=32, min_tokens=1), given).artifact
whole = "".join(cut.to_table("segments")["text"].to_pylist()) == book
report([cut.rows("segments"), whole])
"""


def test_a_book_in_one_document_is_cut_in_memory_of_its_own_size(tmp_path: Path) -> None:
    # A copy of the text with each of its segments would take 13 GB.
    segments, whole = limited(CUT_BOOK, str(tmp_path), mib=1_000, seconds=300)
    assert segments > 11_000
    assert whole


def test_turns_of_a_dialogue_are_kept_whole_where_they_fit(store: ArtifactStore) -> None:
    documents = run(given_rows, store, RowsParams(rows=(("dialogue", TURNS), ("article", TURNS))), {}).artifact
    artifact = run(segment, store, SegmentParams(max_tokens=24, min_tokens=5), {"documents": documents}).artifact
    rows = artifact.to_table().to_pylist()
    spoken = [row["text"] for row in rows if row["source"] == "dialogue"]
    assert all(line in TURNS.split("\n") for text in spoken for line in text.split("\n"))
    assert "\n".join(spoken) == TURNS
    written = [row["text"] for row in rows if row["source"] == "article"]
    assert any(line not in TURNS.split("\n") for text in written for line in text.split("\n"))


def test_a_turn_that_is_too_long_is_cut_at_its_sentences(store: ArtifactStore) -> None:
    documents = run(given_rows, store, RowsParams(rows=(("dialogue", "患者：" + "头痛三天。" * 20),)), {}).artifact
    artifact = run(segment, store, SegmentParams(max_tokens=30, min_tokens=5), {"documents": documents}).artifact
    assert all(text.endswith("。") for text in artifact.to_table()["text"].to_pylist())


class RowsParams(StageParams):
    rows: tuple[tuple[str, str], ...]


@stage(name="rows", version=1, params=RowsParams, tables=("documents",))
def given_rows(inputs: Mapping[str, Any], params: RowsParams, out: Output) -> None:
    with out.part() as part:
        part.write("documents", [make_document(source, "", text, {}) for source, text in params.rows])


@pytest.mark.parametrize("engine", ["rjieba", "jieba"])
def test_terms_of_a_dictionary_are_kept_whole(store: ArtifactStore, tmp_path: Path, engine: Engine) -> None:
    text = "患者干燥综合征合并张力性气胸，需要长期随访和规范的药物治疗，定期复查胸部影像。"
    assert "张力性气胸" not in segment_words(text, engine)
    (tmp_path / "terms.txt").write_text("张力性气胸\n\n干燥综合征\n张力性气胸\n", encoding="utf-8")
    given = {"documents": documents_artifact(store, [text]), "dictionary": RawInput(tmp_path / "terms.txt")}
    row = run(segment, store, SegmentParams(min_tokens=5, engine=engine), given).artifact.to_table().to_pylist()[0]
    ends = list(itertools.accumulate(row["words"]))
    words = [text[end - length : end] for end, length in zip(ends, row["words"], strict=True)]
    assert words[1:4] == ["干燥综合征", "合并", "张力性气胸"]


@pytest.mark.parametrize("line", ["{} 100 n", "{}\t606946", "{} 3"])
def test_the_words_of_a_dictionary_in_jiebas_form_are_terms(tmp_path: Path, line: str) -> None:
    terms = ["干燥综合征", "张力性气胸"]
    (tmp_path / "terms.txt").write_text("\n".join(map(line.format, terms)) + "\n\n", encoding="utf-8")
    assert read_terms(RawInput(tmp_path / "terms.txt")) == sorted(terms)


@pytest.mark.parametrize("terms", [["CA 125", "CA 199"], ["糖类抗原 125", "张力性气胸"]])
def test_a_number_in_the_name_of_a_term_is_kept(tmp_path: Path, terms: list[str]) -> None:
    (tmp_path / "terms.txt").write_text("\n".join(terms), encoding="utf-8")
    assert read_terms(RawInput(tmp_path / "terms.txt")) == sorted(terms)


def test_a_dictionary_in_another_encoding_is_an_error(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_bytes("张力性气胸".encode("gb18030"))
    given = {"documents": documents_artifact(store, ["病" * 40]), "dictionary": RawInput(tmp_path / "terms.txt")}
    with pytest.raises(UserError, match=r"terms\.txt is not UTF-8"):
        run(segment, store, SegmentParams(), given)


TERMS = st.lists(st.text(st.sampled_from("心肌梗死糖尿病性视网膜变a1"), min_size=2, max_size=5), max_size=5)


@settings(max_examples=40, deadline=None)
@given(terms=TERMS, text=st.text(st.sampled_from("心肌梗死糖尿病性视网膜变a1，"), max_size=30))
def test_both_engines_find_the_same_words_with_a_dictionary(terms: list[str], text: str) -> None:
    jieba.initialize()
    own, jiebas = rjieba.Jieba(), jieba.Tokenizer()
    jiebas.FREQ, jiebas.total, jiebas.initialized = dict(jieba.dt.FREQ), jieba.dt.total, True
    for term in terms:
        own.add_word(term, None, None)
        jiebas.add_word(term)
    assert own.cut(text, False) == list(jiebas.cut(text, HMM=False))


@settings(max_examples=300, deadline=None)
@given(texts=st.lists(st.text(st.sampled_from("病aβЖ1，\n 　\x1c𠮷é"), max_size=14), max_size=4), data=st.data())
def test_estimated_lengths_of_pieces_equal_those_of_their_text(texts: list[str], data: st.DataObject) -> None:
    costs = UnitCosts(texts)
    assert costs.totals.tolist() == list(map(count_units, texts))
    for number, text in enumerate(texts):
        cost = costs.of(number)
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, len(text)))
        assert cost(start, end) == count_units(text[start:end])
