"""Time grows with the text, for any text: no step of cleaning, cutting or reading a diagnosis has a quadratic case."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest

from tasks.clean import clean_text
from tasks.files.html_text import page_text
from tasks.normalise.queries.rules import QueryRules
from tasks.normalise.reading import Reader
from tasks.segment import segment_words, split_document
from tests.support.text.hostile_families import OF_TEXT, SHORT
from tests.support.text.linear_time import LINEAR, ratio_of_doubling, repeated, seconds

LENGTH = 3_000
"""Characters at which a quadratic step stands out among the others."""

_rules, _reader = QueryRules.read(), Reader(lambda texts: [False] * len(texts))
WORK: dict[str, Callable[[str], object]] = {
    "clean": clean_text,
    "sentences": lambda text: split_document(text, 128, 32),
    "words": segment_words,
    "pages": page_text,
    "queries": lambda text: _rules.ask([text]),
    "statements": lambda text: _reader.read([text]),
}


OF_DIAGNOSES = ("queries", "statements")
"""Work that reads no more of a text than a long diagnosis has; the single families are enough for it."""


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_twice_the_text_takes_twice_the_time(name: str) -> None:
    work = WORK[name]
    work("患者头痛。" * 50)  # compiles and loads what it needs
    families = SHORT if name in OF_DIAGNOSES else OF_TEXT
    took = {family: seconds(work, repeated(family)(LENGTH)) for family in families}
    usual = statistics.median(took.values())
    # Times of less than some milliseconds say nothing of themselves. A family that is slow has its doubling measured.
    slow = {family for family, one in took.items() if one > max(4 * usual, 0.004)}
    ratios = {family: ratio_of_doubling(work, repeated(family), 2 * LENGTH) for family in slow}
    assert {family: ratio for family, ratio in ratios.items() if ratio > LINEAR} == {}
    assert len(OF_TEXT) > 250
