"""Which answer is left where an abbreviation has several readings, how sure it is, and what no answer speaks of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from tasks.normalise.answers import THRESHOLD, Answer
from tasks.normalise.doubts import missed_segments, settled
from tasks.normalise.queries.candidates import Found
from tasks.normalise.queries.rules import QueryRules
from tasks.retrieve.candidates import Candidate
from tasks.retrieve.match import Match

MI = Answer("I21.9", "心肌梗死", 0.9, "MI", None, (Candidate("I21.9", "心肌梗死", 9.0),))
VALVE = Answer("I34.0", "二尖瓣关闭不全", 0.8, "MI", None, (Candidate("I34.0", "二尖瓣关闭不全", 8.0),))
OTHER = Answer("J18.9", "肺炎", 0.7, "MI", None, (Candidate("J18.9", "肺炎", 7.0),))


def sure(answer: Answer, confidence: float) -> Answer:
    return Answer(answer.code, answer.term, confidence, answer.part, answer.match, answer.candidates)


def test_each_reading_is_as_likely_as_any_other_and_as_one_more() -> None:
    two, three = settled(MI, [MI, VALVE], True, 5), settled(VALVE, [MI, VALVE, OTHER], True, 5)
    assert (two.code, two.confidence) == ("I21.9", 0.9 / 3)
    assert (three.code, three.confidence) == ("I21.9", 0.9 / 4)
    assert [one.code for one in three.candidates] == ["I21.9", "I34.0", "J18.9"]


def test_a_reading_in_other_words_counts_from_the_threshold_on() -> None:
    at, below = sure(VALVE, THRESHOLD), sure(VALVE, THRESHOLD - 0.001)
    assert settled(MI, [MI, at], False, 5).confidence == 0.9 / 3
    assert settled(MI, [MI, below], False, 5) == MI


def test_a_segment_with_two_of_many_characters_of_an_answer_is_missed() -> None:
    answer = Answer("I10", "高血压", 0.9, "高血压", Match("高血压", "高血压", "", ("高血压",), ()))
    rules = QueryRules.read()
    for segment, missed in (("血压计摆放魑魅魍魉", True), ("血压甲乙", False)):
        found = cast(Found, SimpleNamespace(queries=(f"高血压,{segment}",), found_parts=()))
        assert missed_segments(found, [answer], rules) == [segment] * missed
