"""Reordering by category: it adds BM25 of the category's names and changes nothing else."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.normalise.normaliser import Normaliser
from tasks.normalise.queries.candidates import candidates
from tasks.normalise.queries.rules import QueryRules
from tasks.retrieve.candidates import Candidate, Entry
from tasks.retrieve.categories import with_categories
from tasks.retrieve.embedded import CATEGORIES, FIELDS_FILE, EmbeddedIndex
from tasks.retrieve.fields import SearchFields, comparable_forms

ENTRIES = [
    Entry("J38.0", "声带麻痹", ("喉麻痹",)),
    Entry("J38.3", "声带的其他疾病", ("会厌水肿",)),
    Entry("J38.7", "喉的其他疾病"),
    Entry("K09.0", "发育性牙源性囊肿"),
    Entry("K09.8", "口区的其他囊肿"),
    Entry("N28.1", "后天性肾囊肿"),
]


def plain_bm25(texts: dict[str, list[str]], query: set[str], k1: float, b: float) -> dict[str, float]:
    """BM25 as defined in tasks/retrieve/fields.py, in plain Python, for texts of fewer than 40 tokens."""
    mean = sum(map(len, texts.values())) / len(texts)
    found: dict[str, float] = defaultdict(float)
    for token in query:
        holding = sum(token in text for text in texts.values())
        for key, text in texts.items():
            f = Counter(text)[token]
            idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            found[key] += idf * f / (f + k1 * (1 - b + b * len(text) / mean))
    return found


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text("喉会厌囊肿肾病", min_size=1, max_size=6), min_size=1, max_size=3), st.floats(0.05, 2))
def test_added_score_is_bm25_over_all_names_of_the_category(terms: list[str], weight: float) -> None:
    fields = SearchFields(bigrams=0, category=weight)
    texts: dict[str, list[str]] = defaultdict(list)
    for entry in ENTRIES:
        texts[entry.code[:3]] += [token for form in comparable_forms([entry.term, *entry.aliases]) for token in form]
    with tempfile.TemporaryDirectory() as folder:
        own = EmbeddedIndex.build(ENTRIES, folder, fields)
        plain, ordered = own.search(terms, 4), with_categories(own, own).search(terms, 4)
        for term, before, after in zip(terms, plain, ordered, strict=True):
            added = plain_bm25(texts, set(term), fields.k1, fields.b)
            wanted = {one.code: one.score + weight * added[one.code[:3]] for one in before}
            assert {one.code: one.score for one in after} == pytest.approx(wanted, rel=1e-5)
            assert after == sorted(after, key=lambda one: (-one.score, one.term, one.code))


def test_term_of_a_matching_category_moves_up(tmp_path: Path) -> None:
    own = EmbeddedIndex.build(ENTRIES, tmp_path, SearchFields(category=1))
    query = "会厌和喉的囊肿"
    plain, ordered = (
        [one.code for (found,) in [index.search([query], 6)] for one in found]
        for index in (own, with_categories(own, own))
    )
    assert sorted(plain) == sorted(ordered)
    assert ordered.index("J38.0") < plain.index("J38.0")


@pytest.mark.parametrize(
    ("entries", "fields"),
    [
        ([Entry("", "心力衰竭"), Entry("肿瘤1", "肺癌", ("肺恶性肿瘤",))], SearchFields()),
        (ENTRIES, SearchFields(category=0)),
    ],
)
def test_without_categories_the_engine_is_used_as_it_is(
    tmp_path: Path, entries: list[Entry], fields: SearchFields
) -> None:
    EmbeddedIndex.build(ENTRIES, tmp_path)
    own = EmbeddedIndex.build(entries, tmp_path, fields)  # overwrites an index with categories
    assert own.categories is None
    assert with_categories(own, own) is own


def test_index_of_an_earlier_version_is_searched_without_categories(tmp_path: Path) -> None:
    built = EmbeddedIndex.build(ENTRIES, tmp_path)
    shutil.rmtree(tmp_path / CATEGORIES)
    fields = json.loads((tmp_path / FIELDS_FILE).read_text())
    del fields["category"]
    (tmp_path / FIELDS_FILE).write_text(json.dumps(fields))
    old = EmbeddedIndex(tmp_path)
    assert with_categories(old, old).search(["喉囊肿"], 5) == built.search(["喉囊肿"], 5)


def test_normaliser_orders_by_category(tmp_path: Path) -> None:
    own = EmbeddedIndex.build(ENTRIES, tmp_path, SearchFields(category=1))
    (one,) = Normaliser(tmp_path, k=6).normalise(["会厌和喉的囊肿"])
    (ordered,) = with_categories(own, own).search(["会厌和喉的囊肿"], 6)
    assert one.considered[0] == ordered[0] != own.search(["会厌和喉的囊肿"], 6)[0][0]


class Fixed:
    """An engine with fixed results."""

    def __init__(self, found: list[Candidate]) -> None:
        self.found = found

    def search(self, terms: list[str], k: int) -> list[list[Candidate]]:
        return [self.found[:k] for _ in terms]


def test_candidates_of_any_engine_are_reordered_within_k(tmp_path: Path) -> None:
    own = EmbeddedIndex.build(ENTRIES, tmp_path)
    found = [Candidate("", "囊肿", 3.0), *(Candidate(entry.code, entry.term, 1.0) for entry in ENTRIES)]
    index = with_categories(Fixed(found), own)
    (ordered,) = candidates(index, ["喉麻痹"], 5, QueryRules())
    assert {one.code for one in ordered} == {one.code for one in found[:5]}
    assert [one.code for one in ordered] == ["", "J38.7", "J38.3", "J38.0", "K09.0"]
    assert ordered[0] == found[0], "a term without a code keeps its score"
