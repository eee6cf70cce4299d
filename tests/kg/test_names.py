"""Names with the same meaning compare equal; what distinguishes entities is kept."""

from __future__ import annotations

import unicodedata

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kg.names import FEW, forms_of, normalise_name, normalise_names


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("２型糖尿病（成人）", "2型糖尿病(成人)"),
        ("Ⅱ型糖尿病(成人)", "2型糖尿病(成人)"),
        ("II型 糖尿病【成人】", "2型糖尿病(成人)"),
        ("ⅱ型糖尿病〔成人〕。", "2型糖尿病(成人)"),
        ("凝血因子VIII", "凝血因子8"),
        ("凝血因子Ⅷ", "凝血因子8"),
        ("I型糖尿病", "1型糖尿病"),
        ("宫颈癌IIIb期", "宫颈癌3b期"),
        ("II/III型", "2/3型"),
        ("霍乱，由于O1群霍乱弧菌、未特指", "霍乱,由于o1群霍乱弧菌,未特指"),
        ("Diabetes  Mellitus", "diabetes mellitus"),
        ("\u3000糖尿\u00a0病\u200b ", "糖尿病"),
        ("帕金森“病”", "帕金森病"),
        ("II—型", "2-型"),
        ("血红蛋白＜100 g/L", "血红蛋白<100 g/l"),
        ("p<0.05", "p<0.05"),
        ("尿pH＞6〈成人〉", "尿ph>6(成人)"),
    ],
)
def test_spellings_of_one_name_have_one_form(name: str, form: str) -> None:
    assert normalise_name(name) == form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("注射用头孢唑林钠", "头孢唑林钠"),
        ("GFR<50", "GFR(50"),
        ("阿司匹林肠溶片(25mg)", "阿司匹林肠溶片"),
        ("X线", "10线"),
        ("维生素C", "维生素100"),
        ("1-2级", "12级"),
        ("type 12", "type 1 2"),
        ("HIV感染", "H4感染"),
        ("0.5%利多卡因", "5%利多卡因"),
    ],
)
def test_different_things_keep_different_forms(one: str, other: str) -> None:
    assert normalise_name(one) != normalise_name(other)


@pytest.mark.parametrize(("name", "form"), [("", ""), (" \u3000", ""), ("--", "--"), ("。", "。"), ("\u200b", "")])
def test_names_without_letters(name: str, form: str) -> None:
    assert normalise_name(name) == form


def test_missing_name_becomes_empty() -> None:
    assert normalise_names(pl.Series("x", ["甲", None])).to_list() == ["甲", ""]


names = st.text(max_size=12) | st.text("IiVvXxⅡⅣaAbC型期 　-—（）()[]【】，、,.1２糖尿病·“\u200b", max_size=10)


@settings(max_examples=300, deadline=None)
@example(["İ", "ǅ i I型", "K¸"])
@given(st.lists(names, min_size=1, max_size=8))
def test_form_is_idempotent(given_names: list[str]) -> None:
    forms = normalise_names(pl.Series(given_names))
    assert normalise_names(forms).to_list() == forms.to_list()
    wide = [unicodedata.normalize("NFKC", form) for form in forms]
    assert normalise_names(pl.Series(wide)).to_list() == forms.to_list()


@settings(max_examples=300, deadline=None)
@example(["e\u200b\u0301", "\x1ca b", "a\u1add\u0301b", "Ά Σ", " i型", "甲 乙", "-- ", "\ua7cbII"])
@given(st.lists(names, min_size=1, max_size=8))
def test_one_name_has_the_form_that_it_has_among_many(given_names: list[str]) -> None:
    together = normalise_names(pl.Series(given_names)).to_list()
    assert [normalise_name(name) for name in given_names] == together
    assert forms_of(given_names) == together
    assert forms_of(given_names * FEW) == together * FEW


@pytest.mark.parametrize(("before", "behind"), [("", ""), ("i", "型"), ("e", "\u0301")])
def test_every_character_has_one_form_alone_and_among_many(before: str, behind: str) -> None:
    # Python knows these; others take the way of many names.
    characters = [chr(code) for code in range(0x20000) if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]
    given_names = [before + character + behind for character in characters]
    assert normalise_names(pl.Series(given_names)).to_list() == [normalise_name(name) for name in given_names]


@settings(max_examples=150, deadline=None)
@given(st.text("IiVvXxaAbC型期()[],.1-糖尿病 ", max_size=10))
def test_width_and_case_do_not_matter(name: str) -> None:
    wide = "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in name)
    assert len(set(normalise_names(pl.Series([name, name.upper(), name.lower(), wide])))) == 1
