"""Texts share a key exactly where they hold the same numbers in the same order."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.comparable_batch import comparables
from tasks.number_keys import NUMERALS, POWERS, ROMAN, SIGNS, UNITS, number_keys

LETTERS = "a-z\u00df-\u024f\u0370-\u052f"
NUMBER = re.compile(
    rf"[{re.escape(SIGNS)}]*\d+(?:[.,:]\d+)*|(?<=\()[{re.escape(SIGNS)}]+(?=\))"
    rf"|[{NUMERALS}]+(?=[{UNITS}])|(?<=第)[{NUMERALS}]+|(?<=分之)[{NUMERALS}]+"
    rf"|(?<![{NUMERALS}])(?=[{NUMERALS}]*[{POWERS}])[{NUMERALS}]{{2,}}"
    rf"|(?<![{LETTERS}])(?:[{ROMAN}]{{2,}}(?![{LETTERS}])|(?!x)[{ROMAN}](?=[{UNITS}]))"
)

PIECES = st.sampled_from(
    [*"12３.,:<≥-~/+()一二半千次克升天ixvaé第分之病 \n٣", "3.5mg", "1,000", "12:30", "18~65岁", "两次", "一般", "分之"]
)
FORMS = st.lists(st.lists(PIECES, max_size=7).map("".join), max_size=30)


@settings(max_examples=300, deadline=None)
@given(FORMS)
def test_equal_keys_are_equal_numbers(forms: list[str]) -> None:
    keys = number_keys(forms).tolist()
    numbers = [tuple(NUMBER.findall(form)) for form in forms]
    assert len(keys) == len(forms)
    assert len(set(zip(keys, numbers, strict=True))) == len(set(keys)) == len(set(numbers))


OTHERS = [
    ("年龄18-75岁", "年龄18~65岁"),
    ("血小板≥100", "血小板≥75"),
    ("1 2", "2 1"),
    ("每日3次", "每日三次"),
    ("5", "-5"),
    ("Ⅱ期", "Ⅲ期"),
    ("II型", "III型"),
    ("心功能Ⅳ级", "心功能Ⅴ级"),
    ("凝血因子VIII缺乏", "凝血因子IX缺乏"),
    ("百分之三十", "百分之五十"),
    ("第三腰椎", "第四腰椎"),
    ("血压二百", "血压一百"),
    ("三公斤", "五公斤"),
    ("狂犬疫苗三针", "狂犬疫苗五针"),
    ("二尖瓣", "三尖瓣"),
    ("甘草三钱", "甘草五钱"),
    ("HBsAg(+)", "HBsAg（－）"),
    ("(+)", "(++)"),
    ("±3", "3"),
]


@pytest.mark.parametrize(("one", "other"), [*OTHERS, ("5", "-5"), ("1.5", "15"), ("1.2", "1 2")])
def test_other_numbers_have_other_keys(one: str, other: str) -> None:
    first, second = number_keys(comparables([one, other])).tolist()
    assert first != second


def test_words_and_neighbours_change_no_key() -> None:
    alone = number_keys(["每次0.5克"])[0]
    among = number_keys(["", "12", "一般情况下，每次服用0.5克", "-"])
    assert among[2] == alone
    assert among[0] == among[3] == number_keys(["一般"])[0]
    assert len(number_keys([])) == 0


@pytest.mark.parametrize("text", ["一般", "x线检查", "vitamin", "a-b", "甲（乙）", "第几", "（甲）-乙", "i"])
def test_what_is_no_number_leaves_no_key(text: str) -> None:
    assert number_keys(comparables([text]))[0] == 0
