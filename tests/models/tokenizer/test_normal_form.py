"""No number changes its value in the normal form, and all four users of it find the same tokens."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from models.tokenizer.corpus import CorpusTokenizer
from models.tokenizer.normal_form import KEPT, NORMALISER, normalise
from models.tokenizer.wordpiece import SPECIAL_TOKENS, build_tokenizer, save_tokenizer, split_words
from tasks.vocabulary.counts import count_words_of

PLAIN = ("<wide>", "<narrow>", "<font>")
"""Kinds of decomposition that leave a digit what it is: ５ is 5, but ⁵ is not."""

COMPATIBLE = [
    character
    for character in map(chr, (*range(0x80, 0xD800), *range(0xE000, 0x30000)))
    if unicodedata.decomposition(character).startswith("<")
]
"""Every character that NFKC replaces."""

NUMBERS = [*"ⅠⅡⅫⅻⅯ❶➓⓫⓵⓿🄋"] + [
    character
    for character in COMPATIBLE
    if not unicodedata.decomposition(character).startswith(PLAIN)
    and any(part.isdecimal() for part in unicodedata.normalize("NFKC", character))
]
"""Every character that becomes digits without being a plain one."""

LOWERED = "₀₁₂₃₄₅₆₇₈₉"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("白细胞10⁹/L", "白细胞10⁹/l"),
        ("10⁻¹²、10ⁿ", "10⁻¹²、10ⁿ"),
        ("½片", "½片"),
        ("1½片", "1½片"),
        ("ⅡⅢ", "2、3"),
        ("①②", "1、2"),
        ("⑩⓿❷", "10、0、2"),
        ("120①", "120、1"),
        ("①5㎎", "1、5mg"),
        ("⒈2型", "1.、2型"),
        ("1.Ⅱ型", "1.、2型"),
        ("图①.5例", "图1、.5例"),
        ("Ⅱ\u200bⅢ", "2、3"),
        ("Ⅱ½", "2、½"),
        ("凝血因子ⅩⅢ、ⅩⅠ", "凝血因子13、11"),
        ("ⅨⅩⅪ、ⅩⅩ", "9、10、11、10、10"),
        ("2024年5㏠", "2024年5、1日"),
        ("SpO₂98%", "spo2、98%"),
        ("log₁₀5", "log10、5"),
        ("98₂", "98、2"),
        ("ⅡⅩⅢ", "2、10、3"),
        ("ⅩⅡⅢ", "10、2、3"),
    ],
)
def test_numbers_keep_their_value(text: str, form: str) -> None:
    assert normalise(text) == form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Ⅱ型", "2型"),
        ("Ⅱ/Ⅲ级、Ⅰ-Ⅱ期", "2/3级、1-2期"),
        ("①期②期", "1期2期"),
        ("⑴⑵", "(1)(2)"),
        ("维生素B₁₂、CO₂", "维生素b12、co2"),
        ("２４Ｈ", "24h"),
        ("25㎏/㎡", "25kg/m²"),
        ("㎎ ℃ ㏄ № ﬁ", "mg °c cc no fi"),
        ("Ⅱ 5", "2 5"),
    ],
)
def test_other_forms_become_plain(text: str, form: str) -> None:
    assert normalise(text) == form


def numbers_in(text: str) -> list[str]:
    return re.findall("[0-9]+", normalise(text))


@pytest.mark.parametrize("others", ["5", "50"])
def test_digits_on_both_sides_of_any_character_stay_numbers_of_their_own(others: str) -> None:
    for character in COMPATIBLE:
        if unicodedata.decomposition(character).startswith(PLAIN) and character.isdecimal():
            continue
        found = numbers_in(f"{others}{character}{others}")
        assert found == [others, *numbers_in(character), others], ascii(character)


def test_two_numbers_in_a_row_stay_two() -> None:
    for one, other in itertools.product(NUMBERS, NUMBERS):
        if one in LOWERED and other in LOWERED:
            assert numbers_in(one + other) == ["".join(numbers_in(one) + numbers_in(other))]  # B₁₂
        else:
            assert numbers_in(one + other) == numbers_in(one) + numbers_in(other), ascii(one + other)


def test_what_is_kept_has_no_digit_of_another_value() -> None:
    raised = {character for character in NUMBERS if unicodedata.decomposition(character).startswith("<super>")}
    fractions = {character for character in NUMBERS if unicodedata.decomposition(character).startswith("<fraction>")}
    assert raised | fractions <= set(KEPT)
    for character in KEPT:
        assert normalise(f"10{character}") == f"10{character}"


ROUND_OR_ROMAN = re.compile("(ROMAN NUMERAL|SMALL ROMAN|(NEGATIVE |DOUBLE )?CIRCLED (DIGIT|NUMBER)|DINGBAT .*CIRCLED)")
"""ROMAN NUMERAL TWO, DINGBAT NEGATIVE CIRCLED DIGIT ONE; not CIRCLED IDEOGRAPH ONE."""


def test_round_and_roman_numerals_have_the_value_that_unicode_gives_them() -> None:
    found = 0
    for character in map(chr, (*range(0x2160, 0x2180), *range(0x2400, 0x3300), *range(0x1F100, 0x1F110))):
        name = unicodedata.name(character, "")
        if ROUND_OR_ROMAN.match(name) and "BLACK SQUARE" not in name:
            assert normalise(character) == str(int(unicodedata.numeric(character))), name
            found += 1
    assert found > 100


@pytest.mark.parametrize("ten", "Ⅹⅹ")
def test_roman_numerals_to_nineteen_may_be_two_characters(ten: str) -> None:
    for unit in range(1, 10):
        assert normalise(ten + chr(0x215F + unit)) == normalise(ten + chr(0x216F + unit)) == str(10 + unit)


def test_powers_of_units_stay_raised() -> None:
    units = [one for one in COMPATIBLE if "<square>" in unicodedata.decomposition(one)]
    units = [one for one in units if unicodedata.normalize("NFKC", one)[-1] in "23"]
    assert len(units) >= 12
    for unit in units:
        spelled = unicodedata.normalize("NFKC", unit).lower()
        assert normalise(unit) == spelled[:-1] + "²³"[int(spelled[-1]) - 2], unit


def test_texts_that_need_few_steps_get_what_all_steps_would_give() -> None:
    special = [chr(i) for i in range(0x30000) if unicodedata.category(chr(i)) in ("Cc", "Cf")]
    for character in (*special, "\ufe00", "\ufe0f", "\U000e0100", "\ue000", *COMPATIBLE, *NUMBERS, *KEPT):
        text = f"a{character}b"
        assert normalise(text) == NORMALISER.normalize_str(text), ascii(text)


def test_ends_of_lines_stay_and_what_is_invisible_goes() -> None:
    assert normalise("一\t二\n三\x0b四\x0c五\r六\x85七") == "一\t二\n三\x0b四\x0c五\r六\x85七"
    assert normalise("一\u200b二\ufe0f三\x00四\ue123五\U000e0101六") == "一二三四五六"


VOCABULARY = [*SPECIAL_TOKENS, *"0123456789、.abcdmg²⁹½日月", "##a", "##b", "##c", "##d", "##m", "##g"]
CONTEXTS = ["{}", "5{}5", "{}{}", "Ⅱ{}③", "1.{}.5", "₂{}½", "a\u200b{}\u200b7", "{}甲"]
SURROUNDED = [context.replace("{}", one) for one in sorted({*COMPATIBLE, *NUMBERS, *KEPT}) for context in CONTEXTS]


def test_fast_tokeniser_tokenizer_file_and_counts_agree(tmp_path: Path) -> None:
    save_tokenizer(VOCABULARY, tmp_path, 64)
    written = (tmp_path / "tokenizer.json").read_text(encoding="utf-8")
    ours, theirs = CorpusTokenizer(written), Tokenizer.from_str(written)
    encoded = ours.encode(SURROUNDED)
    found = theirs.encode_batch(SURROUNDED, add_special_tokens=False)
    for number, (text, each) in enumerate(zip(SURROUNDED, found, strict=True)):
        own = slice(encoded.borders[number], encoded.borders[number + 1])
        offsets = list(zip(encoded.starts[own].tolist(), encoded.ends[own].tolist(), strict=True))
        assert (encoded.ids[own].tolist(), offsets) == (each.ids, each.offsets), ascii(text)
    words = [split_words(text) for text in SURROUNDED]
    assert count_words_of(SURROUNDED) == Counter(itertools.chain.from_iterable(words))
    auto = AutoTokenizer.from_pretrained(tmp_path)
    some = SURROUNDED[::97]
    assert auto(some, add_special_tokens=False)["input_ids"] == [each.ids for each in found[::97]]


PIECES = st.sampled_from([*"ⅡⅫ①⒈❷㏠₁₂⁹½ⅿ59.．,%型甲a²㎡℃\u200b\n ", "10", "\u0301"])


@settings(max_examples=500, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=8).map("".join), max_size=4))
def test_numerals_among_numbers(texts: list[str]) -> None:
    tokenizer = build_tokenizer(VOCABULARY)
    encoded = CorpusTokenizer(tokenizer.to_str()).encode(texts)
    found = [each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)]
    assert encoded.ids.tolist() == list(itertools.chain.from_iterable(found))
    assert count_words_of(texts) == Counter(word for text in texts for word in split_words(text))
