"""The fast tokeniser gives the ids and places of `tokenizer.json` for every text, and they give the text back."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from models.tokenizer.character_table import is_settled
from models.tokenizer.corpus import CorpusTokenizer, EncodedTexts
from models.tokenizer.normal_form import SEPARATOR, normalise
from models.tokenizer.wordpiece import SPECIAL_TOKENS, build_tokenizer, split_words

LETTERS = [mark + letter for letter in "abcgmnxéßαωя" for mark in ("", "##")]
PIECES = ["ab", "##bc", "ct", "mg", "##mg", "mri", "αω", "ab##", "i"]
TOKENS = [*SPECIAL_TOKENS, *LETTERS, *PIECES, *"0123456789甲乙病，、。[]-.°\u0304\u200d가か🙂"]
TOKENIZER_JSON = build_tokenizer(TOKENS).to_str()
OURS = CorpusTokenizer(TOKENIZER_JSON)
UNKNOWN = SPECIAL_TOKENS.index("[UNK]")


def written(tokenizer_json: str) -> Tokenizer:
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.encode_special_tokens = True
    return tokenizer


THEIRS = written(TOKENIZER_JSON)


def assert_equal(texts: Sequence[str], ours: CorpusTokenizer = OURS, theirs: Tokenizer = THEIRS) -> EncodedTexts:
    encoded = ours.encode(texts)
    offsets = list(zip(encoded.starts.tolist(), encoded.ends.tolist(), strict=True))
    ids = encoded.ids.tolist()
    found = theirs.encode_batch([regex.sub(r"\p{Cs}", "\ufffd", text) for text in texts], add_special_tokens=False)
    for text, (start, end), each in zip(texts, itertools.pairwise(encoded.borders.tolist()), found, strict=True):
        assert (ids[start:end], offsets[start:end]) == (each.ids, each.offsets), ascii(text)
    return encoded


FRAGMENTS = st.sampled_from(
    [
        *(
            "甲",
            "病",
            "abc",
            "MRI",
            "ａｂ",
            "Ⅻ",
            "❶",
            "⓫",
            "℃",
            "㎎",
            "½",
            "₂",
            "⁹",
            "5",
            ".",
            "…",
            "ﬁ",
            "İ",
            "ΑΣ",
            "ß",
            "é",
            "e\u0301",
        ),
        *("₂", "⁹", "5", ".", "㏠", "①"),
        *("\u200b", "\ufeff", "\ue000", "\ufe0f", "❤\ufe0f", "👩\u200d⚕", " ", "\u3000", "\n", "\x1c", "\x85", "\x00"),
        *("[MASK]", "[UNK]", "##b", "ﷺ", "\u1100\u1161\u11a8", "\uac01", "a" * 99, "\U000e0100", "\U0002f800"),
        *("\ud800", "\u0344", "\u2028", "か\u3099"),
    ]
)
TEXT = st.lists(FRAGMENTS | st.characters() | st.text("abcgmri㎎ \u200b", max_size=6), max_size=12).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.lists(TEXT, max_size=6))
@example([])
@example(["", "", ""])
@example(["a\u200bb", "\u200bab\u200b", "a㎎b", "e\u200b\u0301", "a", "\u0301b"])
@example(["a" * 100, "a" * 101, "a" * 99 + "㎎", "甲" * 101])
@example(["甲", "e\u0301乙", "ab", "\u0301", "", "x\u0304 x", "½"])
def test_ids_and_places_match_the_tokenizer_file(texts: list[str]) -> None:
    encoded = assert_equal(texts)
    assert encoded.ids.dtype == np.uint8
    assert len(encoded.borders) == len(texts) + 1


def test_every_character_beside_letters_and_chinese() -> None:
    everything = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    assigned = regex.findall(r"[^\p{Cn}\p{Co}\p{Unified_Ideograph}]", everything)
    others = regex.findall(r"[\p{Cn}\p{Co}]", everything)[::97]
    # 97,680 ideographs are treated alike: both ends of each run, and some between them.
    runs = regex.findall(r"\p{Unified_Ideograph}+", everything)
    ideographs = [character for run in runs for character in (*run[::29], run[-1])]
    characters = assigned + ideographs + others
    ours = CorpusTokenizer(TOKENIZER_JSON)
    for batch in (characters[at : at + 20_000] for at in range(0, len(characters), 20_000)):
        assert_equal([f"{c}a{c}b甲{c}{c}" for c in batch], ours)


@settings(max_examples=200, deadline=None)
@given(TEXT.filter(lambda text: not regex.search(r"\p{Cs}", text)))
def test_known_ids_give_the_words_back(text: str) -> None:
    encoded = OURS.encode([text])
    ids = iter(encoded.ids.tolist())
    for word in split_words(text):
        token = next(ids)
        spelt = "" if token == UNKNOWN else TOKENS[token]
        while token != UNKNOWN and len(spelt) < len(word):
            piece = TOKENS[next(ids)]
            assert piece.startswith("##")
            spelt += piece[2:]
        assert token == UNKNOWN or spelt == word
    assert next(ids, None) is None
    assert (np.diff(encoded.starts) >= 0).all()
    assert ((encoded.starts >= 0) & (encoded.starts < encoded.ends) & (encoded.ends <= len(text))).all()


SETTLED = TEXT.map(lambda text: "".join(c for c in text if not regex.match(r"\p{Cs}", c) and is_settled(c)))


@settings(max_examples=300, deadline=None)
@given(SETTLED)
@example("a" * 98 + "¯")
def test_unknown_tokens_point_to_their_text(text: str) -> None:
    """The text comes back from the ids, and from the places where a token is unknown.

    Of a mark that melts into the letter before it the offsets of `tokenizer.json` take no notice.
    """
    encoded = OURS.encode([text])
    back, last = [], 0
    tokens = list(zip(*(column.tolist() for column in encoded[:3]), strict=True))
    while tokens:
        group = [tokens.pop(0)]
        while tokens and tokens[0][1] < group[-1][2]:  # Ⅻ is two tokens from one place
            group.append(tokens.pop(0))
        start, end = group[0][1], group[-1][2]
        assert start >= last
        last = end
        if any(number == UNKNOWN for number, _, _ in group):
            separator = SEPARATOR if group[-1][0] == TOKENS.index(SEPARATOR) and len(group) > 1 else ""  # ½Ⅱ is ½、2
            back.append(normalise(text[start:end]).removesuffix(SEPARATOR) + separator)
        else:
            back.append("".join(TOKENS[number].removeprefix("##") for number, _, _ in group))
    # Blanks between, so that a separate mark (¯) does not merge with the letter of the token before it.
    assert "".join(split_words(" ".join(back))) == "".join(split_words(text))


@settings(max_examples=100, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_neighbours_in_a_batch_change_nothing(texts: list[str], drawn: random.Random) -> None:
    order = drawn.sample(range(len(texts)), len(texts))
    whole = OURS.encode([texts[number] for number in order])
    for place, number in enumerate(order):
        own = slice(whole.borders[place], whole.borders[place + 1])
        alone = OURS.encode([texts[number]])
        assert all(np.array_equal(one[own], other) for one, other in zip(whole[:3], alone[:3], strict=True))


@pytest.mark.parametrize(
    ("size", "kind"), [(256, np.uint8), (257, np.uint16), (65_536, np.uint16), (65_537, np.uint32)]
)
def test_ids_are_as_small_as_the_vocabulary_allows(size: int, kind: type) -> None:
    characters = [chr(0x20000 + number) for number in range(size - len(SPECIAL_TOKENS))]
    tokenizer = CorpusTokenizer(build_tokenizer([*SPECIAL_TOKENS, *characters]).to_str())
    encoded = tokenizer.encode([characters[-1]])
    assert (encoded.ids.dtype, encoded.ids.tolist()) == (kind, [size - 1])


def test_file_that_cuts_words_differently_is_refused() -> None:
    content = json.loads(TOKENIZER_JSON)
    content["normalizer"] = {"type": "NFKC"}
    with pytest.raises(ValueError, match="was not written by"):
        CorpusTokenizer(json.dumps(content))


def test_real_text(shared_data: Path) -> None:
    drawn = random.Random(0)
    texts: list[str] = []
    for file in sorted(shared_data.rglob("*.parquet")):
        frame = pl.read_parquet(file)
        for column in frame.columns:
            if frame[column].dtype == pl.String:
                values = frame[column].drop_nulls().unique(maintain_order=True).to_list()
                texts += drawn.sample(values, min(100, len(values)))
    assert_equal(texts)
