"""Forms with a line of headers and their values in the lines below: 姓名 性别 年龄 住院号, then 王芳 女 46岁 00458213.

A line is a line of headers only if every cell of it is a known header, or, where marks separate the cells, if a few
of them and half are (姓名,床号,性别,费用编码). A line below holds their values if it has as many cells, and if the
values of 性别, 年龄 and numbers are what these can be; where blanks separate the cells, one value may be missing. A
few other lines may stand between the rows, but none where commas separate the cells, as in prose. More of them, or
other headers, end the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tasks.deidentify.forms.names import is_name

MAX_HEADER = 200
"""Characters of the longest line that may be headers."""

MAX_CELL = 60
"""Characters of the longest cell below a header."""

MAX_OTHER_LINES = 3
"""Lines between two rows that may be something else: remarks, and rows with too little to be recognised."""

LEAST_KNOWN = 3
"""Known headers of a line between commas that holds other words too; one fewer between tabs and bars."""

# matches: "费用编码", "", "Remark", "医保类型(2026)"
# not: "患者自述腹痛。", "00458213", "130元"
_UNKNOWN = re.compile(r"[^\d。；;！!？?：:][^。；;！!？?：:]{0,15}|")
"""A header that nobody knows."""

DELIMITERS = "\t|,，"
"""Signs that separate cells: the first of these that the line of headers holds, otherwise blanks."""

_OTHERS = (
    "性别 年龄 民族 职业 婚姻 婚否 婚姻状况 血型 身高 体重 文化程度 国籍 费别 序号 编号 科室 科别 病区 病室 病房 "
    "病床 床位 入院科室 出院科室 送检科室 申请科室 日期 时间 就诊日期 就诊时间 入院日期 入院时间 出院日期 出院时间 "
    "检查日期 检查时间 检验日期 送检日期 采样时间 报告日期 报告时间 手术日期 出生日期 出生年月 诊断 入院诊断 "
    "出院诊断 临床诊断 门诊诊断 初步诊断 检查项目 检查部位 检验项目 标本 标本类型 手机 手机号 手机号码 联系电话 "
    "家庭电话 电话号码 身份证号 身份证号码 证件号码 银行卡号 主管医生 主管医师 经治医生 经治医师 送检医生 送检医师 "
    "申请医生 申请医师 检查医生 检查医师 报告医生 报告医师 审核医生 审核医师 主治医生 接诊医生 接诊医师 手术医生 "
    "手术医师 手术 手术名称 术式 麻醉方式 结果 结论 审核 复核 备注 "
    "sex gender age ward dept department diagnosis dx result date remark Sex Gender Age Ward Department Diagnosis Date"
)
OTHER_HEADERS = frozenset(_OTHERS.split())
"""Headers that are not about a person, and those that hold a cue as one of several words (主管医生)."""

_SEXES = frozenset(("男", "女", "男性", "女性", "不详", "未知", "M", "F"))
# matches: "46岁", "3.5岁", "3月", "46", "不详"
# not: "46mg", "女"
_AGE = re.compile(r"\d{1,3}(?:\.\d)?\s?(?:[岁月天周时YMDy].{0,6})?|不详|未知|成人")
# matches: "00458213", "ZY0045", "〔编号〕"
# not: "高血压", "好。3"
_NUMBER = re.compile(r"[^。；！？]*[0-9〓〔*].*")
"""A cell that may hold a number; it may be replaced already."""
_NOTHING = frozenset(("", "-", "—", "--", "——", "/", "无", "空", "不详", "未知"))
"""Cells without a value."""
_RULE = frozenset(" \t\r|:-")
"""Characters of the line between the headers and the rows of a table in Markdown."""
# matches: "王芳", "46岁"
# not: " "
_WORD = re.compile(r"\S+")


class Below(NamedTuple):
    """A cell below a header: characters `start` to `end` of the text."""

    header: str
    start: int
    end: int


def line_around(text: str, place: int) -> tuple[int, int]:
    """Return the start and end of the line that holds a place."""
    end = text.find("\n", place)
    return text.rfind("\n", 0, place) + 1, len(text) if end < 0 else end


def headers_of(text: str, start: int, end: int, kind_of: Callable[[str], str | None]) -> list[str] | None:
    """Return the headers in a line from `start` to `end`; None where it holds anything else.

    `kind_of` returns the kind of a header that is about a person ("name", "number", "place"), None for other words.
    """
    if end - start > MAX_HEADER:
        return None
    headers, known = [], 0
    delimiter = _delimiter(text[start:end])
    for first, last in _cells(text, start, end, delimiter):
        header = "".join(text[first:last].split())
        is_known = header in OTHER_HEADERS or kind_of(header) is not None
        if not is_known and (not delimiter or not _UNKNOWN.fullmatch(header)):
            return None
        headers.append(header)
        known += is_known
    is_all = known == len(headers) > 1
    least = LEAST_KNOWN - (delimiter in ("\t", "|"))  # commas separate the words of prose, too
    return headers if is_all or (known >= least and 2 * known >= len(headers)) else None


def rows_below(
    text: str, start: int, end: int, headers: list[str], kind_of: Callable[[str], str | None]
) -> Iterator[list[Below]]:
    """Yield the cells of the rows below a line of headers, row by row."""
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
    """Yield the headers with their cells; where one value is missing and may be, with each header left out in turn."""
    if len(cells) == len(headers):
        yield [Below(header, *cell) for header, cell in zip(headers, cells, strict=True)]
    elif may_miss and len(cells) == len(headers) - 1 > 1:
        for place in range(len(headers)):
            rest = headers[:place] + headers[place + 1 :]
            yield [Below(header, *cell) for header, cell in zip(rest, cells, strict=True)]


def _is_row(text: str, row: list[Below], kind_of: Callable[[str], str | None]) -> bool:
    """Return True if every value that can be checked fits its header; if none can be, if one is surely a name."""
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
    """Return the start and end of each cell of a line, without the blanks around it."""
    if not delimiter:
        return [match.span() for match in _WORD.finditer(text, start, end)]
    spans = []
    for piece in text[start:end].split(delimiter):
        held = piece.strip()
        first = start + piece.find(held)
        spans.append((first, first + len(held)))
        start += len(piece) + 1
    if delimiter == "|":  # | 王芳 | 女 |: outside of the first and last sign there is no cell
        spans = spans[spans[0][0] == spans[0][1] :]
        spans = spans[: len(spans) - (bool(spans) and spans[-1][0] == spans[-1][1])]
    return spans
