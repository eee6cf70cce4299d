"""What stays although the recogniser takes it for an identifier: words of medicine, measured values, what is public."""

from __future__ import annotations

import re

from tasks.deidentify.names import is_nobody, is_stop
from tasks.deidentify.numbers import is_date, is_of_a_thing
from tasks.deidentify.recogniser.places import CITIES, PROVINCES

# matches: "2023-04", "20230918", "2016.5", "9-10-10"
# not: "201131862"
_DATE = re.compile(
    r"(?:19|20)\d\d[-.年/]?(?:0?[1-9]|1[0-2])(?:[-.月/]?\d{1,2}日?)?|\d{1,2}[-./]\d{1,2}(?:[-./]\d{1,4})?"
)
# matches: "23床", "+17床"
# not: "床"
_BED = re.compile(r"[加+]?[0-9A-Za-z\-]{1,8}床$")
# matches: "rsID:", "基因ID：", "ID ", "文章编号：", "PLT："
# not: "住院号："
_OF_OTHER_THINGS = re.compile(
    r"(?:[A-Za-z\d]ID[：:]?|基因[A-Za-z]*[：:]?|ID|文章编号[：:]?|[0-9]号|伦审第|[A-Z]{2,6}[：:])[：:\s]{0,2}$"
)
# matches: "张家人", "高三学生"
# not: "张家"
_NOBODY = re.compile("家[人属]$|学生$|医生$|患者$|[一二三四五六七八九十]$|^老爷子$|支付宝|氏[牙征病]$|单抗$")


_PLACES = frozenset((*CITIES, *(name[:2] for name in PROVINCES), "黑龙江", "内蒙古"))
"""Places that begin with surnames and are no names: 安徽, 江西."""


def stays(text: str, start: int, end: int, kind: str) -> bool:
    """Return True for words or a number that must stay."""
    words = text[start:end]
    if "〔" in words or "〓" in words:
        return True
    if kind == "record":
        return _number_stays(text, start, end, words)
    if kind == "name":
        return words in _PLACES or is_stop(words) or is_nobody(words) or bool(_NOBODY.search(words))
    return is_nobody(words)


def _number_stays(text: str, start: int, end: int, words: str) -> bool:
    if _BED.match(words):
        return False
    digits = re.sub("[^0-9]", "", words)
    if len(digits) < 3 or " " in words or _DATE.fullmatch(words) or (len(digits) == 8 and is_date(digits)):
        return True
    return bool(_OF_OTHER_THINGS.search(text, max(0, start - 10), start)) or is_of_a_thing(text, start, words)
