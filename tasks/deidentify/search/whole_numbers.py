"""What belongs to the number of a paper that was found, and that no form of a number covers: its beginning and its end.

Offices write who decided, and when, before the number (穗人社工认〔2024〕第30217号), and laboratories write the
block, the aliquot or the year behind it (B24-0331-A3, 1926/2026). Time grows with the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.deidentify.forms.identifier import Identifier
from tasks.deidentify.forms.places import PROVINCE_SIGNS

NUMBERED = frozenset(("record", "licence", "military", "passport"))
"""Kinds whose numbers have such beginnings and ends."""

_BEFORE, _LONGEST = 16, 24
"""Characters before a number that its beginning may have, and behind it that its end may have."""

_HAN = "\u4e00-\u9fff"
_PAPER = "[决裁鉴认诊健捐保险放纳优征受案刑证字调检]"
"""Characters of what an office decides or gives: 鉴定, 认定, 健康证, 低保."""
# matches: "穗人社工认〔2024〕第", "浙临卫健字", "鲁职诊", "（2024）苏锡证字第"
# not: "病历号", "编号", "第", "新病案号"
_BEGINNING = re.compile(
    rf"(?:(?:(?:(?!号)[{_HAN}]|[（(][{_HAN}]{{1,3}}[)）]){{1,10}}[〔\[（(]|(?<![0-9A-Za-z])[〔\[（(])(?:19|20)\d\d[〕\])）]"
    rf"(?:[{_HAN}]{{0,6}}[字鉴决证认]第?|第)?"
    rf"|[{PROVINCE_SIGNS}][{_HAN}]{{0,6}}{_PAPER}第?"
    rf"|(?:(?<![{_HAN}])|(?<=[证号]))(?:(?![证号])[{_HAN}]){{1,6}}字第?)$"
)
# matches: "-S3", "/2026", "_R05C01", "-2", "/B/C", "-补1", "-③"
# not: "-", "/32岁", "-2024-05-06", "/0.5", "/ml"
_END = re.compile(
    r"(?!-(?:19|20)\d\d-\d)(?:[-_—/]{1,2}(?:补?\d{1,6}[A-Z]?|[A-Z]{1,4}\d{0,6}|[A-Z]\d\d[A-Z]\d\d|[①-⑳])"
    r"(?![0-9A-Za-z.%％]|[岁年月日天次片粒支周]))+"
)
# matches: "号"
# not: "号床", "号楼"
_SIGN = re.compile("号(?![床楼线机房门窗])")
# matches: "字第", "〔2024〕", "(2024)"
# not: "2024"
_OF_AN_OFFICE = re.compile(r"字|第|[〔\[（(]\d{4}")


def whole_numbers(text: str, found: Sequence[Identifier]) -> list[Identifier]:
    """Return identifiers, in order, of which numbers of papers have their beginnings and ends."""
    whole: list[Identifier] = []
    for place, one in enumerate(found):
        if one.type in NUMBERED and one.end - one.start >= 4:
            free_from = whole[-1].end if whole else 0
            limit = found[place + 1].start if place + 1 < len(found) else len(text)
            one = _whole(text, one, max(free_from, one.start - _BEFORE), min(limit, one.end + _LONGEST))
        whole.append(one)
    return whole


def _whole(text: str, one: Identifier, free_from: int, limit: int) -> Identifier:
    beginning = _BEGINNING.search(text, free_from, one.start)
    start = beginning.start() if beginning else one.start
    ending = _END.match(text, one.end, limit)
    end = ending.end() if ending else one.end
    if _OF_AN_OFFICE.search(text, start, end) and end < limit and _SIGN.match(text, end):
        end += 1
    return one._replace(start=start, end=end)
