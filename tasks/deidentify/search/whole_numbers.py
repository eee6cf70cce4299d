"""What belongs to the number of a paper that was found, and that no form of a number covers: its beginning and its end.

Offices write who decided, and when, before the number (穗人社工认〔2024〕第30217号), and laboratories write the
block, the aliquot or the year behind it (B24-0331-A3, 1926/2026). Time grows with the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.deidentify.forms.identifier import Identifier
from tasks.deidentify.forms.papers import paper_beginning

NUMBERED = frozenset(("record", "licence", "military", "passport"))
"""Kinds whose numbers have such beginnings and ends."""

_LONGEST = 24
"""Characters behind a number that its end may have."""

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
            one = _whole(text, one, free_from, min(limit, one.end + _LONGEST))
        whole.append(one)
    return whole


def _whole(text: str, one: Identifier, free_from: int, limit: int) -> Identifier:
    beginning = paper_beginning(text, free_from, one.start)
    start = one.start if beginning is None else beginning
    ending = _END.match(text, one.end, limit)
    end = ending.end() if ending else one.end
    if _OF_AN_OFFICE.search(text, start, end) and end < limit and _SIGN.match(text, end):
        end += 1
    return one._replace(start=start, end=end)
