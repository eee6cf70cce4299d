"""Doubts about answers without a ranker: segments that no answer speaks of, and abbreviations of several readings.

    血脂、高血压    血脂 is answered by nothing, so a person gets to see it
    MI              心肌梗死 or 二尖瓣关闭不全: the text does not say which, so no answer is sure

Time grows with the length of a text times its number of answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tasks.normalise.answers import THRESHOLD, Answer
from tasks.normalise.queries.candidates import Found
from tasks.normalise.queries.rules import QueryRules
from tasks.retrieve.candidates import Candidate
from tasks.retrieve.fields import comparable_forms
from tasks.retrieve.icd_categories import same_category

SPOKEN_OF = 1 / 3
"""Share of a segment's characters that the names of the answers must have in common with it."""
_CERTAIN = 0.999
"""Shares are sums of floats: from here on they count as 1."""


def missed_segments(found: Found, answers: Sequence[Answer], rules: QueryRules) -> list[str]:
    """Return the segments of a text that no answer speaks of; none if the text is one segment."""
    segments = rules.segments(found.queries[0]) if found.queries else []
    # The form of a segment that is cut further contains its parts: 肺炎伴肾炎 of 肺炎伴肾炎,胃炎.
    left = [(text, forms) for text, forms in segments if not any(part in text for part in found.found_parts)]
    if len(segments) < 2 or not left:
        return []
    runs = [run for answer in answers if answer.match is not None for run in answer.match.matched]
    written = iter(comparable_forms([form for _, forms in left for form in forms]))
    shares = [max([_shared("".join(next(written)), runs) for _ in forms]) for _, forms in left]
    return [text for (text, _), share in zip(left, shares, strict=True) if share < SPOKEN_OF]


def _shared(form: str, runs: Sequence[str]) -> float:
    """Return the share of characters that stand in a pair of characters that one of the runs has, too."""
    pairs = [any(form[at : at + 2] in run for run in runs) for at in range(len(form) - 1)]
    held = [any(pairs[max(0, at - 1) : at + 1]) for at in range(len(form))]
    return sum(held) / max(1, len(form))


def best(answers: Sequence[Answer]) -> Answer | None:
    """Return the surest answer, or None without answers."""
    return max(answers, key=lambda one: one.confidence, default=None)


def settled(answer: Answer, readings: Sequence[Answer | None], is_short: bool, offered: int) -> Answer:
    """Return an answer, or that of the usual reading below the threshold if the text leaves several categories open.

    Args:
        readings: the best answer to each reading, the usual one first; empty without an ambiguous abbreviation.
        is_short: True if the text is nothing but the abbreviation. Otherwise its other words may decide: of 2型DM,
            only 2型糖尿病 is a name that is found well.
        offered: number of candidates that an answer has.
    """
    if not readings:
        return answer
    found = [one for one in readings if one is not None and (is_short or one.confidence >= THRESHOLD)]
    # 急性心肌梗死 is a name of the list, and 急性二尖瓣关闭不全 is not, so 急性MI is the former.
    exact = found if is_short else [one for one in found if _is_exact(one)]
    likely: list[Answer] = []
    for one in exact or found:
        # Two readings of one category, such as two names of STEMI, are one.
        if not any(same_category(one.code, other.code) for other in likely):
            likely.append(one)
    if (len(likely) == 1 and len(found) > len(likely)) or len(readings) == len(likely) == 1:
        return answer if same_category(answer.code, likely[0].code) else replace(likely[0], part=answer.part)
    if len(likely) < 2:
        return answer
    usual = likely[0]
    # The same candidate may have a score of each query.
    listed = (*(each for one in likely for each in one.candidates[:1]), *answer.candidates, *usual.candidates)
    candidates: dict[tuple[str, str], Candidate] = {}
    for each in listed:
        candidates.setdefault((each.code, each.term), each)
    # Each reading is as likely as any other, and as one that the table lacks.
    confidence = usual.confidence / (1 + len(likely))
    return replace(
        answer,
        code=usual.code,
        term=usual.term,
        confidence=confidence,
        match=usual.match,
        candidates=tuple(candidates.values())[:offered],
    )


def _is_exact(answer: Answer) -> bool:
    return answer.match is not None and min(answer.match.query_share, answer.match.name_share) > _CERTAIN
