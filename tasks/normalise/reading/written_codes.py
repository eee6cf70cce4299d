"""Codes that somebody has already written beside a diagnosis, taken off and kept.

    E11.9 2型糖尿病                →  2型糖尿病, with code E11.9
    高血压(I10)                    →  高血压, with code I10
    E11.9 2型糖尿病 I10 高血压     →  two diagnoses, each with its code
    T12椎体骨折, P53 突变          →  as they are: a vertebra, a gene

A code is one of a category of the list, at the beginning or end of an item, or with a decimal anywhere. Without a
decimal it needs a disease beside it that is no vertebra's, and a blank or bracket before that disease.

Lists whose codes have another grammar than ICD-10's have no such categories, so nothing is taken off there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tasks.normalise.queries.compounds import names_disease
from tasks.normalise.reading.modifiers import Modifier
from tasks.normalise.terms.columns import plain_code

# I10, E11.9, I10.x00x002, H36.0*; not the B12 of VB12, nor the first characters of C3435.
_CODE = r"(?P<code>[a-z]\d{2}(?:\.(?:\d[\dx]{0,7}|x\d{2}[\dx]{0,5}))?[+*†]?)"
_FIRST = re.compile(rf"[\[(]?{_CODE}(?![\w.\-/+*†])(?P<apart>[\])]?[\s:,、\-]*)", re.IGNORECASE | re.ASCII)
_INSIDE = re.compile(rf"(?<![a-z\d.\-]){_CODE}(?P<apart>)(?=[一-龥])", re.IGNORECASE)  # 糖尿病E11.9伴肾病
_LAST = re.compile(rf"(?P<apart>[\s:,、(\[]*)(?<![a-z\d.\-]){_CODE}[\])]?$", re.IGNORECASE)
_ANY = re.compile(rf"(?<![a-z\d.\-])[\[(]?{_CODE}[\])]?(?=\s|$)", re.IGNORECASE)  # both of E11.9 糖尿病 I10 高血压

_CATEGORY = 3
"""Characters of a category: E11."""
# What two digits behind a letter may mean else: 椎体骨折T12, 截瘫 T12, P53 突变
_NO_DISEASE = re.compile("[椎脊髓]|截瘫|突变|基因|阳性")


class WrittenCodes:
    """Takes codes of a list off the items of a text."""

    def __init__(self, codes: Iterable[str] = ()) -> None:
        """Take the codes of the list; without any, nothing is taken off."""
        self._categories = frozenset(category(code) for code in codes)

    def separated(self, text: str) -> str:
        """Separate diagnoses that only their codes separate: 肾结石 N20.0、高血压 I10."""
        found = [match for match in _ANY.finditer(text) if category(match["code"]) in self._categories]
        if len(found) < 2:
            return text
        if found[0].start() == 0:
            cuts = [match.start() for match in found[1:]]
        else:
            cuts = [match.end() for match in found if match.end() < len(text)]
        pieces = [text[start:end].strip() for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        return "、".join(piece for piece in pieces if piece)

    def taken_off(self, item: str) -> tuple[str, tuple[Modifier, ...]]:
        """Return what is left of an item, and its code; nothing is left of an item that is only a code."""
        for match in (_FIRST.match(item), _INSIDE.search(item), _LAST.search(item)):
            if match is None or category(match["code"]) not in self._categories:
                continue
            left = (item[: match.start()] + item[match.end() :]).strip()
            if not left or "." in match["code"] or _is_code(match, left):
                return left, (Modifier("code", match["code"]),)
        return item, ()


def _is_code(match: re.Match[str], left: str) -> bool:
    """Return True for a code without a decimal that can be nothing else: I10 of 高血压I10, but not of I10高血压."""
    stands_apart = bool(match["apart"]) or match.end() == len(match.string)
    return stands_apart and not left.isascii() and names_disease(left) and not _NO_DISEASE.search(left)


def category(code: str) -> str:
    """Return the category of a code: E11 of E11.900x001."""
    return plain_code(code)[:_CATEGORY]
