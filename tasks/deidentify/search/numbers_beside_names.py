"""Numbers that only the name beside them gives away: beds before it, numbers in brackets behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.deidentify.forms.identifier import Identifier, Span

# matches: "：4", " 9", "加1", "\n+2", "→23", "、S009"
# not: "分8", "3:30", "第3", "1.5", "120", "CT120"
_BED_BEFORE = re.compile(
    r"(?:^|(?<=[\s，,、；;（(✓√→|│])|(?<=(?<![\d.])[：:/]))(?P<bed>[加+＋]?[1-9]\d?|(?!CT|MR|DR)[A-Z]{1,2}\d{2,4})\Z"
)
_BED_REACH = 8
"""Characters before a name that are looked at: a number and two more."""
# matches: "（6628）", "大夫（6628）", "(T3301-2)"
# not: "（2019）", "（12）", "（45岁）", "（1）"
_NUMBER_BEHIND = re.compile(
    r"[\u4e00-\u9fff]{0,4}[（(](?P<number>(?!(?:19|20)\d\d[)）])[A-Z]{0,3}-?\d{3,12}(?:-\d{1,4})?)[)）]"
)
# matches: "6628"
# not: "30114", "T301"
_EXTENSION = re.compile(r"[2-9]\d{3}")
_REASON = "number beside a name"


def numbers_beside(text: str, names: Sequence[Span], treated: frozenset[str]) -> list[Identifier]:
    """Return numbers that are written without a blank before names, and in brackets behind them, in order.

    Args:
        text: any text, in which what was found before is covered.
        names: spans of names, in order.
        treated: types that are looked for. Four digits behind a name are an extension (滕大夫（6628）), others
            number a record or a member of staff; what stands before a name is a bed or a subject (出院：4许珊 9何启明).
    """
    found: list[Identifier] = []
    for start, end in names:
        bed = _BED_BEFORE.search(text[max(0, start - _BED_REACH) : start])
        if bed is not None and "record" in treated:
            found.append(Identifier(start - len(bed["bed"]), start, "record", _REASON))
        behind = _NUMBER_BEHIND.match(text, end)
        if behind is not None:
            kind = "landline" if _EXTENSION.fullmatch(behind["number"]) else "record"
            if kind in treated:
                found.append(Identifier(*behind.span("number"), kind, _REASON))
    return found
