"""Time grows with the text, for any text: no step of cleaning, cutting or reading a diagnosis has a quadratic case."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import product

import pytest

from tasks.clean import clean_text
from tasks.files.html_text import page_text
from tasks.normalise.queries.rules import QueryRules
from tasks.normalise.reading import Reader
from tasks.segment import segment_words, split_document
from tests.support.text.linear_time import LINEAR, ratio_of_doubling, repeated, seconds

MARKUP = "<|<p>|<b|</|</p>|<a href=|<br/>|<td>|<tr><td>|<sup>|<sub>1|<style>|<script>|<title>|<!--|<![CDATA[|&|&amp|&#1"
WEB = "www.|http://|https://a.b/c|a@b.cn|@|点击|关注|微信|转载|版权所有|参考文献|[1]"
MARKS = "(|）|〔|（[【|。|！|；|…|......|——|、|：|，|？|《|“|”|‘|\"|'|#|*|=|| a |_|~|$|{|}|\\|/|^|.|,|;"
BLANKS = " |\t|\n|\r\n|\r|  \n|\n\n|。\n|，\n|a\n|痛\n|1.\n|- \n|\u200b|\ufeff|\u3000|\ud800"
NUMBERS = "1|12 |-|A1|138|10^9/L |1:1000|3.5|10⁹|mg/|12/|½|㎎|①|II|型1|,1|1,|1-|2024-01-01 |早上8:00|1型|（1）|1、|第1"
LETTERS = "王|a|A|é|e\u0301|ｶﾞ|ª|a.|A.B|市|路1号|患者|头痛|左|双侧|姓名：张三 |答：|医生：|患者：问"
CLAUSES = "家族史|高血压？|未见|否认|否认高血压、|或|和|及|伴|考虑|可能|未除外|（待查|待排|术后|史|性|型|病史:|主诉："

SINGLE = sorted({*"|".join((MARKUP, WEB, MARKS, BLANKS, NUMBERS, LETTERS, CLAUSES)).split("|"), "|"} - {""})
FAMILIES = (*SINGLE, *(a + b for a, b in product(SINGLE[::9], SINGLE[1::10])))

LENGTH = 3_000
"""Characters at which a quadratic step stands out among the others."""

_rules, _reader = QueryRules.read(), Reader(lambda texts: [False] * len(texts))
WORK: dict[str, Callable[[str], object]] = {
    "clean": clean_text,
    "sentences": lambda text: split_document(text, 128, 32),
    "words": segment_words,
    "pages": page_text,
    "queries": lambda text: _rules.ask([text]),
    "statements": lambda text: _reader.read([text]),
}


OF_DIAGNOSES = ("queries", "statements")
"""Work that reads no more of a text than a long diagnosis has; the single families are enough for it."""


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_twice_the_text_takes_twice_the_time(name: str) -> None:
    work = WORK[name]
    work("患者头痛。" * 50)  # compiles and loads what it needs
    families = SINGLE if name in OF_DIAGNOSES else FAMILIES
    took = {family: seconds(work, repeated(family)(LENGTH)) for family in families}
    usual = statistics.median(took.values())
    # Times of less than some milliseconds say nothing of themselves. A family that is slow has its doubling measured.
    slow = {family for family, one in took.items() if one > max(4 * usual, 0.004)}
    ratios = {family: ratio_of_doubling(work, repeated(family), 2 * LENGTH) for family in slow}
    assert {family: ratio for family, ratio in ratios.items() if ratio > LINEAR} == {}
    assert len(FAMILIES) > 250
