"""Codes that a text itself contains, beside those of its answers.

    E11.9 2型糖尿病    finer, if the list has only E11 for it
    E10 2型糖尿病      other

Somebody chose such a code, so it is kept as written, whatever the list has.
"""

from __future__ import annotations

from collections.abc import Iterator

from tasks.normalise.answers import Normalised
from tasks.normalise.reading import Modifier
from tasks.normalise.terms.columns import significant_code
from tasks.retrieve.icd_categories import same_category

SAME, FINER, COARSER, CATEGORY, OTHER = "same", "finer", "coarser", "category", "other"
"""What a written code is beside the answers: one of them, a code below or above one of them, another one of the same
category, or none of these."""


def written_codes(one: Normalised) -> list[tuple[str, str]]:
    """Return the codes that a text contains, in its order, each with what it is beside the answers.

    Without a sure answer, it is compared with the unsure ones, and with none at all it is nothing ("").
    """
    answers = [answer.code for answer in one.answers or one.unsure]
    return [(each.text, _relation(each.text, answers)) for each in _modifiers(one) if each.kind == "code"]


def _modifiers(one: Normalised) -> Iterator[Modifier]:
    yield from one.modifiers
    for part in one.refused:
        yield from part.modifiers


def _relation(written: str, answers: list[str]) -> str:
    if not answers:
        return ""
    own = significant_code(written)
    others = [significant_code(code) for code in answers]
    if own in others:
        return SAME
    if any(other and own.startswith(other) for other in others):
        return FINER
    if any(other.startswith(own) for other in others):
        return COARSER
    return CATEGORY if any(same_category(own, other) for other in others) else OTHER
