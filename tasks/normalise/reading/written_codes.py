"""Codes that somebody has already written beside a diagnosis, taken off and kept.

    E11.9 2型糖尿病   →  2型糖尿病, with code E11.9
    高血压(I10)       →  高血压, with code I10
    T12椎体骨折       →  as it is: a vertebra

A code is one of a category of the list, at the beginning or end of an item. Attached to the text without a blank or
bracket it needs a decimal, or stands at the end behind the name of a disease: 高血压I10, E11.9糖尿病. Lists whose codes
have another grammar than ICD-10's have no such categories, so nothing is taken off there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tasks.normalise.compounds import names_disease
from tasks.normalise.reading.modifiers import Modifier
from tasks.normalise.term_columns import plain_code

# I10, E11.9, I10.x00x002, H36.0*; not the B12 of VB12, nor the first characters of C3435.
_CODE = r"(?P<code>[a-z]\d{2}(?:\.(?:\d[\dx]{0,7}|x\d{2}[\dx]{0,5}))?[+*†]?)"
_FIRST = re.compile(rf"[\[(]?{_CODE}(?![\w.\-/+*†])(?P<apart>[\])]?[\s:,、\-]*)", re.IGNORECASE | re.ASCII)
_ATTACHED = re.compile(rf"{_CODE}(?P<apart>)(?=[一-龥])", re.IGNORECASE)  # E11.9糖尿病
_LAST = re.compile(rf"(?P<apart>[\s:,、(\[]*)(?<![a-z\d.\-]){_CODE}[\])]?$", re.IGNORECASE)

_CATEGORY = 3
"""Characters of a category: E11."""
_VERTEBRA = re.compile("t1[0-2]$", re.IGNORECASE)  # 椎体骨折T12


class WrittenCodes:
    """Takes codes of a list off the items of a text."""

    def __init__(self, codes: Iterable[str] = ()) -> None:
        """Take the codes of the list; without any, nothing is taken off."""
        self._categories = frozenset(category(code) for code in codes)

    def taken_off(self, item: str) -> tuple[str, tuple[Modifier, ...]]:
        """Return what is left of an item, and its code; nothing is left of an item that is only a code."""
        for pattern in (_FIRST, _ATTACHED, _LAST):
            match = pattern.match(item) if pattern is not _LAST else pattern.search(item)
            if match is None or category(match["code"]) not in self._categories:
                continue
            left = item[: match.start()] + item[match.end() :]
            if match["apart"] or not left or self._is_code(match["code"], item, left):
                return left.strip(), (Modifier("code", match["code"]),)
        return item, ()

    def _is_code(self, code: str, item: str, left: str) -> bool:
        """Return True for a code without blank or bracket beside it, if it can be nothing else."""
        is_last = item.endswith(code) and names_disease(left) and not _VERTEBRA.match(code)
        return "." in code or is_last


def category(code: str) -> str:
    """Return the category of a code: E11 of E11.900x001."""
    return plain_code(code)[:_CATEGORY]
