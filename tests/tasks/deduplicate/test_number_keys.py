"""Texts share a number key exactly if they hold the same numbers in the same order."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.deduplicate.number_keys import (
    ARROWS,
    LINKS,
    LONGEST_FINDING,
    MINUSES,
    NUMERALS,
    PERCENT,
    PLUSES,
    POWERS,
    ROMAN,
    SIGNS,
    UNITS,
    number_keys,
)
from tasks.text.comparable_batch import comparables

LETTERS = "a-z\u00df-\u024f\u0370-\u052f"
SIGN, WORD = f"[{re.escape(SIGNS)}]", r"[^\W_]"
MORE_SIGNS = f"{SIGN}{{0,{LONGEST_FINDING - 1}}}(?!{SIGN}|\\d)"
BEHIND_WORD = rf"(?<!{SIGN})(?:(?<={WORD})|(?<=\)))"
HYPHEN = re.compile(rf"{BEHIND_WORD}[{MINUSES}](?!{SIGN}|\d)")
NUMBER = re.compile(
    rf"{SIGN}*\d+(?:[.,:]\d+)*[{PERCENT}]?|(?<=\(){SIGN}+(?=\))"
    rf"|(?P<finding>(?<!{SIGN})[{ARROWS}]{MORE_SIGNS}|{BEHIND_WORD}[{PLUSES}]{MORE_SIGNS}"
    rf"|{HYPHEN.pattern}(?!{WORD}))"
    rf"|(?!(?<![{NUMERALS}])一点(?![{NUMERALS}]))[{NUMERALS}]+(?=[{UNITS}])"
    rf"|[{NUMERALS}]+(?=(?:{SIGN}|[{LINKS}])[{NUMERALS}])"
    rf"|(?<=第)[{NUMERALS}]+|(?<=分之)[{NUMERALS}]+"
    rf"|(?<![{NUMERALS}])(?=[{NUMERALS}]*[{POWERS}])[{NUMERALS}]{{2,}}"
    rf"|(?<![{LETTERS}])(?:[{ROMAN}]{{2,}}(?![{LETTERS}])|(?!x)[{ROMAN}](?=[{UNITS}]))"
)
TOGETHER = re.compile(f"(?:{WORD}|{SIGN})*$")


def numbers_of(form: str) -> tuple[tuple[str, int], ...]:
    """Return the numbers of a form; signs of findings come with the count of possible hyphens in the words before."""
    return tuple(
        (match[0], hyphens_before(form, match.start()) if match["finding"] else 0) for match in NUMBER.finditer(form)
    )


def hyphens_before(form: str, place: int) -> int:
    together = TOGETHER.search(form[:place])
    return len(HYPHEN.findall(form, together.start() if together else 0, place))


PIECES = st.sampled_from(
    [
        *"12３.,:<≥-~/+()一二半千次克升天ixvaé第分之病 \n٣点至、%↑±",
        "3.5mg",
        "1,000",
        "12:30",
        "18~65岁",
        "两次",
        "一般",
        "分之",
    ]
)
FORMS = st.lists(st.lists(PIECES, max_size=7).map("".join), max_size=30)


@settings(max_examples=300, deadline=None)
@given(FORMS)
def test_keys_are_equal_where_numbers_are(forms: list[str]) -> None:
    keys = number_keys(forms).tolist()
    numbers = [numbers_of(form) for form in forms]
    assert len(keys) == len(forms)
    assert len(set(zip(keys, numbers, strict=True))) == len(set(keys)) == len(set(numbers))


OTHERS = [
    ("年龄18-75岁", "年龄18~65岁"),
    ("血小板≥100", "血小板≥75"),
    ("1 2", "2 1"),
    ("1 23", "12 3"),
    ("1 2", "12"),
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
    ("随机分为两组", "随机分为三组"),
    *((f"有两{unit}", f"有三{unit}") for unit in "名处种项人位餐条点包"),
    ("肱二头肌", "肱三头肌"),
    ("三至五天", "二至五天"),
    ("二、三天", "四、三天"),
    ("一到两片", "半到两片"),
    ("三-五天", "二-五天"),
    ("三天五天", "三五天"),
    ("七点五克", "六点五克"),
    ("二〇一〇年", "二〇二〇年"),
    ("壹片", "贰片"),
    ("百余例", "千余例"),
    ("尿蛋白++", "尿蛋白+"),
    ("3+", "3-"),
    ("HBsAg+ HBeAg-", "HBsAg- HBeAg+"),
    ("HBsAg+ HBeAg- HBcAb+", "HBsAg- HBeAg+ HBcAb+"),
    ("HBsAg+ 肝功能正常", "HBsAg- 肝功能正常"),
    ("抗体(IgM)+", "抗体(IgM)-"),
    ("白细胞↑", "白细胞↓"),
    ("白细胞 ↑ 血小板正常", "白细胞 ↓ 血小板正常"),
    ("5%", "5‰"),
    ("5%", "5"),
]


@pytest.mark.parametrize(("one", "other"), [*OTHERS, ("5", "-5"), ("1.5", "15"), ("1.2", "1 2")])
def test_different_numbers_have_different_keys(one: str, other: str) -> None:
    first, second = number_keys(comparables([one, other])).tolist()
    assert first != second


def test_words_and_other_texts_do_not_change_a_key() -> None:
    alone = number_keys(["每次0.5克"])[0]
    among = number_keys(["", "12", "一般情况下，每次服用0.5克", "-"])
    assert among[2] == alone
    assert among[0] == among[3] == number_keys(["一般"])[0]
    assert len(number_keys([])) == 0


NO_NUMBERS = ["一些", "一直", "一定", "一点", "一边", "一致", "一样", "统一", "进一步", "γ-球蛋白", "%", "+。"]
NO_NUMBERS += ["头痛——。", "头痛--。", "头痛-----。"]
"""Words with a numeral that is not a number. 一个 and 一次 are numbers, as they differ from 两个 and 两次."""


@pytest.mark.parametrize(
    "text", ["一般", "x线检查", "vitamin", "a-b", "甲（乙）", "第几", "（甲）-乙", "i", *NO_NUMBERS]
)
def test_words_that_are_not_numbers_leave_no_key(text: str) -> None:
    assert number_keys(comparables([text]))[0] == 0
