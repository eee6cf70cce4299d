"""Forms as a line of headers with their values in the lines below: 姓名 性别 年龄 住院号, then 王芳 女 46岁 00458213.

A line is one of headers only where every cell of it is known as one; a line below holds their values where it has as
many cells, and what stands under 性别, 年龄 and numbers is what these can be. Between blanks one value may be missing.
Few other lines are passed over, none where commas part the cells, as in prose; more, or other headers, end the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tasks.deidentify.names import is_name

MAX_HEADER = 200
"""Characters of the longest line that is taken for headers."""

MAX_CELL = 60
"""Characters of the longest cell below one."""

MAX_OTHER_LINES = 3
"""Of lines between the rows: remarks, and rows that hold too little to be known."""

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
    """The cells of the lines below one of headers, line by line, that hold what the headers say."""
    delimiter = _delimiter(text[start:end])
    others, most_others = 0, 0 if delimiter in (",", "，") else MAX_OTHER_LINES
    while end < len(text) and others <= most_others:
        start, end = line_around(text, end + 1)
        line = text[start : min(end, start + MAX_CELL * len(headers) + 1)].strip()
        if not line or (delimiter == "|" and _RULE.issuperset(line)):
            continue
        if len(line) > MAX_CELL * len(headers) or headers_of(text, start, end, kind_of):
            return
        cells = _cells(text, start, end, delimiter)
        ways = _ways(headers, cells, may_miss=not delimiter)
        row = next((row for row in ways if _is_row(text, row, kind_of)), None)
        others = others + 1 if row is None else 0
        if row is not None:
            yield row


def _ways(headers: list[str], cells: list[tuple[int, int]], may_miss: bool) -> Iterator[list[Below]]:
    """The headers with their cells; where a value is missing and may be, with each header left out in turn."""
    if len(cells) == len(headers):
        yield [Below(header, *cell) for header, cell in zip(headers, cells, strict=True)]
    elif may_miss and len(cells) == len(headers) - 1 > 1:
        for place in range(len(headers)):
            rest = headers[:place] + headers[place + 1 :]
            yield [Below(header, *cell) for header, cell in zip(rest, cells, strict=True)]


def _is_row(text: str, row: list[Below], kind_of: Callable[[str], str | None]) -> bool:
    """Whether all that can be checked is what its header says; where nothing can, whether a name is surely one."""
    is_checked = False
    for header, start, end in row:
        value = text[start:end]
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
    return is_checked or any(kind_of(one.header) == "name" and is_name(text[one.start : one.end]) for one in row)


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
