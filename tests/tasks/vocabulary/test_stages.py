"""The vocabulary and its tokeniser: eHealth's Table 2, frequencies, determinism, and equality with tokenizers."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.stage import run
from models.tokenizer.normal_form import normalise
from models.tokenizer.wordpiece import SPECIAL_TOKENS, build_tokenizer, save_tokenizer, split_words
from tasks.files.raw_input import RawInput
from tasks.vocabulary.files import parse_vocabulary, read_vocabularies
from tasks.vocabulary.stages import (
    AdoptParams,
    CountWordsParams,
    VocabularyParams,
    adopt,
    build_vocabulary,
    count_words,
    vocabulary,
    vocabulary_from_counts,
)
from tasks.vocabulary.wordpiece import letter_pieces, longest_match
from tests.support.text.tables import documents_artifact

TABLE_2 = {
    "免疫组化IHC测定TSHR阳性": "免,疫,组,化,ihc,测,定,tshr,阳,性",
    "ECOG评分4分者": "ecog,评,分,4,分,者",
    "但不包括HIV/AIDS": "但,不,包,括,hiv,/,aids",
    "胸部增强CT及头颅MRI": "胸,部,增,强,ct,及,头,颅,mri",
}
TEXTS = list(TABLE_2) * 6

marks = st.sampled_from("患者ⅡⅣⅿ❸①㎡℃ＡＤＲ３．５mg naïve😀-_/\u200b\u0301ßİﬁαβあア한")
# Libraries disagree on characters that were assigned lately; Python's own tables leave those out.
wild = st.text(marks | st.characters(exclude_categories=["Cs", "Cn"]), max_size=30)


def test_table_2_of_the_paper() -> None:
    tokenizer = build_tokenizer(build_vocabulary(TEXTS, 500, 5))
    for text, tokens in TABLE_2.items():
        assert ",".join(tokenizer.encode(text, add_special_tokens=False).tokens) == tokens


def test_layout_and_frequencies_of_the_vocabulary() -> None:
    found = build_vocabulary([*TEXTS, "罕见字仅一次zzz"], 500, 5)
    assert tuple(found[:5]) == SPECIAL_TOKENS
    assert len(found) == len(set(found))
    assert "罕" not in found and "z" not in found
    assert all(token[2:].isalpha() for token in found if token.startswith("##"))
    assert all(len(token) == 1 or token.removeprefix("##").isascii() for token in found[5:])


@settings(max_examples=60, deadline=None)
@given(
    words=st.dictionaries(st.text("abcdm", min_size=1, max_size=7), st.integers(1, 40), min_size=1, max_size=30),
    least=st.integers(1, 8),
    spare=st.integers(0, 12),
    seed=st.integers(0, 5),
)
def test_every_token_is_used_often_enough_and_order_does_not_matter(
    words: dict[str, int], least: int, spare: int, seed: int
) -> None:
    characters = Counter()
    for word, count in words.items():
        for piece in letter_pieces(word):
            characters[piece] += count
    alphabet = sum(count >= least for count in characters.values())
    size = 5 + alphabet + spare
    if size == 5 + spare:
        with pytest.raises(UserError, match="too little text"):
            vocabulary_from_counts(words, size, least)
        return
    found = vocabulary_from_counts(words, size, least)
    assert len(found) <= size
    everything = vocabulary_from_counts(words, 10_000, least)
    assert found.keys() <= everything.keys()
    if size >= len(everything):
        assert found == everything
    shuffled = dict(random.Random(seed).sample(list(words.items()), len(words)))
    assert list(vocabulary_from_counts(shuffled, size, least)) == list(found)
    used: Counter[str] = Counter()
    for word, count in words.items():
        for piece in longest_match(word, found):
            used[piece] += count
    for token in list(found)[5:]:
        if len(token.removeprefix("##")) > 1:
            assert used[token] >= least, token


def test_frequent_words_are_whole_if_there_is_room() -> None:
    counts = {"tshr": 9, "tsh": 7, "ecog": 5, "mri": 30, "rare": 2}
    found = vocabulary_from_counts(counts, 200, 5)
    assert {"tshr", "tsh", "ecog", "mri"} <= found.keys()
    assert longest_match("rare", found) != ["rare"]


@settings(max_examples=300, deadline=None)
@given(text=wild)
def test_our_words_are_the_tokenisers_words(text: str) -> None:
    tokenizer = build_tokenizer([*SPECIAL_TOKENS, "a"])
    normalised = tokenizer.normalizer.normalize_str(text)
    assert normalised == normalise(text)
    assert [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalised)] == split_words(text)


@pytest.mark.parametrize("size", range(60, 160, 7))
def test_the_vocabulary_has_exactly_its_size_if_the_text_has_enough_tokens(size: int) -> None:
    drawn = random.Random(3)
    roots = ["".join(drawn.choices("abcdefghij", k=drawn.randint(2, 4))) for _ in range(40)]
    counts = Counter("".join(drawn.choices(roots, k=drawn.randint(1, 2))) for _ in range(3_000))
    everything = vocabulary_from_counts(counts, 10_000, 3)
    assert len(everything) > 160
    found = vocabulary_from_counts(counts, size, 3)
    assert len(found) == size
    used: Counter[str] = Counter()
    for word, count in counts.items():
        for piece in longest_match(word, found):
            used[piece] += count
    merged = [token for token in list(found)[5:] if len(token.removeprefix("##")) > 1]
    assert merged and all(used[token] == found[token] >= 3 for token in merged)


def test_unused_tokens_follow_the_special_tokens() -> None:
    counts = {"tshr": 9, "mri": 30, "患": 7}
    found = list(vocabulary_from_counts(counts, 200, 5, unused=3))
    assert found[:8] == [*SPECIAL_TOKENS, "[unused1]", "[unused2]", "[unused3]"]
    assert found[8:] == list(vocabulary_from_counts(counts, 200, 5))[5:]
    assert "unused" not in "".join(build_tokenizer(found).encode("[unused1]", add_special_tokens=False).tokens)
    with pytest.raises(UserError, match="15 special and unused tokens"):
        vocabulary_from_counts(counts, 16, 5, unused=10)


def test_normalisation_of_numerals_and_widths() -> None:
    assert split_words("ⅡA期ＡＤＲ") == ["2", "a", "期", "adr"]
    assert split_words("❸㎡①℃ Ⅻ") == ["3", "m", "²", "1", "°", "c", "1", "2"]


def test_exported_tokeniser_is_the_one_of_training(tmp_path: Path) -> None:
    tokens = build_vocabulary([*TEXTS, *["ⅡA期ADR"] * 6], 500, 5)
    save_tokenizer(tokens, tmp_path, 128)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    reference = build_tokenizer(tokens)
    for text in [*TABLE_2, "ⅡA期ＡＤＲ", "没见过的字 zzz"]:
        assert loaded(text)["input_ids"] == reference.encode(text).ids
    assert loaded.tokenize("ⅡA期ＡＤＲ") == ["2", "a", "期", "adr"]
    assert (loaded.pad_token_id, loaded.unk_token_id, loaded.cls_token_id, loaded.sep_token_id) == (0, 1, 2, 3)
    assert (loaded.mask_token_id, loaded.model_max_length) == (4, 128)
    assert (tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines() == tokens
    offsets = loaded("Ⅱ期ADR", return_offsets_mapping=True)["offset_mapping"]
    assert offsets[1:-1] == [(0, 1), (1, 2), (2, 5)]


def test_impossible_vocabularies_are_errors() -> None:
    with pytest.raises(UserError, match=r"too little text.*min_frequency"):
        build_vocabulary(["甲乙丙"], 100, 5)
    with pytest.raises(UserError, match=r"vocabulary\.size=10 is too small.*need \d+"):
        build_vocabulary(TEXTS, 10, 5)
    with pytest.raises(ValueError, match="must begin with"):
        build_tokenizer(["a", "b"])
    with pytest.raises(ValueError, match="'a' twice"):
        build_tokenizer([*SPECIAL_TOKENS, "a", "a"])


def built(folder: Path, parts: list[list[str]], sample: int) -> tuple[list[str], int]:
    store = ArtifactStore(folder)
    documents = documents_artifact(store, *parts)
    words = run(count_words, store, CountWordsParams(sample_documents=sample), {"documents": documents}).artifact
    params = VocabularyParams(size=500, min_frequency=2)
    artifact = run(vocabulary, store, params, {"words": words}).artifact
    tokens = artifact.scan().collect()
    assert artifact.read_file("vocab.txt").decode().splitlines() == tokens["token"].to_list()
    json.loads(artifact.read_file("tokenizer.json"))
    return tokens["token"].to_list(), words.manifest.counters["documents"]


def test_stages_give_the_same_vocabulary_for_any_parts_and_order(tmp_path: Path) -> None:
    texts = [f"{text}{number}" for number, text in enumerate(TEXTS)]
    one, _ = built(tmp_path / "one", [texts], 10**6)
    many, _ = built(tmp_path / "many", [texts[i::5][::-1] for i in range(5)], 10**6)
    assert one == many == build_vocabulary(texts, 500, 2)


def test_sample_is_drawn_by_document_and_repeatable(tmp_path: Path) -> None:
    texts = [f"患者编号{number}" for number in range(2000)]
    _, first = built(tmp_path / "a", [texts], 500)
    _, second = built(tmp_path / "b", [texts[::-1][:700], texts[::-1][700:]], 500)
    assert first == second
    assert 400 < first < 600


def test_an_empty_sample_is_an_error(store: ArtifactStore) -> None:
    documents = documents_artifact(store, ["患者"] * 3)
    with pytest.raises(UserError, match=r"sample.*is empty: .* 3 documents remain.*count_words\.sample_documents"):
        run(count_words, store, CountWordsParams(sample_documents=1, seed=1), {"documents": documents})
    with pytest.raises(UserError, match="0 documents remain"):
        run(count_words, store, CountWordsParams(), {"documents": documents_artifact(store, [])})


def test_text_of_rare_characters_is_too_little_for_a_vocabulary(store: ArtifactStore) -> None:
    documents = documents_artifact(store, ["甲乙丙丁", "\U0002a700\u0378"])
    words = run(count_words, store, CountWordsParams(), {"documents": documents}).artifact
    with pytest.raises(UserError, match="too little text"):
        run(vocabulary, store, VocabularyParams(), {"words": words})


def test_endless_words_are_left_out_and_counted(store: ArtifactStore) -> None:
    documents = documents_artifact(store, ["acgt" * 26, "gene"])
    words = run(count_words, store, CountWordsParams(), {"documents": documents}).artifact
    assert words.manifest.counters["words_too_long"] == 1
    assert words.to_table()["word"].to_pylist() == ["gene"]


# ---- a vocabulary that is adopted

BERT = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "患", "者", "ct", "##s", "\u2028"]


def test_a_vocabulary_can_be_adopted(store: ArtifactStore, tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_text("".join(f"{token}\n" for token in BERT), encoding="utf-8")
    artifact = run(adopt, store, AdoptParams(max_length=64), {"file": RawInput(file)}).artifact
    tokens = artifact.to_table()["token"].to_pylist()
    assert tokens == [*SPECIAL_TOKENS, "[unused1]", *BERT[6:]]
    tokenizer = Tokenizer.from_str(artifact.read_file("tokenizer.json").decode())
    assert tokenizer.encode("患者CTs", add_special_tokens=False).tokens == ["患", "者", "ct", "##s"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n".join([*BERT, "患"]).encode(), r"vocab\.txt, line 12: '患' is already on line 7"),
        ("\n".join(BERT[2:]).encode(), r"no \[PAD\], so it is not the vocabulary of a BERT"),
        (b"{}", r"1 lines but no \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
        ("\n".join([*BERT, "", "中"]).encode(), "line 12 is empty"),
        ("\n".join([*BERT, "中"]).encode("gb18030"), "line 7.*is not UTF-8"),
        (b"", "line 1 is empty"),
    ],
)
def test_invalid_vocabulary_errors_name_the_line(
    store: ArtifactStore, tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "vocab.txt"
    file.write_bytes(content)
    with pytest.raises(UserError, match=message):
        run(adopt, store, AdoptParams(), {"file": RawInput(file)})


def test_line_ends_and_a_byte_order_mark_are_not_part_of_tokens(tmp_path: Path) -> None:
    assert parse_vocabulary(b"\xef\xbb\xbf" + "\r\n".join(BERT).encode() + b"\r\n", "vocab.txt") == BERT


def test_one_vocabulary_at_a_time(store: ArtifactStore, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "vocab.txt").write_text("\n".join(BERT), encoding="utf-8")
    (tmp_path / "in" / "notes.txt").write_text("none")
    given = RawInput(tmp_path / "in")
    assert list(read_vocabularies(given)) == ["a/vocab.txt", "b/vocab.txt"]
    with pytest.raises(UserError, match=r"one vocab\.txt.*not 2"):
        run(adopt, store, AdoptParams(), {"file": given})
