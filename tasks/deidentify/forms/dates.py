"""Calendar dates in Chinese text: the forms in which notes write them, and the same form with another date.

A form has a year, a month and a day, or only two of these: 2023年4月11日, 2023/8/30, 2018-11, 3月12日, 07-15. A year
alone is no date, since no regulation asks for it. Every pattern is bounded.
"""

from __future__ import annotations

import datetime
import re
from typing import NamedTuple

from tasks.deidentify.forms.cues import NO_MEASURE
from tasks.deidentify.forms.identifier import Span
from tasks.deidentify.forms.numbers import is_date

_YEAR = r"(?:19|20)\d\d"
_MONTH = r"(?:1[0-2]|0?[1-9])"
_DAY = r"(?:3[01]|[12]\d|0?[1-9])"
_HOUR = r"(?:[T ]?\d{1,2}:\d\d(?::\d\d)?|\d{1,2}时(?:\d{1,2}分)?)?"
_ALONE = r"(?<![0-9A-Za-z.\-/×~～])(?<![0-9]:)"
"""Refuses digits inside a longer number, a version, a range or a ratio: XSE-20230417, 1.2019.3.4."""
_EVENT = "入院|出院|入科|出科|转入|转出"
_FEASTS = "国庆|春节|中秋|端午|元旦|五一|十一|清明|元宵|除夕|重阳"

_BORN_BEHIND = "生(?![产命长化理物活成态])|出生(?!日期|年月|时间|地)"

FULL_DATE = (
    rf"(?:{_YEAR}\s?年\s?{_MONTH}\s?月\s?{_DAY}\s?[日号]?|{_YEAR}(?P<mark>[-/.]){_MONTH}(?P=mark){_DAY}(?!\d|\.\d)"
    rf"|{_MONTH}/{_DAY}/{_YEAR}(?!\d))"
)
"""Pattern of a day of a year: 2023年4月11日, 2023-04-11, 2023/8/30, 2023.9.1, 12/05/1961."""

BIRTH_DATE = (
    rf"{_ALONE}(?:{FULL_DATE}|{_YEAR}年{_MONTH}月){_HOUR}"
    rf"(?=[^\S\r\n]?(?:{_BORN_BEHIND}))"
)
"""Pattern of a date that a word behind it, on the same line, calls a birth: 1949.10.1生. `birth_fits` refuses some."""

_SPELLED_DAY = (
    "(?:[正冬腊]|[一二三四五六七八九十]{1,2})月"
    "(?:初[一二三四五六七八九十]|[一二三四五六七八九十]{1,3}[日号]|[二三]?十[一二三四五六七八九]?|廿[一二三四五六七八九]?)?"
)
"""Pattern of a month and a day in words, of either calendar: 三月八日, 腊月初三, 冬月廿八."""

ANY_DATE = (
    rf"{_ALONE}(?:{FULL_DATE}{_HOUR}|{_YEAR}\s?年\s?{_MONTH}\s?月(?:[上中下]旬|初|底)?"
    rf"|{_YEAR}年(?:(?:{_FEASTS})节?|(?:农历)?{_SPELLED_DAY})"
    rf"|{_YEAR}[-/](?:0[1-9]|1[0-2]|[1-9])(?![\d./\-年月个例次]){NO_MEASURE}"
    rf"|{_MONTH}\s?月\s?{_DAY}\s?[日号](?:[上下]午)?{_HOUR}|{_MONTH}月{_DAY}(?=[\s，,。；;）)、刚又还再去到来做打就我]|$)"
    rf"|{_MONTH}[-/](?:3[01]|[12]\d|0[1-9])(?=\s{{0,2}}(?:\d{{1,2}}:\d\d|{_EVENT}|手术|复查|复诊))"
    rf"|(?:{_MONTH}/{_DAY}|[0-3]\d(?P<short_mark>[-/.]){_MONTH}(?P=short_mark){_DAY})(?=\s{{0,2}}(?:{_EVENT}))"
    rf"|(?<![^\n]){_MONTH}-(?:3[01]|[12]\d|0[1-9])(?=\s{{1,3}}(?![岁个月周天例次片粒支\d])[^\sA-Za-z])"
    rf"|{_YEAR}\d{{4}}(?=[,，|\t]|(?:{_EVENT})))"
)
"""Pattern of dates, of which `date_fits` refuses some."""

RELATIVE_MONTH = rf"(?<=[去今前明本同]年){_MONTH}月(?!\d)(?:[上中下]旬|初|底|份)?"
"""Pattern of a month behind a word for its year: 去年5月."""

VALUE = (
    rf"(?P<value>{FULL_DATE}{_HOUR}|{_YEAR}年{_MONTH}月|{_YEAR}[-/.]{_MONTH}(?!\d)|{_YEAR}\d{{4}}(?!\d)"
    rf"|\d\d(?P<short>[-/.]){_MONTH}(?P=short){_DAY}(?![\d.])|{_MONTH}月{_DAY}[日号]?{_HOUR}"
    "|[一二三四五六七八九十]{1,2}月[一二三四五六七八九十廿]{1,3}[日号]?)"
)
"""Pattern of what stands behind 日期 or 出生日期, where fewer signs are needed: 23.6.9, 19670523, 三月十一."""

_ENGLISH_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_NUMERAL = "[〇○零一二三四五六七八九]"
# matches: "二〇二三年三月八日", "一九九〇年十二月", "一九五七年腊月初三"
# not: "二〇二三年", "一九"
_SPELLED = re.compile(rf"{_NUMERAL}{{4}}年(?:农历)?{_SPELLED_DAY}")
# matches: "三月十一日", "十二月二日"
# not: "三月份", "三月", "三月十一日龄", "五月五日采"
_SPELLED_ALONE = re.compile("[一二三四五六七八九十]{1,2}月[一二三四五六七八九十廿]{1,3}[日号](?![龄采收取造作午]|阴干)")
# matches: "May 12, 1990", "Dec. 3 2021"
# not: "May 12", "Maybe"
_ENGLISH = re.compile(rf"{_ENGLISH_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? {_YEAR}(?!\d)")
# matches: "12 ", "3-", "12th ", "12/"
# not: "112 ", "2.12 "
_DAY_BEFORE = re.compile(r"(?<![0-9A-Za-z.])(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?[ /\-]$")
# matches: "Mar 2024", "April 2024", "Mar-2024", "Mar/2024", "Sept. 2024"
# not: "Mar", "March 15, 2024", "May 20249"
_MONTH_AND_YEAR = re.compile(rf"{_ENGLISH_MONTH}[ ,/\-]{{1,2}}{_YEAR}(?!\d)")
# matches: "43年5月3日", "四十三年五月三日", "二十年"
# not: "时期", "年间"
_MINGUO = re.compile(
    r"(?:\d{1,3}|[元一二三四五六七八九十百]{1,4})年"
    r"(?P<month>(?:\d{1,2}|[一二三四五六七八九十]{1,2})月(?:(?:\d{1,2}|[一二三四五六七八九十廿]{1,3})[日号]?)?)?"
)
# matches: "生", "出生", "生人"
# not: "生产", "出生地"
_BORN = re.compile(_BORN_BEHIND)
# matches: "2023年4月11日", "2023-04-11", "12/05/1961", "3月12日", "07-15", "20230918", "23.6.9"
# not: "2019年国庆", "二〇二三年三月八日"
_PARTS = re.compile(
    r"(?P<year>(?:19|20)\d\d)(?:\s?[年\-/.]\s?)?(?P<month>\d{1,2})(?:\s?[月\-/.]\s?(?P<day>\d{1,2})|(?P<packed>\d\d)(?!\d))?"
    r"|(?P<month_us>\d{1,2})/(?P<day_us>\d{1,2})/(?P<year_us>(?:19|20)\d\d)"
    r"|(?P<year_short>\d\d)[-/.](?P<month_short>\d{1,2})[-/.](?P<day_short>\d{1,2})"
    r"|(?P<month_only>\d{1,2})\s?[月\-/]\s?(?P<day_only>\d{1,2})"
)

# matches: "5月", "12月上旬"
# not: "3月2日"
_MONTH_ALONE = re.compile(r"\d{1,2}月(?!\d)")
# matches: "入院", "出院"
# not: "手术"
_EVENT_BEHIND = re.compile(_EVENT)
# matches: "入院日期 ", "记录时间："
# not: "于", "产妇 "
_OTHER_FIELD = re.compile(r"(?:日期|时间)[\s：:]{0,3}$")


class CalendarDate(NamedTuple):
    """A date as a text writes it: its numbers, and where each of them is written."""

    year: int | None
    month: int
    day: int | None
    places: dict[str, Span]
    """Start and end in the text of `year`, `month` and `day`, as far as they are written."""


def date_fits(text: str, match: re.Match[str]) -> bool:
    """Refuse days that no calendar has, and packed digits that are neither a cell of a table nor before an event.

    20230918 counts between commas and in 20230918出院.
    """
    written = match[0]
    if written.isdigit():
        is_cell = text[match.start() - 1 : match.start()] in tuple(",，|\t")
        return is_date(written) and (is_cell or _EVENT_BEHIND.match(text, match.end()) is not None)
    read = read_date(written)
    return read is None or _exists(read)


def birth_fits(text: str, match: re.Match[str]) -> bool:
    """Refuse the date of another field with a blank behind it: 入院日期 2024.3.15 出生于1932年."""
    has_blank = text[match.end() : match.end() + 1].isspace()
    return not (has_blank and _OTHER_FIELD.search(text, max(0, match.start() - 5), match.start()))


def spelled_date(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A date in Chinese numerals, which begins with the cue: 二〇二三年三月八日."""
    match = _SPELLED.match(text, start)
    return [match.span()] if match else []


def spelled_day(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A day of a month in Chinese numerals, which begins with the cue, and no day of the old calendar on which herbs
    are gathered: 三月十一日, not 五月五日采.
    """
    match = _SPELLED_ALONE.match(text, start)
    begins_a_number = start == 0 or text[start - 1] not in "〇○零一二三四五六七八九十年第"
    return [match.span()] if match and begins_a_number else []


def english_date(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A date with the name of a month, before or behind its day: May 12, 1990; 12 May 1990; 12-May-2024."""
    match = _ENGLISH.match(text, start)
    begins_a_word = start == 0 or not (text[start - 1].isascii() and text[start - 1].isalnum())
    if match and begins_a_word:
        return [match.span()]
    day, rest = _DAY_BEFORE.search(text, max(free_from, start - 6), start), _MONTH_AND_YEAR.match(text, start)
    return [(day.start(), rest.end())] if day and rest else []


def minguo_date(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A date of the years since 1912, which begins with the cue, with a month at least: 民国43年5月3日."""
    match = _MINGUO.match(text, end)
    return [(start, match.end())] if match and match["month"] else []


def minguo_birth(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The same before 生 or 出生, where the year is enough: 民国二十年生."""
    match = _MINGUO.match(text, end)
    return [(start, match.end())] if match and _BORN.match(text, match.end()) else []


def read_date(written: str) -> CalendarDate | None:
    """Return the numbers of a date in digits; None for other forms (二〇二三年三月八日, 2019年国庆)."""
    match = _PARTS.match(written)
    if match is None:
        return None
    places: dict[str, Span] = {}
    for group, span in ((name, match.span(name)) for name in match.groupdict() if match[name] is not None):
        part = "day" if group == "packed" else group.partition("_")[0]
        places[part] = span
    numbers = {part: int(written[slice(*span)]) for part, span in places.items()}
    year = numbers.get("year")
    if year is not None and year < 100:
        year += 2000
    return CalendarDate(year, numbers["month"], numbers.get("day"), places)


def _exists(date: CalendarDate) -> bool:
    try:
        datetime.date(date.year or 2024, date.month, date.day or 1)
    except ValueError:
        return False
    return True


def shifted(written: str, days: int) -> str | None:
    """Return the date so many days later, in the same form; None for a form that cannot be read.

    A month without a day moves as its 15th does. A day without a year moves within a year of 365 days.
    """
    read = read_date(written)
    if read is None or not _exists(read):
        return None
    moved = datetime.date(read.year or 2023, read.month, _day(read)) + datetime.timedelta(days=days)
    return _rewritten(written, read, {"year": moved.year, "month": moved.month, "day": moved.day})


def _day(read: CalendarDate) -> int:
    if read.day is None:
        return 15
    return min(read.day, 28) if read.year is None and read.month == 2 else read.day


def cut_to_month(written: str) -> str | None:
    """Return a date without its day, 2023年4月 or 4月; None where the month is not written in digits."""
    read = read_date(written)
    if read is None:
        alone = _MONTH_ALONE.match(written)
        return alone[0] if alone else None
    return f"{read.year}年{read.month}月" if read.year else f"{read.month}月"


def cut_to_year(written: str) -> str | None:
    """Return the year of a date, 2023年; None where it is not written in digits."""
    read = read_date(written)
    return f"{read.year}年" if read and read.year else None


def _rewritten(written: str, read: CalendarDate, numbers: dict[str, int]) -> str:
    """Put other numbers into a date, with zeros before single digits where the date has, or would have, them."""
    small = [written[slice(*span)] for part, span in read.places.items() if part != "year"]
    # 2023-04-11 has zeros and 2023/4/11 none; of 2023-10-11, 2023/10/11 and 10月11日 the marks decide
    has_zeros = any(number[0] == "0" for number in small)
    usual = "-" in written or written.isdigit() or read.places.get("year", (0, 0))[0] > 0  # 12/20/1961
    padded = has_zeros or (usual and all(len(number) == 2 for number in small))
    pieces, end = [], 0
    for part, (start, stop) in sorted(read.places.items(), key=lambda item: item[1]):
        if part == "year":
            number = str(numbers[part])[-(stop - start) :]
        else:
            number = f"{numbers[part]:02d}" if padded else str(numbers[part])
        pieces += [written[end:start], number]
        end = stop
    return "".join([*pieces, written[end:]])
