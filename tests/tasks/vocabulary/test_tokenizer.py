"""The vocabulary contains frequent words whole, and the tokeniser treats text as counting did."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from models.tokenizer.corpus import CorpusTokenizer
from models.tokenizer.normal_form import normalise
from models.tokenizer.wordpiece import SPECIAL_TOKENS, build_tokenizer, save_tokenizer, split_words
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams, build_vocabulary, count_words, vocabulary
from tests.support.text.stages import do
from tests.support.text.tables import documents_artifact

TABLE_2 = [
    "免疫组化IHC测定TSHR阳性",
    "ECOG评分4分者",
    "但不包括HIV/AIDS",
    "胸部增强CT及头颅MRI",
]
"""Sentences of eHealth's Table 2."""

NOISE = ["ibuprofen", "aspirin", "amoxicillin", "tablet", "capsule", "injection", "chloride", "sodium"]


def small_corpus(size: int = 60, seed: int = 0) -> list[str]:
    drawn = random.Random(seed)
    return [f"{drawn.choice(TABLE_2)}，{' '.join(drawn.choices(NOISE, k=2))} {n}mg。" for n in range(size)]


# ---- normalisation and words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ⅡA期ＡＤＲ", ["2", "a", "期", "adr"]),
        ("Ⅻ、Ⅳ、①、⑳、❶、⓫、㈠", [*"12、4、1、20、1、11、(一)"]),
        ("ⅡⅢ①", [*"2、3、1"]),
        ("10⁹½", [*"10⁹½"]),
        ("血压120/80mmHg", ["血", "压", "1", "2", "0", "/", "8", "0", "mmhg"]),
        ("µg ℃ ㎎", ["μg", "°", "c", "mg"]),
        ("β-HCG、TNF-α", ["β", "-", "hcg", "、", "tnf", "-", "α"]),
        ("😀❤️a\u200bb\ue81f", ["😀", "❤", "ab"]),
        ("ドパミン", ["ド", "パ", "ミ", "ン"]),
        ("x̄±s", ["x", "\u0304", "±", "s"]),
    ],
)
def test_words_after_normalisation(text: str, words: list[str]) -> None:
    assert split_words(text) == words


TRICKY = "ⅡⅫⅯ❶⓫①₂⁹5.ＡａΣς%〇αҐ患者0９½ﬁ㎎İ\u200b\ue000\x1c\x85\xa0\ufe0f\u0301"
CHARACTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from(TRICKY)


@settings(max_examples=300, deadline=None)
@given(st.text(CHARACTERS, max_size=30))
def test_counting_and_tokenising_find_the_same_words(text: str) -> None:
    words = split_words(text)
    tokens = [*SPECIAL_TOKENS, *dict.fromkeys(word for word in words if len(word) <= 100)]
    tokenizer = CorpusTokenizer(build_tokenizer(tokens).to_str())
    encoded = tokenizer.encode([text])
    assert [tokens[number] if number != 1 else word for number, word in zip(encoded.ids, words, strict=True)] == words
    for start, end, word in zip(encoded.starts, encoded.ends, words, strict=True):
        assert 0 <= start < end <= len(text)
        if text[start:end] == normalise(text[start:end]):
            assert word in text[start:end]


def test_the_name_of_a_special_token_in_a_text_is_not_one() -> None:
    tokenizer = CorpusTokenizer(build_tokenizer([*SPECIAL_TOKENS, "[", "]", "mask"]).to_str())
    assert tokenizer.encode(["[MASK]"]).ids.tolist() == [5, 7, 6]


# ---- the vocabulary


def test_the_abbreviations_of_table_2_are_whole() -> None:
    tokens = build_vocabulary(small_corpus(), size=200, min_frequency=5)
    tokenizer = build_tokenizer(tokens)
    cut = [tokenizer.encode(text, add_special_tokens=False).tokens for text in TABLE_2]
    assert cut == [
        [*"免疫组化", "ihc", *"测定", "tshr", *"阳性"],
        ["ecog", *"评分", "4", *"分者"],
        [*"但不包括", "hiv", "/", "aids"],
        [*"胸部增强", "ct", *"及头颅", "mri"],
    ]


def test_order_alphabet_and_frequencies(store: ArtifactStore) -> None:
    texts = [*small_corpus(), "孤字ź"]
    documents = documents_artifact(store, texts)
    counts = do(store, count_words, CountWordsParams(), documents=documents)
    artifact = do(store, vocabulary, VocabularyParams(size=200), words=counts)
    rows = artifact.to_table().to_pylist()
    tokens = [row["token"] for row in rows]
    assert [row["id"] for row in rows] == list(range(len(rows)))
    assert tuple(tokens[:5]) == SPECIAL_TOKENS
    assert tokens == build_vocabulary(texts, 200, 5)
    assert len(set(tokens)) == len(tokens) <= 200
    assert not {"孤", "ź"} & set(tokens)
    assert all(row["frequency"] >= 5 for row in rows[5:])
    assert all(token[2:].isalpha() and token.isascii() for token in tokens if token.startswith("##"))
    occurrences = Counter("".join(normalise(text) for text in texts))
    for row in rows[5:]:
        if len(row["token"]) == 1 and not row["token"].isascii():
            assert row["frequency"] == occurrences[row["token"]]


def test_the_vocabulary_does_not_depend_on_order_and_parts(store: ArtifactStore) -> None:
    texts = small_corpus(200)
    shuffled = random.Random(1).sample(texts, len(texts))
    assert build_vocabulary(texts, 150, 2) == build_vocabulary(shuffled, 150, 2)
    built = []
    for parts in ([texts], [shuffled[:50], shuffled[50:51], shuffled[51:]]):
        counts = do(store, count_words, CountWordsParams(), documents=documents_artifact(store, *parts))
        built.append(do(store, vocabulary, VocabularyParams(size=150, min_frequency=2), words=counts))
    assert built[0].to_table().equals(built[1].to_table())
    assert built[0].read_file("tokenizer.json") == built[1].read_file("tokenizer.json")


@pytest.mark.parametrize("size", [90, 100, 120, 150])
def test_the_size_is_met_and_frequent_tokens_are_kept(size: int) -> None:
    tokens = build_vocabulary(small_corpus(300), size, 2)
    assert len(tokens) <= size
    larger = build_vocabulary(small_corpus(300), size + 40, 2)
    assert sum(len(token) > 2 for token in larger) >= sum(len(token) > 2 for token in tokens)


def test_the_sample_is_seeded_and_has_about_the_requested_size(store: ArtifactStore) -> None:
    documents = documents_artifact(store, [f"第{n}篇" for n in range(1000)], [f"又{n}篇" for n in range(1000)])

    def sampled(**params: Any) -> tuple[int, list[Any]]:
        artifact = do(store, count_words, CountWordsParams(**params), documents=documents)
        return artifact.manifest.counters["documents"], artifact.to_table().to_pylist()

    count, words = sampled(sample_documents=500)
    assert 420 < count < 580
    assert sampled(sample_documents=500, seed=42)[1] == words != sampled(sample_documents=500, seed=1)[1]
    assert sampled(sample_documents=10_000)[0] == 2000


def test_impossible_vocabulary_errors_name_the_needed_size(store: ArtifactStore) -> None:
    with pytest.raises(UserError, match="too little text"):
        build_vocabulary([], 100, 5)
    with pytest.raises(UserError, match="too little text"):
        build_vocabulary(["甲乙丙"], 100, 5)
    with pytest.raises(UserError, match=r"vocabulary\.size=20 is too small: .* need (\d+)") as caught:
        build_vocabulary(small_corpus(), 20, 5)
    needed = int(str(caught.value).split(" need ")[1].split(".")[0])
    assert len(build_vocabulary(small_corpus(), needed, 5)) == needed


@pytest.mark.parametrize(
    ("tokens", "problem"),
    [(["[UNK]", "甲"], "must begin with"), ([*SPECIAL_TOKENS, "甲", "甲"], "contains '甲' twice")],
)
def test_lists_that_are_not_a_vocabulary_are_errors(tokens: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        build_tokenizer(tokens)


# ---- as transformers sees it


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(build_vocabulary(small_corpus(), 200, 5), folder, max_length=128)
    return folder


@pytest.mark.parametrize("with_model", [False, True])
def test_auto_tokenizer_returns_the_tokens_of_training(exported: Path, tmp_path: Path, with_model: bool) -> None:
    from transformers import AutoTokenizer

    folder = tmp_path / "model"
    folder.mkdir()
    for file in exported.iterdir():
        os.link(file, folder / file.name)
    if with_model:  # an exported model lies beside a config of ELECTRA's, whose own tokeniser differs from ours
        (folder / "config.json").write_text(json.dumps({"model_type": "electra", "vocab_size": 200}))
    auto = AutoTokenizer.from_pretrained(folder)
    ours = CorpusTokenizer((exported / "tokenizer.json").read_text(encoding="utf-8"))
    for text in [*TABLE_2, "ⅡA期ＣＴ，Aspirin❹mg", "\u200b胸　部"]:
        given = auto(text)["input_ids"]
        assert given == [2, *ours.encode([text]).ids, 3]
    tokens = (exported / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert auto.get_vocab() == {token: number for number, token in enumerate(tokens)}
    special = (auto.pad_token_id, auto.unk_token_id, auto.cls_token_id, auto.sep_token_id, auto.mask_token_id)
    assert special == (0, 1, 2, 3, 4)
    assert auto.model_max_length == 128
    pair = auto("胸部", "头颅", padding="max_length", max_length=10)
    assert pair["token_type_ids"][:7] == [0, 0, 0, 0, 1, 1, 1]
    assert pair["attention_mask"] == [1] * 7 + [0] * 3
    assert auto.decode(auto("aspirin 100mg")["input_ids"], skip_special_tokens=True).replace(" ", "") == "aspirin100mg"


def test_the_artifact_contains_the_files(store: ArtifactStore) -> None:
    counts = do(store, count_words, CountWordsParams(), documents=documents_artifact(store, small_corpus()))
    artifact: Artifact = do(store, vocabulary, VocabularyParams(size=200, max_length=64), words=counts)
    tokens = artifact.read_file("vocab.txt").decode().splitlines()
    assert tokens == artifact.to_table()["token"].to_pylist()
    assert json.loads(artifact.read_file("tokenizer_config.json"))["model_max_length"] == 64
    assert json.loads(artifact.read_file("tokenizer.json"))["model"]["type"] == "WordPiece"
