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
# matches: "rsID:", "基因ID：", "ID ", "文章编号：", "PLT：", "微生物"
# not: "住院号："
_OF_OTHER_THINGS = re.compile(
    r"(?:[A-Za-z\d]ID[：:]?|微生物|序列数?|基因[A-Za-z]*[：:]?|ID|文章编号[：:]?|[0-9]号|伦审第|[A-Z]{2,6}[：:])[：:\s]{0,2}$"
)
# matches: "张家人", "高三学生"
# not: "张家"
_NOBODY = re.compile(
    "家[人属]$|学生$|医生$|患者$|[一二三四五六七八九十]$|^老爷子$|支付宝|^(?:小夜|大夜|小计|合计|惠顾|图文|续方|温馨|事由|新入|包吃|呼车|学平险?|微博|幸福|祝[愿福]|将其|滑雪|栗子|文言文|公众号|雪碧|层厚|枕部|商保|[工农建交]行)$|氏[牙征病]$|单抗$"
)


_PLACES = frozenset((*CITIES, *(name[:2] for name in PROVINCES), "黑龙江", "内蒙古"))
"""Places that begin with surnames and are no names: 安徽, 江西."""


# matches: "征(+)", "格费征（+）", "凡他试验", "管均", "腺、"
# not: "，征", "诉头痛"
_OF_A_SIGN = re.compile(
    "[\u4e00-\u9fff]{0,2}?(?:征\\s?[(（、+＋\\-±阳阴]|试验|综合征|反射|三角|染色|氏|评分|分[级期型]|[腺管线体][，,、。；均为(（])"
)
# matches: "达 2.5mg", " 5mg", "10g"
# not: "，10mg", "予阿司匹林100mg"
_DOSE_BEHIND = re.compile(
    r"[\u4e00-\u9fff]{0,2}\s?\d+(?:\.\d+)?\s?(?:mg|μg|ug|g(?![A-Za-z])|ml|mL|片|粒|支|IU|万?U(?![A-Za-z]))"
)
# matches: "EPG ", "克隆号"
# not: "ID ", "住院号"
_VALUE_NAME = re.compile(r"(?:(?<![A-Za-z])(?!ID|MRN|NO|No|CT|MR|US|DR|HIS)[A-Z]{2,6} |克隆号?)$")
# matches: "SBP┃162", "a,b", "4000～11000", "44.37@95"
# not: "B20-03381", "加3床"
_NO_NUMBER = re.compile("[┃│|｜丨,，→>_～~@]")
# matches: "45-125", "48000000", "148000", "384×288", "36.0600x004"
# not: "2023-0417", "20190871", "12-3床"
_RANGE_OR_COUNT = re.compile(r"\d{1,3}-\d{1,3}|[1-9]\d{0,5}0{4,9}|[1-9]\d{0,3}000|[\d.]+[×xX*][\d.]+")
"""Limits of a result, a count of cells, the size of a matrix."""
# matches: "国械注", "国药准字", "械注准"
# not: "住院号"
_APPROVED = re.compile(r"(?:械注|药准|卫食|妆)[准字进许]{0,2}$")
# An Oxford and a Montreal classification, for example.
# matches: " M1E1S1T1C1", " A2L3B1p"
# not: " A", " M 36岁"
_OF_A_SCORE = re.compile(r"\s?[A-Z]\d[A-Z]\d")
# A dose behind Dmean and a count behind Reads, for example.
# matches: " 26.3Gy", " 28734561条", " Ⅲ", "带瓣管道", "术"
# not: " 36岁", "，诉头痛"
_OF_A_LATIN_TERM = re.compile(r"\s?(?:\d+\.\d|\d{5,9}[\u4e00-\u9fff]|[ⅠⅡⅢⅣⅤ]|[\u4e00-\u9fff]{0,2}(?:术|瓣))")


# matches: "VV-ECMO", "CRRT-CVVHDF"
# not: "LI XIAOMENG", "Soo-jin"
_CAPITALS = re.compile("[A-Z]{2,8}(?:-[A-Z0-9]{2,8}){1,3}")
"""Abbreviations of methods."""
# matches: "柯雷骨折", "艾森门格综合征", "羊穿核型"
# not: "柯雷，男"
_EPONYM = re.compile(
    "柯雷骨折|史密斯骨折|潘科斯特|艾森门格|马尔尼菲|帕哲病|诺西那生|季德胜蛇|史国公药|马应龙[痔麝]|费森尤斯|羊穿|簇状|全膝|强阳"
    "|唐筛|桥本|费城染色|梅奥|左旋[布多肉氧咪甲]|全长|Schirmer|DRG"
)
"""Words of medicine that begin like names."""


def stays(text: str, start: int, end: int, kind: str) -> bool:
    """Return True for words or a number that must stay."""
    words = text[start:end]
    if "〔" in words or "〓" in words:
        return True
    if kind == "record":
        return _number_stays(text, start, end, words)
    if _OF_A_SCORE.match(text, end):
        return True
    if kind == "name":
        if end < len(text) and (_OF_A_SIGN.match(text, end) or _DOSE_BEHIND.match(text, end)):
            return True
        if _EPONYM.match(text, start) or _CAPITALS.fullmatch(words):
            return True
        if words.isascii() and " " not in words and _OF_A_LATIN_TERM.match(text, end):
            return True
        if words.endswith(("征", "腺", "管")) and text[end : end + 1] in tuple("(（、+"):
            return True
        return words in _PLACES or is_stop(words) or is_nobody(words) or bool(_NOBODY.search(words))
    return is_nobody(words)


def _number_stays(text: str, start: int, end: int, words: str) -> bool:
    if _BED.match(words):
        return False
    before = text[start - 1 : start]
    if before.isascii() and before.isalnum() and words[0].isascii() and words[0].isalnum():
        return True  # XA02BCA114|E001010100483 is the rest of a code
    digits = re.sub("[^0-9]", "", words)
    if _NO_NUMBER.search(words) or text[start - 1 : start] == "_":  # 18929329_21108367
        return True
    if _RANGE_OR_COUNT.fullmatch(words) or words.startswith("准") or _APPROVED.search(text, max(0, start - 6), start):
        return True
    if len(digits) < 7 and _VALUE_NAME.search(text, max(0, start - 8), start):
        return True
    if len(digits) < 3 or " " in words or _DATE.fullmatch(words) or (len(digits) == 8 and is_date(digits)):
        return True
    if text.startswith(("课题", "项目", "基金", "方案"), end):  # KT-2023-017课题
        return True
    if _OF_OTHER_THINGS.search(text, max(0, start - 10), start):
        return True
    if text[start - 1 : start] in ("（", "(") and len(digits) > 5:  # 茹志刚（2210834）
        return is_of_a_thing(f"，{words}{text[end : end + 8]}", 1, words)
    return is_of_a_thing(text, start, words)
