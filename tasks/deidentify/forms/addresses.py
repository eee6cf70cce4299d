"""Postal addresses in Chinese text: a chain of places from province to door, behind a cue or around a road.

The cues are in `tasks/deidentify/identifier_types.py`. Many levels of an address are parts of the body too (胃窦区,
降段, 气道), so a chain without a field around it needs more than one of them.
"""

from __future__ import annotations

import re

from tasks.deidentify.forms.cues import FIELD_SEPARATOR
from tasks.deidentify.forms.identifier import Span

_WINDOW = 40
"""Characters before a road or a village in which its address may begin."""

_HAN = "\u4e00-\u9fff"
_LEVELS = (
    "自治区|特别行政区|自治州|自治县|街道|社区|小区|大道|胡同|花园|公寓|大厦|广场|新村|省|州|盟|市|区|县|旗|镇|乡|"
    "村|屯|庄|路|街|道|巷|弄|里|苑|园|段|湾|洼"
)
_STEP = rf"[{_HAN}]{{1,8}}?(?:{_LEVELS})"
_DOOR_NUMBER = (
    r"第?[0-9A-Za-z一二三四五六七八九十#\-]{1,6}+ ?"
    r"(?:号大院|号院|号楼|号|弄|栋|幢|座|单元|室|户|层|楼|组|队|房|舍)"
)

# matches: "洪山区", "街道"
# not: "溃疡"
_LEVEL = re.compile(_LEVELS)
# matches: "28号", "3栋", "2单元"
# not: "溃疡"
_DOOR = re.compile(_DOOR_NUMBER)
# matches: "湖北省孝感市孝南区书院街道玉泉路28号3栋2单元501室", "珞喻路1037号"
# not: "胃溃疡"
_CHAIN = re.compile(
    rf"(?:{_STEP}){{1,12}}+(?:[中东西南北上下]?(?:{_DOOR_NUMBER}){{1,6}}+"
    rf"(?:[{_HAN}]{{2,8}}?(?:小区|花园|苑|公寓|大厦|新村|家园|酒店|宾馆|大楼|院内(?![感获病治])|家属院|家属楼|宿舍|大院|楼下|对面|隔壁)(?:\d{{3,4}}(?!\d))?+)?+"
    rf"(?: ?{_DOOR_NUMBER}){{0,6}}+(?: ?\d ?\d ?\d(?: ?\d)?(?! ?\d|[.\-年月日岁次]))?+"
    rf"(?: ?\d{{1,3}}-\d{{1,3}}(?:-\d{{1,4}}){{0,2}})?+)?+"
)
# matches: "山东潍坊", "十里铺3-2"
# not: "，", "县"
_FILLED = re.compile(rf"[{_HAN}0-9A-Za-z#\-－—·]{{2,60}}+")
"""Whatever fills a field of an address that is no chain: 籍贯：山东潍坊."""
# matches: "不详", "同上", "〔地址〕"
# not: "山东潍坊"
_NO_PLACE = re.compile(r"不详|同上|未|无|本地|本市|本院|当地|农|非农|城镇|城市|乡村|见|保密|原籍|居民|集体|院|如下|〔")
# matches: "邮编", "联系人"
# not: "山东潍坊"
_NEXT_FIELD = re.compile(r"邮编|邮政|电话|联系|手机|职业|民族|病史|因|人$|身份")
# matches: "，", "在"
# not: "珞喻"
_LEFT_BORDER = re.compile(rf"[^{_HAN}0-9]|[在于住至到址是从往位为由即系籍贯]")
# matches: "湖北省", "上海市", "新疆维吾尔自治区"
# not: "洪山区"
_PROVINCE = re.compile(
    "(?:北京|天津|上海|重庆)市|(?:河北|山西|辽宁|吉林|黑龙江|江苏|浙江|安徽|福建|江西|山东|河南|湖北|湖南|广东|"
    "海南|四川|贵州|云南|陕西|甘肃|青海|台湾)省"
    "|内蒙古|(?:广西|西藏|宁夏|新疆).{0,3}自治区"
)
_BODY_WAY = "静脉通路|[旁尿管回气]路"
# matches: "十二指肠降段", "胃窦区", "呼吸道", "静脉通路"
# not: "洪山区", "桂洲大道"
_OF_THE_BODY = re.compile(f"段|[窦体底部叶肺胃肾肝脾心脑腰骶颈胸腹额顶枕颞野灶疡变肿]区|(?<![大街])道|{_BODY_WAY}")
"""Levels of an address that are parts of the body too, or lines into it."""
# matches: "尿路", "静脉通路"
# not: "珞喻路"
_ENDS_IN_BODY_WAY = re.compile(f"(?:{_BODY_WAY})$")
# matches: "人民南路四段", "京藏线北段"
# not: "十二指肠降段"
_SECTION = re.compile(r"(?:路|街|道|线)[^路街道线]{0,3}段$")
# matches: "湖北省"
# not: "玉泉路"
_WIDE_LEVEL = re.compile("[省市县区州]")
# matches: "武汉市"
# not: "胃窦区"
_PLACED = re.compile("[省市县镇乡]")
# matches: "桂洲大", "建设南"
# not: "呼吸"
_BEFORE_STREET = re.compile("[大中东西南北]$")
# matches: "玉泉路28号"
# not: "玉泉路"
_DIGIT = re.compile(r"\d")


def address_behind(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The address behind a cue: a chain of places, or whatever fills the field."""
    cue = text[start:end]
    separator = FIELD_SEPARATOR.match(text, end)
    first = separator.end() if separator else end
    if _NO_PLACE.match(text, first):
        return []
    chain = _CHAIN.match(text, first)
    if chain and (separator or _is_address(chain[0], cue)):
        return [(first, chain.end())]
    filled = _FILLED.match(text, first) if separator and not chain else None
    if filled is None:
        return []
    # Forms run on without a mark: 籍贯：山东潍坊职业农民
    cut = _NEXT_FIELD.search(filled[0])
    stop = first + cut.start() if cut else filled.end()
    return [(first, stop)] if stop - first >= 2 else []


def _is_address(chain: str, cue: str) -> bool:
    """Return True for a chain that is an address without a field around it: one with two levels, or a door.

    Levels that may all be parts of the body are not enough. Behind 患者系 a diagnosis may follow: there 胃窦区2号溃疡
    needs more than the door.
    """
    levels = len(_LEVEL.findall(chain))
    of_a_place = len(_OF_THE_BODY.findall(chain)) < levels
    if _DOOR.search(chain):
        return of_a_place or cue != "患者系"
    return of_a_place and levels >= 2


def address_around(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The address around a road with a number, or around a village below two wider places."""
    is_road = text[end : end + 1].isdigit()
    left = max(free_from, start - _WINDOW)
    window = text[left:start]
    if not is_road and len(_WIDE_LEVEL.findall(window)) < 2:
        return []
    province = _PROVINCE.search(window)
    if province:
        left += province.start()
    elif not is_road:
        return []
    else:
        left += max((match.end() for match in _LEFT_BORDER.finditer(window)), default=0)
    chain = _CHAIN.match(text, left)
    if chain is None or chain.end() < end or (is_road and not _DIGIT.search(chain[0])):
        return []
    if is_road and text[start] == "道" and not _BEFORE_STREET.search(text[left:start]):
        return []  # 呼吸道3号病房
    if is_road and not _is_road(text[left:end]):
        return []
    if not is_road and len(_WIDE_LEVEL.findall(chain[0])) < 2:
        return []
    return [(left, chain.end())]


# matches: "Flat 12B, Tower 3, 88 Queen's Garden, Nathan ", "Room 1203, No. 216 Renmin East ", "12 Nanjing "
# not: "Nanjing ", "the silk ", "on day 3 of the "
_ENGLISH_LEFT = re.compile(
    r"(?:(?:Flat|Room|Unit|Block|Floor|Tower|Building|Apt|No)\.? ?[A-Z]?\d{1,4}[A-Z]?,? )*"
    r"(?:No\.? ?)?\d{1,5}[A-Z]?,? "
    r"(?:[A-Z][A-Za-z'’.]{1,14},? ){1,5}$"
)
# matches: ", Kowloon", ", Panlong District, Kunming 650051"
# not: " with pain"
_ENGLISH_RIGHT = re.compile(r"(?:,? (?:[A-Z][a-z]{2,14}(?![a-z])|\d{4,6}(?![\d.-])))+")
_ENGLISH_WINDOW = 90
"""Characters before a road in English in which its address may begin."""


def english_address(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The address around an English word for a road, with a number before it: 12 Nanjing Road, Shanghai 200001."""
    left = _ENGLISH_LEFT.search(text, max(free_from, start - _ENGLISH_WINDOW), start)
    right = _ENGLISH_RIGHT.match(text, end)
    if left is None or (left.start() > free_from and text[left.start() - 1].isalnum()):
        return []
    return [(left.start(), right.end() if right else end)]


def _is_road(way: str) -> bool:
    """Return True for a road such as 人民南路四段; False for 静脉通路 and 十二指肠降段."""
    placed = _PLACED.search(way)
    if way.endswith("段"):
        return bool(placed or (_SECTION.search(way) and not _OF_THE_BODY.search(way[:-1])))
    return bool(placed or _WIDE_LEVEL.search(way) or not _ENDS_IN_BODY_WAY.search(way))
