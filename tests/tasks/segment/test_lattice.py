"""The lattice finds the same words as jieba without its hidden Markov model."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import jieba
import numpy as np
import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.segment.lattice import cut_batch, jieba_trie, trie_of
from tasks.segment.words import word_lengths, words_of

jieba.setLogLevel("WARNING")

# Words inside words, overlapping words, equally likely paths (人人人), characters that jieba joins and never joins.
BITS = [
    *(
        "再生障碍性贫血",
        "新型冠状病毒",
        "糖尿病",
        "病人",
        "人人",
        "人",
        "研究生命起源",
        "结合成分子",
        "的",
        "了",
        "中华人民共和国",
    ),
    *(
        "AT&T",
        "B超",
        "c#",
        "IL-2",
        "3.5mg",
        "18~65岁",
        "·",
        "。",
        "，",
        "\r\n",
        "\r",
        "\n",
        " ",
        "\u3000",
        "𠮷",
        "龥",
        "\u9fd5",
    ),
    *("\u9fd6", "\ud800", "é", "か", "\x1c", "+", "_", "%"),
]
TEXT = st.lists(
    st.sampled_from(BITS) | st.sampled_from("人民病毒生命中国国中大学生") | st.characters(), max_size=25
).map("".join)


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXT, max_size=5))
@example([])
@example([""])
@example(["", "人人人人人", "", "a" * 40 + "人" * 30])
@example(["\r", "\n", "\r\n\r\n"])
def test_words_are_jiebas(texts: list[str]) -> None:
    texts = [text.replace("\ud800", "\ufffd") for text in texts]
    expected = [list(jieba.cut(text, HMM=False)) for text in texts]
    assert list(words_of(texts)) == expected
    lengths, borders = word_lengths(texts)
    assert np.array_equal(np.diff(borders), list(map(len, expected)))
    assert lengths.sum() == sum(map(len, texts))


@settings(max_examples=50, deadline=None)
@given(TEXT, TEXT)
def test_lone_surrogates_are_treated_like_any_character_outside_words(before: str, after: str) -> None:
    words = next(words_of([before + "\ud800" + after]))
    assert "".join(words) == before + "\ud800" + after
    assert "\ud800" in words


TERMS = st.lists(st.text(st.sampled_from("心肌梗死糖尿病性视网膜变a1"), min_size=2, max_size=9), max_size=4)


@settings(max_examples=8, deadline=None)
@given(terms=TERMS, texts=st.lists(st.text(st.sampled_from("心肌梗死糖尿病性视网膜变a1，"), max_size=40), max_size=20))
def test_all_engines_know_the_terms_of_a_dictionary(terms: list[str], texts: list[str]) -> None:
    assert list(words_of(texts, terms="\n".join(terms))) == list(words_of(texts, "rjieba", terms="\n".join(terms)))


@settings(max_examples=200, deadline=None)
@given(
    counts=st.dictionaries(st.text("abc中国人", min_size=1, max_size=4), st.integers(0, 3), min_size=1),
    texts=st.lists(st.text("abc中国人，", max_size=30), max_size=4),
)
def test_equally_likely_paths_are_resolved_as_by_jieba(counts: dict[str, int], texts: list[str]) -> None:
    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total, tokenizer.initialized = {}, 0, True
    for word, count in counts.items():
        tokenizer.add_word(word, count)
    known = list(tokenizer.FREQ)
    total = max(1, tokenizer.total)
    tokenizer.total = total
    lengths, borders = cut_batch(texts, trie_of(known, np.array([tokenizer.FREQ[word] for word in known]), total))
    expected = [list(map(len, tokenizer.cut(text, HMM=False))) for text in texts]
    assert [lengths[first:last].tolist() for first, last in pairwise(borders)] == expected


def test_a_run_of_any_length_is_cut_as_by_jieba() -> None:
    run = "研究生命起源中国人民a1" * 3_000
    assert cut_batch([run], jieba_trie())[0].tolist() == list(map(len, jieba.cut(run, HMM=False)))


def test_words_of_real_text_are_jiebas(shared_data: Path) -> None:
    texts = pl.read_parquet(shared_data / "tcm_ancient_books" / "sections.parquet")["text"].to_list()[::40]
    texts += pl.read_parquet(shared_data / "csl_scientific" / "kg.parquet")["text"].to_list()[::4]
    assert list(words_of(texts)) == list(words_of(texts, "rjieba"))
