"""What belongs to an address that was found, and that neither a chain of places nor a label covers: its end.

People tell a door by what is beside it: 天河广场旁中百超市楼上, 玉兰花园7-2-401. Two addresses with a word between them
are one: 知音湖大道中法新城. Time grows with the addresses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.deidentify.forms.identifier import Identifier

_HAN = "\u4e00-\u9fff"
# matches: "7-2-401", "-5-3-1704", "中百超市楼上", "院内", "卫生室对过", "当代社区", "17栋物业", "平房第三排"
# not: "，楼上", "摔倒在门口", "社区卫生服务中心", "7", "2026-11-28"
_END = re.compile(
    r"-?(?!(?:19|20)\d\d-)\d{1,4}(?:-\d{1,4}){1,3}(?![\d.])"
    rf"|(?:(?![的在来到去因被于和与及说诉患病伤痛摔跌住从])[{_HAN}0-9]){{0,6}}?"
    r"(?:旁边|旁|斜?对面|对过|隔壁|楼[上下]|门口|院内(?![感获病治])|里头|附近|路口|交叉口|社区(?![卫医服书护民站])|物业(?!费)|门卫|保安亭|后门"
    r"|(?:小区(?![卫医])|板房|平房|工棚|窝棚|出租[房屋]|公寓|宿舍|家属[区院楼]|安置点|项目部)"
    r"(?:第?[一二三四五六七八九十\d]{1,3}[排号楼层室栋]){0,2})"
)
# matches: "", "中", "新城"
# not: "是", "，", "或去"
_BETWEEN = re.compile(rf"(?:(?![是和与及或至到在去往来从距离])[{_HAN}]){{0,2}}")


def whole_addresses(text: str, found: Sequence[Identifier]) -> list[Identifier]:
    """Return identifiers, in order, of which addresses have their ends, and no two are beside each other."""
    whole: list[Identifier] = []
    for place, one in enumerate(found):
        last = whole[-1] if whole else None
        if last and last.type == one.type == "address" and _BETWEEN.fullmatch(text, last.end, one.start):
            one = whole.pop()._replace(end=one.end)
        if one.type == "address":
            limit = found[place + 1].start if place + 1 < len(found) else len(text)
            end = _END.match(text, one.end, limit)
            one = one._replace(end=end.end()) if end else one
        whole.append(one)
    return whole
