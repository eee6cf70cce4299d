"""A glance never skips a text that holds a phrase, or a number or an address of a person."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.clean.profile import PROFILES
from tasks.clean.rules import clean_all, clean_text
from tasks.deidentify.search.suspicions import NET, NUMBERS, ODD_FORMS, all_suspicions, suspicions_of
from tasks.text.phrase_glance import PhraseGlance

PHRASES = st.lists(st.text("版权病ab", min_size=1, max_size=4), min_size=1, max_size=5)
TEXTS = st.lists(st.text("版权病人ab\n", max_size=12), max_size=6)


@settings(max_examples=300, deadline=None)
@given(phrases=PHRASES, texts=TEXTS)
@example(["病"], ["", "\ud800病", "人"])
def test_no_phrase_is_skipped(phrases: list[str], texts: list[str]) -> None:
    glance = PhraseGlance(phrases)
    found = glance.may_hold(texts).tolist()
    for text, may_hold in zip(texts, found, strict=True):
        begins = {at for at in range(len(text)) if any(text.startswith(phrase, at) for phrase in phrases)}
        places = glance.places(text)
        assert begins <= set(places)
        assert places == sorted(set(places))
        assert may_hold == bool(places)


def test_most_texts_are_skipped() -> None:
    glance = PhraseGlance(["版权所有", "转载"])
    assert glance.may_hold(["患者版图", "版权法", "版权", "所有", "转", "载", ""]).tolist() == [False] * 7


NUMBERS_OF_PERSONS = re.compile(r"\d{7}|\d{3}[ )）–—-]{1,3}\d{3}|\*{4}\d{2}", re.ASCII)
NETS = re.compile(r"@[A-Za-z0-9]|https?://|[wW][wW][wW]\.")


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from([*"0123456789*-) @:/wW.病７", "138", "://", "www.", "****"]), max_size=16).map("".join))
@example("体温36.5，血压120/80")
@example("\ud800")
def test_text_that_a_pattern_could_match_is_suspected(text: str) -> None:
    suspicions = suspicions_of(text)
    if NUMBERS_OF_PERSONS.search(text):
        assert suspicions & NUMBERS
    if NETS.search(text):
        assert suspicions & NET
    assert all_suspicions(["", text]).tolist() == [0, suspicions]
    assert bool(suspicions & ODD_FORMS) == any(character in "７\ud800" for character in text)


BITS = [
    "糖尿病",
    "病人",
    " ",
    "\n",
    "\u3000",
    "\u200b",
    "<p>",
    "&amp;",
    "<b",
    "版权所有",
    "版\u200b权所有",
    "<目录>",
    "</P >",
    "转载请注明出处",
    "更多",
    "★",
    "e\u0301",
    "a@b.cn",
]
DOCUMENTS = st.lists(st.lists(st.sampled_from(BITS), max_size=8).map("".join), max_size=6)


@settings(max_examples=200, deadline=None)
@given(texts=DOCUMENTS, profile=st.sampled_from(["ehealth", "smedbert"]), updates=st.booleans())
def test_batch_is_cleaned_like_each_text_alone(texts: list[str], profile: str, updates: bool) -> None:
    rules = PROFILES[profile].model_copy(
        update={"collapse_repeats": updates, "join_lines": updates, "boilerplate": ("病人",) if updates else ()}
    )
    cleaned = clean_all(texts, [rules] * len(texts))
    assert [text for text, _ in cleaned] == [clean_text(text, rules) for text in texts]
    assert all(text != raw for (text, removed), raw in zip(cleaned, texts, strict=True) if removed.total())
