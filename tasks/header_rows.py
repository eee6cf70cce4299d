"""Forms as a line of headers with their values in the lines below: 姓名 性别 年龄 住院号, then 王芳 女 46岁 00458213.

A line is one of headers only where every cell of it is known as one; a line below holds their values where it has as
many cells, and what stands under 性别, 年龄 and numbers is what these can be. Anything else ends the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tasks.person_names import is_name

MAX_HEADER = 200
"""Characters of the longest line that is taken for headers."""

MAX_CELL = 60
"""Characters of the longest cell below one."""

DELIMITERS = "\t|,，"
"""What cells stand between, the first of these that the line of headers holds; else blanks."""

_OTHERS = (
    "性别 年龄 民族 职业 婚姻 婚否 婚姻状况 血型 身高 体重 文化程度 国籍 费别 序号 编号 科室 科别 病区 病室 病房 "
    "病床 床位 入院科室 出院科室 送检科室 申请科室 日期 时间 就诊日期 就诊时间 入院日期 入院时间 出院日期 出院时间 "
    "检查日期 检查时间 检验日期 送检日期 采样时间 报告日期 报告时间 手术日期 出生日期 出生年月 诊断 入院诊断 "
    "出院诊断 临床诊断 门诊诊断 初步诊断 检查项目 检查部位 检验项目 标本 标本类型 手机 手机号 手机号码 联系电话 "
    "家庭电话 电话号码 身份证号 身份证号码 证件号码 银行卡号 主管医生 主管医师 经治医生 经治医师 送检医生 送检医师 "
    "申请医生 申请医师 检查医生 检查医师 报告医生 报告医师 审核医生 审核医师 主治医生 接诊医生 接诊医师 手术医生 "
    "手术医师"
)
OTHER_HEADERS = frozenset(_OTHERS.split())
"""Headers that tell no person, and those in which a cue is only a part."""

_SEXES = frozenset(("男", "女", "男性", "女性", "不详", "未知", "M", "F"))
_AGE = re.compile(r"\d{1,3}(?:\.\d)?\s?(?:[岁月天周时YMDy].{0,6})?|不详|未知|成人")
_NUMBER = re.compile(r"[^。；！？]*[0-9〓〔*].*")
_NOTHING = frozenset(("", "-", "—", "--", "——", "/", "无", "空", "不详", "未知"))
_RULE = frozenset(" \t\r|:-")
"""What the line consists of the headers and the rows of a table in Markdown."""


class Below(NamedTuple):
    """A cell below a header: characters `start` to `end` of the text."""

    header: str
    start: int
    end: int


def line_around(text: str, place: int) -> tuple[int, int]:
    """Where the line that holds a place begins and ends."""
    end = text.find("\n", place)
    return text.rfind("\n", 0, place) + 1, len(text) if end < 0 else end


def headers_of(text: str, start: int, end: int, kind_of: Callable[[str], str | None]) -> list[str] | None:
    """The headers that a line from `start` to `end` holds; None where it holds anything else.

    `kind_of` tells of what persons are known by which kind it is: "name", "number" or another; None for none of these.
    """
    if end - start > MAX_HEADER:
        return None
    headers = []
    for first, last in _cells(text, start, end, _delimiter(text[start:end])):
        header = "".join(text[first:last].split())
        if header not in OTHER_HEADERS and kind_of(header) is None:
            return None
        headers.append(header)
    return headers if len(headers) > 1 else None


def rows_below(
    text: str, start: int, end: int, headers: list[str], kind_of: Callable[[str], str | None]
) -> Iterator[list[Below]]:
    """The cells of the lines below one of headers, line by line, as long as they hold what the headers say."""
    delimiter = _delimiter(text[start:end])
    while end < len(text):
        start, end = line_around(text, end + 1)
        if end - start > MAX_CELL * len(headers):
            return
        line = text[start:end].strip()
        if not line or (delimiter == "|" and _RULE.issuperset(line)):
            continue
        spans = _cells(text, start, end, delimiter)
        if len(spans) != len(headers):
            return
        row = [Below(header, *span) for header, span in zip(headers, spans, strict=True)]
        if not _is_row([(one.header, text[one.start : one.end]) for one in row], kind_of):
            return
        yield row


def _is_row(cells: list[tuple[str, str]], kind_of: Callable[[str], str | None]) -> bool:
    """Whether all that can be checked is what its header says; where nothing can, whether a name is surely one."""
    is_checked = False
    for header, value in cells:
        if len(value) > MAX_CELL:
            return False
        if value in _NOTHING:
            continue
        check = _SEXES.__contains__ if header == "性别" else _AGE.fullmatch if header == "年龄" else None
        if kind_of(header) == "number":
            check = _NUMBER.fullmatch
        if check is not None:
            if not check(value):
                return False
            is_checked = True
    return is_checked or any(kind_of(header) == "name" and is_name(value) for header, value in cells)


def _delimiter(line: str) -> str:
    return next((sign for sign in DELIMITERS if sign in line), "")


def _cells(text: str, start: int, end: int, delimiter: str) -> list[tuple[int, int]]:
    """Where the cells of a line begin and end, without the blanks around them."""
    if not delimiter:
        return [match.span() for match in re.compile(r"\S+").finditer(text, start, end)]
    spans = []
    for piece in text[start:end].split(delimiter):
        held = piece.strip()
        first = start + piece.find(held)
        spans.append((first, first + len(held)))
        start += len(piece) + 1
    if delimiter == "|":  # the signs at both ends of a line of Markdown have no cell outside
        spans = spans[spans[0][0] == spans[0][1] :]
        spans = spans[: len(spans) - (bool(spans) and spans[-1][0] == spans[-1][1])]
    return spans
