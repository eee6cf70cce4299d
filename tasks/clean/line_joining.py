"""Joining of lines that were broken at the width of a page, as in scanned books.

A text has such lines if many of its widest lines have about the same width and end without a mark. The break after
such a line is removed if the sentence plainly continues: the line does not end a sentence, and the next does not begin
a heading, a list or a label. Lines that could be verse, tables or lists stay as they are.
"""

from __future__ import annotations

import unicodedata

import regex

MIN_WIDTH, MAX_WIDTH = 28, 240
"""Bounds of the width of a page, in halves of a Chinese character; narrow columns of a textbook have 14 characters."""

WIDER = 50
"""One line in this many may be wider than the page."""

_ENDS_SENTENCE = "。！？!?；;…：:∶.．"
_CLOSERS = "”’」』）)]】》〉\"'"
# matches: "头痛，发热"
# not: "床前明月光"
_PAUSE = regex.compile(r"[，。、；：！？∶,;:!?…（）《》“”]")
# matches: "血糖 5.6"
# not: "血糖， 5.6"
_BLANK_BETWEEN_CELLS = regex.compile(r"(?<=[^\s\p{P}]) (?=\S)")
# matches: "lung cancer", "tumor (T1)"
# not: "血糖 5.6"
_BLANK_BETWEEN_WORDS = regex.compile(r"(?<=[\p{Latin}\p{Greek}]) (?=[\p{Latin}\p{Greek}(])")
# matches: "|", "┼"
# not: "-"
_RULE = regex.compile(r"[|│┃\u2500-\u257f]")
_COUNT = "[一二三四五六七八九十百千零〇]"
# matches: "第三章", "（一）", "二、", "3、", "1.2 ", "①", "A.", "Ⅱ.", "病因：", "●"
# not: "患者头痛", "1.5mg", "二尖瓣"
_BEGINS_ANEW = regex.compile(
    rf"[\p{{M}}\\★☆●○■◆◇▲△▪※•·*\-—–~#<>|│┃\u2500-\u257f【〔〖\[]"
    rf"|第(?:{_COUNT}|\d){{1,6}}[章节篇条卷回部课讲]"
    rf"|[（(〈]{_COUNT}{{1,3}}[)）〉]|{_COUNT}{{1,3}}[、.．)）]"
    r"|[（(]?\d{1,3}[、)）]|\d{1,2}(?:[.．]\d{1,2})*[.．](?!\d)|\d{1,2}(?:\.\d{1,2}){1,3} "
    r"|[\u2460-\u24ff\u2776-\u2793\u3220-\u3229\u3280-\u3289]|[A-Za-z][.、)）]|[\u2160-\u217f][.、 ]"
    r"|\p{Han}{1,6}[：:∶]"
)
"""Beginning of a heading, a list item or a label."""
# matches: "interleukin-6", "β2"
# not: "头痛"
_LATIN_WORD = regex.compile(r"[\p{Latin}\p{Greek}\d\-]{1,20}")
# matches: "inter-"
# not: "IL-", "a-"
_BROKEN_WORD = regex.compile(r"\p{Ll}{2}-\Z")
# matches: "about 20", "CD4", "IL-6", "3.5±0.2", "18~65"
# not: "血糖20"
_WHOLE_NUMBER = regex.compile(
    r"\p{Latin} [\d.,]{1,20}\Z"  # English breaks its lines at blanks
    r"|[\p{Latin}\p{Greek}][\-\u2010-\u2013]?\d{1,20}\Z"  # the end of a name: B1, CD4, IL-6
    r"|\d ?[±~～∼\-\u2010-\u2014\u2212:：∶/／] ?[\d.,]{1,20}\Z"  # of a range, a deviation or a ratio
)
"""A number at the end of a line that is whole: digits on the next line are another number."""

_NO_BLANK_AFTER, _NO_BLANK_BEFORE = "([{<-/", ")]}>.,;:!?%-/"


def join_lines(text: str) -> str:
    """Return the text with the lines of its sentences joined. Only white space and hyphens of broken words change."""
    lines = text.split("\n")
    if len(lines) < 3:
        return text
    is_full = _full_lines(lines)
    if not is_full:
        return text
    pieces = [lines[0]]
    for last, full, line in zip(lines, is_full, lines[1:], strict=False):
        if full and _runs_on(last, line):
            if last[-1] == "-" and _BROKEN_WORD.search(last) and line[0].islower():
                pieces[-1] = pieces[-1][:-1]
            pieces.append(_between(last, line))
        else:
            pieces.append("\n")
        pieces.append(line)
    return "".join(pieces)


def _full_lines(lines: list[str]) -> list[bool]:
    """Return for each line whether it was broken at the width of the page; [] where no such width can be seen."""
    widths = [_width(line) for line in lines]
    page = sorted(widths, reverse=True)[len(lines) // WIDER]
    slack = max(4, page // 10)
    if not MIN_WIDTH <= page <= MAX_WIDTH:
        return []
    is_full = [abs(width - page) <= slack for width in widths]
    for place in range(len(lines) - 1):  # a Latin word that does not fit is moved to the next line whole
        word = None if is_full[place] else _LATIN_WORD.match(lines[place + 1])
        if word and widths[place] < page <= widths[place] + word.end() + slack:
            is_full[place] = True
    running = [line for line, full in zip(lines, is_full, strict=True) if full and not _ends_sentence(line)]
    count = sum(is_full)
    # Verse and list items end in a mark on every line; a page breaks its lines wherever they are full.
    unmarked = sum(unicodedata.category(line[-1])[0] != "P" for line in running)
    is_broken = count >= max(2, len(lines) // 5) and len(running) * 3 >= count and unmarked * 2 >= len(running)
    return is_full if is_broken else []


def _runs_on(last: str, line: str) -> bool:
    return (
        not _ends_sentence(last)
        and not _BEGINS_ANEW.match(line)
        and _is_prose(last, line)
        and not (_is_row(last) and _is_row(line))
    )


def _ends_sentence(line: str) -> bool:
    return (line.rstrip(_CLOSERS) or line)[-1] in _ENDS_SENTENCE


def _is_prose(last: str, line: str) -> bool:
    """Return True if a line holds a pause, unlike verse without marks, or a sentence continues in small letters."""
    return bool(_PAUSE.search(last) or _PAUSE.search(line)) or (last[-1].isalpha() and line[0].islower())


def _is_row(line: str) -> bool:
    """Return True for a line that looks like a row of a table: cells with blanks between them, or rules."""
    if _RULE.search(line):
        return True
    if line.count(" ") < 2:
        return False
    return len(_BLANK_BETWEEN_CELLS.findall(line)) - len(_BLANK_BETWEEN_WORDS.findall(line)) >= 2


def _width(line: str) -> int:
    """Return the width of a line in halves of a Chinese character."""
    return 2 * len(line) - len(line.encode("ascii", "ignore"))


def _between(before: str, after: str) -> str:
    """Return the replacement of a line break: a blank between words, nothing beside Chinese or within a number."""
    last, first = before[-1], after[0]
    if last.isdecimal() and first.isdecimal():  # 血糖12 + 3 is 血糖123, but CD4 + 20 are two numbers
        return " " if _WHOLE_NUMBER.search(before) else ""
    if last in _NO_BLANK_AFTER or first in _NO_BLANK_BEFORE:
        return ""
    return "" if any(unicodedata.east_asian_width(c) in "WF" for c in (last, first)) else " "
