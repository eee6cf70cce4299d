"""Why a candidate was found: the name of the entry, its source, and what of the query it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieve.candidates import Candidate, Entry
from tasks.retrieve.embedded import NAMES_FILE, EmbeddedIndex
from tasks.retrieve.fields import SearchFields, comparable_forms
from tasks.retrieve.match import match, matches

ENTRIES = (
    Entry("J18.9", "肺炎", ("肺部感染", "pneumonia"), ("graph", "english")),
    Entry("J90", "胸腔积液"),
    Entry("I10", "高血压", ("高血压病",), ("list",)),
    Entry("J18.0", "支气管肺炎"),
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedIndex:
    return EmbeddedIndex.build(ENTRIES, tmp_path_factory.mktemp("index"))


def test_an_alias_is_named_with_its_source_and_what_it_lacks(index: EmbeddedIndex) -> None:
    found = index.explain(["左侧肺部感染3天"], Candidate("J18.9", "肺炎", 1.0))
    assert found is not None
    assert (found.name, found.source) == ("肺部感染", "graph")
    assert (found.matched, found.unmatched) == (("肺部感染",), ("左侧", "3天"))


def test_a_standard_term_has_no_source_and_goes_before_its_aliases(index: EmbeddedIndex) -> None:
    found = index.explain(["肺炎"], Candidate("J18.9", "肺炎", 1.0))
    assert found is not None
    assert (found.name, found.source, found.unmatched) == ("肺炎", "", ())


def test_the_query_that_fits_best_explains_and_the_first_of_equal_ones(index: EmbeddedIndex) -> None:
    candidate = Candidate("J18.9", "肺炎", 1.0)
    best = index.explain(["胸腔积液伴肺炎", "肺炎", "肺炎。"], candidate)
    assert best is not None
    assert best.query == "肺炎"


@pytest.mark.parametrize("place", range(4))
def test_the_shortest_of_several_names_with_the_query_explains(place: int, tmp_path: Path) -> None:
    """All of them have its characters; only the lengths differ. Whole names are not searched here."""
    names = [f"{before}肺炎{behind}" for before, behind in (("重症", "并发症"), ("新生儿", ""), ("", "恢复期"))]
    names.insert(place, "肺炎")
    entries = (Entry("J18.9", names[0], tuple(names[1:])), Entry("J90", "胸腔积液"))
    index = EmbeddedIndex.build(entries, tmp_path, SearchFields(exact=0))
    found = index.explain(["肺炎"], Candidate("J18.9", names[0], 1.0))
    assert found is not None and found.name == "肺炎"


def test_nothing_explains_what_shares_nothing_or_is_not_in_the_list(index: EmbeddedIndex) -> None:
    assert index.explain(["xyz"], Candidate("J90", "胸腔积液", 1.0)) is None
    assert index.explain(["肺炎"], Candidate("J18.9", "另一个名称", 1.0)) is None
    assert index.explain([], Candidate("J90", "胸腔积液", 1.0)) is None


def test_an_index_of_an_older_version_explains_nothing(tmp_path: Path) -> None:
    EmbeddedIndex.build(ENTRIES, tmp_path)
    (tmp_path / NAMES_FILE).unlink()
    index = EmbeddedIndex(tmp_path)
    assert index.explain(["肺炎"], index.search(["肺炎"], 1)[0][0]) is None


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedIndex:
    """The same names, each as an entry of its own: statistics are equal, so the scores of the names are."""
    alone = [Entry(entry.term, name) for entry in ENTRIES for name in (entry.term, *entry.aliases)]
    return EmbeddedIndex.build(alone, tmp_path_factory.mktemp("names"))


@given(st.lists(st.text(alphabet="肺炎支气管部感染胸腔积液高血压病3 ", min_size=1, max_size=8), min_size=1, max_size=4))
def test_the_name_given_is_the_one_whose_score_the_candidate_has(
    index: EmbeddedIndex, names: EmbeddedIndex, queries: list[str]
) -> None:
    for query, candidates in zip(queries, index.search(queries, 10), strict=True):
        scores = {(one.code, one.term): one.score for one in names.search([query], 10)[0]}
        for candidate in candidates:
            found = index.explain([query], candidate)
            assert found is not None
            assert scores[candidate.term, found.name] == candidate.score
            assert found.matched


@given(st.text(alphabet="肺炎支气管3 COPD（）", max_size=12), st.text(alphabet="肺炎支气管3copd", max_size=12))
def test_runs_are_what_the_name_has_and_what_it_lacks(query: str, name: str) -> None:
    found = match(query, name, "list")
    (asked, has) = comparable_forms([query, name])
    assert sorted("".join((*found.matched, *found.unmatched))) == sorted("".join(asked))
    assert match(name, name, "").unmatched == ()
    assert all(token in has for token in asked if any(token in run for run in found.matched) and len(token) == 1)


def test_many_matches_are_those_of_each() -> None:
    compared = [
        ("肺炎", "支气管肺炎", "list"),
        ("急性阑尾炎", "阑尾炎", "graph"),
        ("COPD", "copd", ""),
        ("", "高血压", ""),
    ]
    assert matches(compared) == [match(*one) for one in compared]
    assert matches([]) == []
