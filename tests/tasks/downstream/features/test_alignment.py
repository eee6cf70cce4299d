"""Characters and tokens: every span of characters that has tokens is found, whatever the text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers import AutoTokenizer, BertTokenizer

from infra.errors import UserError
from models.tokenizer.wordpiece import SPECIAL_TOKENS, build_tokenizer
from tasks.downstream.features.alignment import TextTokenizer
from tests.support.text.tokenizers import VOCABULARY, save_ours, save_vocab_txt

STRANGE = "患者 CT\t2型㎎①Ⅱ½ﬁ\u200b\u00ad\ufeff\x00\x07👨‍👩‍👧🇨🇳\u0301é\ud800𠮷Ａ／İß[MASK]\n\u2028"
TEXTS = st.text(st.one_of(st.sampled_from(STRANGE), st.characters(codec=None)), max_size=30)


@pytest.fixture(scope="module", params=[save_ours, save_vocab_txt])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    return TextTokenizer.from_folder(request.param(tmp_path_factory.mktemp("model")))


@given(text=TEXTS)
def test_characters_share_no_tokens(tokenizer: TextTokenizer, text: str) -> None:
    (tokens,) = tokenizer.characters([text])
    assert (tokens.ends == tokens.starts + 1).all() and (np.diff(tokens.starts) >= 0).all()
    for place, character in enumerate(text):
        (alone,) = tokenizer.characters([character])
        assert tokens.ids[tokens.starts == place].tolist() == alone.ids.tolist()
        assert (tokens.span(place, place + 1) is not None) == (len(alone.ids) > 0)


@given(text=TEXTS, data=st.data())
def test_span_between_characters_with_tokens_is_found(tokenizer: TextTokenizer, text: str, data: st.DataObject) -> None:
    (tokens,) = tokenizer.characters([text])
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    span = tokens.span(start, end)
    has_tokens = start < end and start in tokens.starts and end in tokens.ends
    assert (span is not None) == has_tokens
    if span is not None:
        first, last = span
        assert (tokens.starts[first], tokens.ends[last]) == (start, end)
        inside = (tokens.starts >= start) & (tokens.ends <= end)
        assert np.flatnonzero(inside).tolist() == list(range(first, last + 1))


@given(text=TEXTS)
def test_words_match_the_tokeniser(tokenizer: TextTokenizer, text: str) -> None:
    (tokens,) = tokenizer.words([text])
    assert (tokens.starts < tokens.ends).all() and (tokens.ends <= len(text)).all()


def test_model_with_an_earlier_normaliser_is_cut_by_its_own(tmp_path: Path) -> None:
    tokens = [*SPECIAL_TOKENS, *"0123456789、⁹"]
    tokenizer = build_tokenizer(tokens)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (ours,) = TextTokenizer.from_folder(tmp_path).words(["10⁹、①②"])
    assert [tokens[number] for number in ours.ids] == [*"109、12"]
    assert ours.starts.tolist() == [0, 1, 2, 3, 4, 5]
    build_tokenizer(tokens).save(str(tmp_path / "tokenizer.json"))
    (ours,) = TextTokenizer.from_folder(tmp_path).words(["10⁹、①②"])
    assert [tokens[number] for number in ours.ids] == [*"10⁹、1、2"]
    assert ours.starts.tolist() == [0, 1, 2, 3, 4, 4, 5]


def test_capitals_missing_from_the_vocabulary_are_read_in_lower_case(tmp_path: Path) -> None:
    save_vocab_txt(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    tokens = TextTokenizer.from_folder(tmp_path).characters(["CT片"])[0]
    assert [VOCABULARY[i] for i in tokens.ids] == ["c", "t", "[UNK]"]


@pytest.mark.parametrize("save", [save_ours, save_vocab_txt])
def test_ids_and_frames_match_transformers(save: object, tmp_path: Path) -> None:
    folder = save(tmp_path)  # type: ignore[operator]
    theirs = AutoTokenizer.from_pretrained(folder) if save is save_ours else BertTokenizer(str(folder / "vocab.txt"))
    ours = TextTokenizer.from_folder(folder)
    one, other = "患者有CT检查，MRI？", "Ａ型 高血压 ct"
    first, second = (tokens.ids for tokens in ours.words([one, other]))
    for ids, types, expected in (
        (*ours.frame(first), theirs(one, return_token_type_ids=True)),
        (*ours.frame(first, second), theirs(one, other, return_token_type_ids=True)),
    ):
        assert ids.tolist() == expected["input_ids"]
        assert types.tolist() == expected["token_type_ids"]


def test_special_tokens_in_a_text_are_plain_text(tokenizer: TextTokenizer) -> None:
    special = {VOCABULARY.index(token) for token in ("[CLS]", "[SEP]", "[MASK]", "[PAD]")}
    for tokens in (*tokenizer.words(["[MASK][SEP]"]), *tokenizer.characters(["[MASK][SEP]"])):
        assert not special & set(tokens.ids.tolist())


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "neither tokenizer.json nor vocab.txt"),
        ({"tokenizer.json": "{"}, r"tokenizer.json cannot be read"),
        ({"vocab.txt": "患\n"}, r"has no \[UNK\]"),
        ({"vocab.txt": "[UNK]\n患\n"}, r"has no \[CLS\]"),
        ({"vocab.txt": "[UNK]\n", "tokenizer_config.json": "["}, "tokenizer_config.json cannot be read"),
    ],
)
def test_folder_without_a_usable_tokeniser_is_refused(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        TextTokenizer.from_folder(tmp_path)
