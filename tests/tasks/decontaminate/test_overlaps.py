"""N-grams and overlaps: exactly those that plain Python finds, and cuts that leave none behind."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.decontaminate import ngrams
from tasks.decontaminate.ngrams import NgramIndex
from tasks.decontaminate.overlaps import find_overlaps, without_passages
from tasks.decontaminate.plain_form import plain_forms
from tests.support.text.plain_runs import plain, runs

alphabet = st.sampled_from("甲乙丙丁Aa１1①½Ⅲé가ﾀﾞΣς，。 \n\u0301")
texts_drawn = st.lists(st.text(alphabet, max_size=30), min_size=1, max_size=6)


@settings(max_examples=300, deadline=None)
@given(texts_drawn, texts_drawn, st.integers(2, 6), st.integers(1, 3))
def test_shared_runs_are_found_and_no_others(sets: list[str], corpus: list[str], size: int, max_texts: int) -> None:
    held = [form for form in dict.fromkeys(map(plain, sets)) if len(form) >= size]
    forms = plain_forms(held)
    index = NgramIndex.build(forms.points, forms.starts, size, max_texts)
    looked = plain_forms(corpus)
    found = index.find(looked.points, looked.starts)
    holders = {run: [i for i, form in enumerate(held) if run in form] for form in held for run in runs(form, size)}
    expected = []
    for start, text in zip(looked.starts.tolist(), corpus, strict=False):
        form = plain(text)
        for place in range(len(form) - size + 1):
            texts = holders.get(form[place : place + size], [])
            expected += [(start + place, text) for text in texts if len(texts) <= max_texts]
    assert list(zip(found.places.tolist(), found.texts.tolist(), strict=True)) == expected


@settings(max_examples=200, deadline=None)
@given(texts_drawn)
def test_forms_equal_those_of_plain_python_and_nfkc(texts: list[str]) -> None:
    forms = plain_forms(texts)
    borders = forms.starts.tolist()
    whole = "".join(texts)
    for start, end, text in zip(borders, borders[1:], texts, strict=False):
        assert "".join(map(chr, forms.points[start:end])) == plain(text)
    for point, origin in zip(forms.points.tolist(), forms.origins.tolist(), strict=True):
        assert chr(point) in plain(whole[origin])
    composed = plain_forms([unicodedata.normalize("NFKC", text) for text in texts])
    assert composed.points.tolist() == forms.points.tolist()


def test_every_character_has_the_form_of_plain_python() -> None:
    for first in range(0, 0x110000, 0x10000):
        characters = [chr(code) for code in range(first, first + 0x10000)]
        forms = plain_forms(characters)
        told = "".join(map(chr, forms.points.tolist()))
        assert told == "".join(map(plain, characters))


def test_runs_with_one_hash_are_distinguished_by_their_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "hash_ngrams", lambda points, size: np.zeros(max(0, len(points) - size + 1), np.uint64))
    forms = plain_forms(["甲乙"])
    index = NgramIndex.build(forms.points, forms.starts, 2, 20)
    looked = plain_forms(["乙甲乙丙"])
    assert index.find(looked.points, looked.starts).places.tolist() == [1]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(st.sampled_from("甲乙丙。\n？，"), max_size=40), min_size=1, max_size=5), st.data())
def test_cut_leaves_whole_sentences_without_overlaps(corpus: list[str], data: st.DataObject) -> None:
    held = data.draw(st.lists(st.text(st.sampled_from("甲乙丙"), min_size=3, max_size=8), min_size=1, max_size=3))
    forms = plain_forms(held)
    index = NgramIndex.build(forms.points, forms.starts, 3, 20)
    shared = {run for form in held for run in runs(form, 3)}
    for number, overlap in find_overlaps(corpus, index, 50).items():
        text = corpus[number]
        for one in overlap.shared:
            form, theirs = plain(text[one.start : one.end]), runs(held[one.text], 3)
            covered = {place + i for i in range(3) for place in range(len(form)) if form[place : place + 3] in theirs}
            assert covered == set(range(len(form)))
            assert one.characters >= len(form) >= 3
        left = without_passages(text, overlap.spans)
        sentences = [plain(each) for each in text.replace("。", "\n").replace("？", "\n").split("\n")]
        free = [each for each in sentences if each and not runs(each, 3) & shared]
        # A sentence is also removed where an overlap crosses its end.
        assert len(plain(left)) <= sum(map(len, free))
        assert all(
            plain(each) in free for each in left.replace("？", "。").replace("\n", "。").split("。") if plain(each)
        )
