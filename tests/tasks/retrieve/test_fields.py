"""Fields of names: comparable forms, tokens and documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieve.candidates import Entry
from tasks.retrieve.fields import MAX_CHARACTERS, SearchFields, comparable_forms, documents_of


def tokens(name: str, **fields: float) -> dict[str, tuple[str, ...]]:
    (found,) = SearchFields(**fields).document_tokens([name])
    return {field: tuple(held) for field, held in found.items()}


def test_fields_of_a_name() -> None:
    assert tokens("Ⅱ型糖尿病（足）") == {
        "exact": ("2型糖尿病足",),
        "characters": ("2", "型", "糖", "尿", "病", "足"),
        "bigrams": ("2型", "型糖", "糖尿", "尿病", "病足"),
    }


def test_latin_words_and_numbers_stay_whole() -> None:
    assert tokens("COPD type 2, 1.5cm β")["characters"] == ("copd", "type", "2", "1.5", "cm", "β")


@pytest.mark.parametrize(
    "names",
    [
        ("Ⅱ型糖尿病", "２型糖尿病", "II型 糖尿病", "②型糖尿病"),
        ("肺炎（成人）", "肺炎[成人]", "肺炎【成人】", "肺炎 成人"),
        ("胃-食管反流", "胃—食管反流", "胃食管反流"),
        ("IgA肾病", "ＩＧＡ肾病"),
    ],
)
def test_spelling_variants_have_one_comparable_form(names: tuple[str, ...]) -> None:
    assert len(set(comparable_forms(names))) == 1


def test_field_without_boost_is_omitted() -> None:
    assert tokens("肺炎", exact=0, bigrams=0) == {"characters": ("肺", "炎")}


def test_homophones_have_equal_pinyin() -> None:
    assert tokens("肝炎", pinyin=1)["pinyin"] == tokens("肝严", pinyin=1)["pinyin"] == ("gan", "yan")


def test_repeated_token_of_a_query_counts_once() -> None:
    (found,) = SearchFields().query_tokens(["慢性慢性肺炎"])
    assert found["characters"] == ("慢", "性", "肺", "炎")
    assert tokens("慢性慢性肺炎")["characters"] == ("慢", "性", "慢", "性", "肺", "炎")


@pytest.mark.parametrize("name", ["", "  ", "!?（）—", "\ud800"])
def test_name_without_letters_and_digits_has_no_tokens(name: str) -> None:
    assert not any(tokens(name).values())


@given(st.lists(st.text(), max_size=5))
def test_tokens_are_bounded_and_contain_no_white_space(names: list[str]) -> None:
    for found in SearchFields().document_tokens([*names, "长" * 10_000, "x" * 10_000]):
        held = [token for own in found.values() for token in own]
        assert all(token and len(token) <= MAX_CHARACTERS and not any(map(str.isspace, token)) for token in held)
        assert len(found["characters"]) <= MAX_CHARACTERS


def test_documents_are_the_distinct_names_of_sorted_entries() -> None:
    found = documents_of(
        [
            Entry("B02", "霍乱"),
            Entry("A00", "霍乱", ("虎列拉", "霍 乱")),
            Entry("A00", "霍乱", ("瘪螺痧",)),
            Entry("A01", "伤寒"),
        ]
    )
    assert [(entry.term, entry.code) for entry in found.entries] == [("伤寒", "A01"), ("霍乱", "A00"), ("霍乱", "B02")]
    assert list(found.names) == ["伤寒", "霍乱", "瘪螺痧", "虎列拉", "霍乱"]
    assert list(found.owners) == [0, 1, 1, 1, 2]


@given(st.permutations([Entry("A", "甲", ("乙", "丙")), Entry("A", "甲", ("丁",)), Entry("", "乙"), Entry("B", "甲")]))
def test_documents_do_not_depend_on_the_order_of_entries(entries: list[Entry]) -> None:
    assert documents_of(entries) == documents_of(sorted(entries, key=repr))
