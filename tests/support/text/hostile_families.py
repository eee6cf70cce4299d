"""A few characters each that are repeated without end: texts on which a careless step takes quadratic time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tasks.deidentify.forms.identifier import Cues
from tasks.deidentify.kinds import KINDS

MARKUP = "<|<p>|<b|</|</p>|<a href=|<br/>|<td>|<tr><td>|<sup>|<sub>1|<style>|<script>|<title>|<!--|<![CDATA[|&|&amp|&#1"
WEB = "www.|http://|https://a.b/c|a@b.cn|@|点击|关注|微信|转载|版权所有|参考文献|[1]"
MARKS = "(|）|〔|（[【|。|！|；|…|......|——|、|：|，|？|《|“|”|‘|\"|'|#|*|=|| a |_|~|$|{|}|\\|/|^|.|,|;"
BLANKS = " |\t|\n|\r\n|\r|  \n|\n\n|。\n|，\n|a\n|痛\n|1.\n|- \n|\u200b|\ufeff|\u3000|\ud800"
NUMBERS = "1|12 |-|A1|138|10^9/L |1:1000|3.5|10⁹|mg/|12/|½|㎎|①|II|型1|,1|1,|1-|2024-01-01 |早上8:00|1型|（1）|1、|第1"
LETTERS = "王|a|A|é|e\u0301|ｶﾞ|ª|a.|A.B|市|路1号|患者|头痛|左|双侧|姓名：张三 |答：|医生：|患者：问"
CLAUSES = "家族史|高血压？|未见|否认|否认高血压、|或|和|及|伴|考虑|可能|未除外|（待查|待排|术后|史|性|型|病史:|主诉："

SHORT = tuple(sorted({*"|".join((MARKUP, WEB, MARKS, BLANKS, NUMBERS, LETTERS, CLAUSES)).split("|"), "|"} - {""}))
OF_TEXT = (*SHORT, *(a + b for a, b in product(SHORT[::9], SHORT[1::10])))
"""Families for what reads any text."""

VALUES = ("123456", "：abc12345", "王芳", "北京市海淀区中关村大街1号")
"""Values before and behind a cue."""
SHORT_IDENTIFIERS = (
    "1",
    "12 ",
    "(",
    "）",
    "〔",
    "-",
    "A1",
    "王",
    "路1号",
    "市",
    "\n",
    "  ",
    "@",
    "www.",
    "a@b.cn",
    "李医生",
    "、",
    "：",
    "138",
    "2023-",
    "1.2.3.4.",
    "4月1",
    "粤A1",
    "在大学",
    "1床",
    "1、",
    "a-.cn",
    "+1 ",
    "Name: A. ",
    "_",
    "|",
    "茶茶：\n",
    "第0",
    "〔2022〕0",
    "12-3456",
)


def _of_identifiers() -> Iterator[str]:
    for kind in KINDS.values():
        for way in kind.ways:
            yield from (example.replace("{", "").replace("}", "") for example in (*way.found, *way.kept))
            if isinstance(way, Cues):
                for spelling in way.spellings():
                    yield from (spelling + value for value in VALUES)
                    yield from (value + spelling for value in VALUES)
    yield from SHORT_IDENTIFIERS


OF_IDENTIFIERS = tuple(dict.fromkeys(_of_identifiers()))
"""Families for de-identification: every example of every type, every cue with values on both sides, short ones."""
