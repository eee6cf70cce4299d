"""Numbers of official papers: who decided, the year in brackets, and the number: 穗人社工认〔2024〕第30217号.

What is public has such numbers too (国卫医发〔2022〕31号); they stay.
"""

from __future__ import annotations

import re

from tasks.deidentify.forms.identifier import Span
from tasks.deidentify.forms.places import PROVINCE_SIGNS

_HAN = "\u4e00-\u9fff"
_LABEL = "证(?![明字])|[号书件]"
"""Characters that end the name of a paper before its number: 公证书, 证号, 老年证."""
_DECIDED = "[字鉴决证认权案诊]"
_GIVEN = "[决裁鉴认诊健捐保险放纳优征受案刑证字调检]"
"""Characters of what an office decides or gives: 鉴定, 认定, 健康证, 低保."""
# matches: "穗人社工认〔2024〕第", "浙临卫健字", "鲁职诊", "（2024）苏锡证字第", "公(刑)鉴字〔2024〕", "ZM〔2024〕第"
# not: "病历号", "编号", "第", "新病案号", "12(2024)"
_BEGINNING = re.compile(
    rf"(?:(?:(?:(?!{_LABEL})[{_HAN}]|[（(][{_HAN}]{{1,3}}[)）]){{1,10}}|[A-Z]{{2,4}}|(?<![0-9A-Za-z]))"
    rf"(?P<year>[〔\[（(](?:19|20)\d\d[〕\])）])\s?(?:[{_HAN}]{{0,8}}{_DECIDED}第?|第)?"
    rf"|[{PROVINCE_SIGNS}][{_HAN}]{{0,6}}{_GIVEN}第?"
    rf"|(?:(?<![{_HAN}])|(?<=[证号书件]))(?:(?!{_LABEL})[{_HAN}]){{1,8}}字第?)$"
)
_LONGEST = 24
"""Characters that a beginning may have."""
# matches: "公告", "卫生部令", "标准"
# not: "证明书", "，"
_PUBLIC_BEFORE = re.compile(r"(?:公告|通告|通知|令|标准|[局部委]|版|专利|法规?|文件|条例|发|函|切口|体位)[（(]?$")
# matches: "5520号", "00317号", "（2024）056号", "2023-0417号"
# not: "31 号", "31号文"
_NUMBER = re.compile(r"(?:[（(〔\[](?:19|20)\d\d[）)〕\]])?\d{2,12}(?:-\d{1,6})?号(?!文)")
# matches: "医鉴第", "鉴字〔2022〕"
# not: "卫医发〔2022〕"
_OF_A_CASE = re.compile(r"[鉴病诊证案理诉民刑初终伤损住]字?(?:第|[（(〔\[]\d{4}[）)〕\]])$")


def paper_beginning(text: str, free_from: int, end: int) -> int | None:
    """Return where the number of a paper begins whose digits begin at `end`; None where nothing belongs to them."""
    match = _BEGINNING.search(text, max(free_from, end - _LONGEST), end)
    if match is None or _is_public(text, match.start("year") if match["year"] else match.start()):
        return None
    return match.start()


def _is_public(text: str, place: int) -> bool:
    return _PUBLIC_BEFORE.search(text, max(0, place - 8), place) is not None


def paper_fits(text: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Refuse numbers of what is public: 公告第0318号."""
    return not _is_public(text, start)


def paper_around(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The number of a case or paper around its cue, with its year or office: (2026)病字第5520号, 昆民低字第2023-0417号.

    Not the public 国卫医发〔2022〕31号. Short numbers have to be of a case: 伤残鉴〔2022〕31号.
    """
    number, begin = _NUMBER.match(text, end), paper_beginning(text, free_from, end)
    if number is None or begin is None or start - begin < 2:  # 国字第20417号 may be of anything
        return []
    is_long = len(number[0]) > 4
    return [(begin, number.end())] if is_long or _OF_A_CASE.search(text, max(0, end - 10), end) else []


# matches: "(2024)赣0702", "（2023）京01"
# not: "2024年赣0702"
_COURT = re.compile(r"[（(〔](?:19|20)\d\d[)）〕][\u4e00-\u9fff]{0,2}\d{2,4}$")
# matches: "字第1459号", "1459号之一"
# not: "1459"
_CASE_NUMBER = re.compile(r"(?:字第?|第)?\d{1,6}号(?:之[一二三四五])?")


def case_of_a_court(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The number of a case at a court around its kind: (2024)赣0702民初1459号."""
    court, number = _COURT.search(text[max(free_from, start - 14) : start]), _CASE_NUMBER.match(text, end)
    return [(start - len(court[0]), number.end())] if court and number else []
