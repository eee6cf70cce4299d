"""What belongs to an address that was found, and that neither a chain of places nor a label covers: its ends.

People tell a door by what is beside it: 天河广场旁中百超市楼上, 玉兰花园7-2-401. Two addresses with a word between them
are one: 知音湖大道中法新城. A model that finds 玉桥 of 住积玉桥, or one part of an address in English, would give the
rest away. Time grows with the addresses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.deidentify.forms.identifier import Identifier

_HAN = "\u4e00-\u9fff"
# matches: "7-2-401", "-5-3-1704", "中百超市楼上", "院内", "卫生室对过", "17栋物业", "平房第三排", "A区8-2", "甲14"
# not: "，楼上", "摔倒在门口", "社区卫生服务中心", "7", "2026-11-28", "CT", "B超"
_END = re.compile(
    r"-?(?!(?:19|20)\d\d-)\d{1,4}(?:-\d{1,4}){1,3}(?![\d.])"
    r"|\d{1,2}楼(?:之\d{1,2})?(?!梯)|[A-D][区座栋口](?:\d{1,4}(?:-\d{1,4}){0,2})?|甲\d{1,3}(?!\d)|\d{1,2}F(?![A-Za-z0-9])"
    rf"|(?:(?![的在来到去因被于和与及说诉患病伤痛摔跌住从])[{_HAN}0-9]){{0,6}}?"
    r"(?:旁边|旁|斜?对面|对过|隔壁|楼[上下]|门口|院内(?![感获病治])|里头|附近|底下|路口|交叉口|那家|社区(?![卫医服书护民站])|物业(?!费)|门卫|保安亭|后门|公交站|地铁站|驿站"
    r"|市场|步行街|商业街|服务区|停车场|应急车道|机场|牧场|林场|摊位?|客栈|民宿|网吧|大棚|传达室|导诊台|示教室|理赔部|别墅区|便民服务站"
    r"|(?:小区(?![卫医])|板房|平房|工棚|窝棚|出租[房屋]|公寓|宿舍|家属[区院楼]|安置点|项目部)"
    r"(?:第?[一二三四五六七八九十\d]{1,3}[排号楼层室栋]){0,2})"
)
# matches: "", "中", "新城"
# not: "是", "，", "或去"
_BETWEEN = re.compile(rf"(?:(?![是和与及或至到在去往来从距离])[{_HAN}]){{0,2}}")
# matches: "积", "迎"
# not: "住", "患者", "在", "，"
_BEGINNING = re.compile(
    rf"(?:(?<=[，,。；;：:\s（(“在住到去至于从])|^)"
    rf"(?![我你他她人男女岁的了是系来自去到从往在住于由经过送寄回返至因与和及现原老居址籍贯为东西南北])[{_HAN}]$"
)
# matches: ", Shunde, Foshan", " Rd 700", " E3"
# not: "; contact", " with", ". The"
_LATIN_END = re.compile(r"(?:,? ?(?:[A-Z][A-Za-z]{1,14}|[NSEW]\.|[A-Z]?\d{1,5}[A-Z]?(?![A-Za-z0-9])))+")
# matches: "Room 1203, Block B, 88 ", "Flat 12B, ", "No. 16 "
# not: "to ", "address: "
_LATIN_BEGINNING = re.compile(
    r"(?:(?:No\. ?\d{1,5}|\d{1,5}[A-Z]?|(?:Room|Flat|Unit|Block|Building|Floor) [A-Z]?\d{0,4}[A-Z]?),? )+$"
)
# matches: "Yingbin Road", "Shunde"
# not: "宾路", "3号"
_LATIN = re.compile(r"[A-Za-z][A-Za-z .,0-9]{3,}")
_WINDOW = 40
"""Characters before an address in English that may belong to it."""


def whole_addresses(text: str, found: Sequence[Identifier]) -> list[Identifier]:
    """Return identifiers, in order, of which addresses have their ends, and no two are beside each other."""
    whole: list[Identifier] = []
    for place, one in enumerate(found):
        last = whole[-1] if whole else None
        if last and last.type == one.type == "address" and _are_one(text, last, one):
            one = whole.pop()._replace(end=one.end)
        if one.type == "address":
            limit = found[place + 1].start if place + 1 < len(found) else len(text)
            one = _whole(text, one, whole[-1].end if whole else 0, limit)
        whole.append(one)
    return whole


def _are_one(text: str, one: Identifier, other: Identifier) -> bool:
    if _BETWEEN.fullmatch(text, one.end, other.start):
        return True
    return text[one.end : other.start] in (", ", " ") and _is_latin(text, one) and _is_latin(text, other)


def _is_latin(text: str, address: Identifier) -> bool:
    return _LATIN.fullmatch(text, address.start, address.end) is not None


def _whole(text: str, one: Identifier, free_from: int, limit: int) -> Identifier:
    """Return an address with its beginning and its end, between the identifiers beside it."""
    if _is_latin(text, one):
        start = _LATIN_BEGINNING.search(text, max(free_from, one.start - _WINDOW), one.start)
        end = _LATIN_END.match(text, one.end, limit)
    else:
        start = _BEGINNING.search(text, max(free_from, one.start - 1), one.start)
        end = _END.match(text, one.end, limit)
        further = _END.match(text, end.end(), limit) if end else None  # 大厦旁 肯德基楼上
        end = further or end
    return one._replace(start=start.start() if start else one.start, end=end.end() if end else one.end)
