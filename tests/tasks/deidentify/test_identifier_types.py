"""The table of identifier types: every example is found whole, every counter-example stays."""

from __future__ import annotations

import re

import pytest

from tasks.deidentify import deidentify
from tasks.deidentify.find import find_identifiers
from tasks.deidentify.identifier import Cues, Number, Way
from tasks.deidentify.kinds import KINDS, PLACEHOLDERS
from tests.support.text.labelled_identifiers import read_marked

WAYS = [(each.name, way) for each in KINDS.values() for way in each.ways]
FOUND = [(name, way, marked) for name, way in WAYS for marked in way.found]
KEPT = [(name, text) for name, way in WAYS for text in way.kept]


def test_every_way_has_examples_and_counter_examples() -> None:
    assert [name for name, way in WAYS if not way.found or not way.kept] == []


def test_names_placeholders_and_cues_are_unique() -> None:
    assert len(PLACEHOLDERS) == len(set(PLACEHOLDERS.values())) == len(KINDS)
    cues = [spelling for _, way in WAYS if isinstance(way, Cues) for spelling in way.spellings()]
    assert len(set(cues)) == len(cues)


@pytest.mark.parametrize(("name", "way", "marked"), FOUND, ids=[f"{name}-{marked}" for name, _, marked in FOUND])
def test_example_is_found_whole_and_replaced(name: str, way: Way, marked: str) -> None:
    text, spans = read_marked(marked.replace("{", f"{{{name}:"))
    assert spans
    assert {(one.start, one.end, one.type) for one in find_identifiers(text)} == spans
    treated, counts = deidentify(text)
    assert treated == re.sub(r"\{[^{}]*\}", PLACEHOLDERS[name], marked)
    assert counts == {name: len(spans)}


@pytest.mark.parametrize(("name", "way", "marked"), FOUND, ids=[f"{name}-{marked}" for name, _, marked in FOUND])
def test_example_belongs_to_its_way(name: str, way: Way, marked: str) -> None:
    text, spans = read_marked(marked.replace("{", f"{{{name}:"))
    if isinstance(way, Number):
        assert {match.span() for match in way.pattern.finditer(text)} == {(start, end) for start, end, _ in spans}
    elif isinstance(way, Cues):
        assert any(re.search(way.pattern_of(spelling), text) for spelling in way.spellings())


@pytest.mark.parametrize(("name", "text"), KEPT)
def test_counter_example_stays(name: str, text: str) -> None:
    assert deidentify(text) == (text, {})
