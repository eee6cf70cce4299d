"""Time of de-identification grows with the text, for any text: identifiers and cues repeated without end."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tasks.deidentify.forms.identifier import Identifier
from tasks.deidentify.kinds import KINDS
from tasks.deidentify.plan import Plan
from tasks.deidentify.search.find import Finder
from tests.support.text.hostile_families import OF_IDENTIFIERS
from tests.support.text.linear_time import LINEAR, ratio_of_doubling, repeated
from tests.support.text.rules_alone import RULES_ALONE, deidentify

PLANS = (RULES_ALONE, Plan(frozenset(KINDS), recogniser=False))
MOST_ROUNDS = 5
"""Searches of a text, the last of which finds nothing. Replacing an identifier may reveal one beside it."""


def test_a_few_rounds_find_all_of_a_repeated_text(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0
    find = Finder.find

    def counted(finder: Finder, text: str, *names: Collection[str]) -> list[Identifier]:
        nonlocal rounds
        rounds += 1
        return find(finder, text, *names)

    monkeypatch.setattr(Finder, "find", counted)
    slow = {}
    for plan, step in zip(PLANS, (2, 5), strict=True):
        for family in OF_IDENTIFIERS[::step]:
            rounds = 0
            deidentify(family * 30, plan)
            if rounds > MOST_ROUNDS:
                slow[family] = rounds
    assert not slow, "each round finds only one of them, which takes quadratic time"
    assert len(OF_IDENTIFIERS) > 172


@pytest.mark.parametrize("cue", ["孙子", "病理科", "患者", "医生", "住院号"])
@pytest.mark.parametrize("plan", PLANS, ids=["minimal", "all"])
def test_a_cue_alone_again_and_again_takes_twice_the_time_for_twice_the_text(cue: str, plan: Plan) -> None:
    assert ratio_of_doubling(lambda text: deidentify(text, plan), repeated(cue), 3_000) < LINEAR


def test_twice_the_text_takes_twice_the_time() -> None:
    """The sum over families, some of which were quadratic: 16 kB of QQ123456 took 8 s, all others together 2 s."""
    for plan, step in zip(PLANS, (11, 23), strict=True):

        def texts_of(length: int, step: int = step) -> list[str]:
            return [repeated(family)(length) for family in OF_IDENTIFIERS[::step]]

        def treat(texts: list[str], plan: Plan = plan) -> None:
            for text in texts:
                deidentify(text, plan)

        assert ratio_of_doubling(treat, texts_of, 2_000) < LINEAR


def test_a_cue_directly_behind_an_identifier_is_read() -> None:
    assert deidentify("QQ123456QQ654321") == ("QQ〔QQ号〕QQ〔QQ号〕", {"qq": 2})
    assert deidentify("床号123456床号7654321") == ("床号〔编号〕床号〔编号〕", {"record": 2})
    # a word of other letters or digits still hides a cue
    assert deidentify("rsID 123456") == ("rsID 123456", {})
