"""Similar names are linked exactly as a comparison of all pairs would."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.fusion.alignment import AlignmentOptions
from kg.fusion.fused_graph import fuse, fuse_with_evidence
from kg.graph import KnowledgeGraph

THRESHOLD, WEIGHT = 0.5, 0.4
diseases = st.text("甲乙丙丁戊", min_size=2, max_size=4)
graphs = st.lists(
    st.dictionaries(diseases, st.sets(st.sampled_from(["热", "咳", "痛"]), min_size=1), max_size=4),
    min_size=1,
    max_size=3,
)
Facts = dict[str, set[str]]


def bigrams(name: str) -> set[str]:
    return {name[at : at + 2] for at in range(max(len(name) - 1, 1))}


def score(one: str, other: str, neighbours: Facts) -> float:
    a, b = bigrams(one), bigrams(other)
    dice = 2 * len(a & b) / (len(a) + len(b))
    around, others = neighbours[one], neighbours[other]
    overlap = len(around & others) / min(len(around), len(others))
    return dice + WEIGHT * overlap * (1 - dice) if dice >= 0.3 else 0.0


def expected(given_graphs: list[Facts]) -> dict[frozenset[str], float]:
    """The first round of links by all pairs; symptoms have no bigram in common."""
    neighbours: Facts = {}
    holders: dict[str, set[int]] = {}
    for number, facts in enumerate(given_graphs):
        for name, symptoms in facts.items():
            neighbours.setdefault(name, set()).update(symptoms)
            holders.setdefault(name, set()).add(number)
    scores = {
        (one, other): score(one, other, neighbours)
        for one, other in combinations(sorted(neighbours), 2)
        if not holders[one] & holders[other]
    }
    scores = {pair: value for pair, value in scores.items() if value >= THRESHOLD}
    links = {}
    for pair, value in scores.items():
        rivals = [other for rival, other in scores.items() if rival != pair and set(rival) & set(pair)]
        if all(value > rival for rival in rivals):
            links[frozenset(pair)] = value
    return links


@settings(max_examples=40, deadline=None)
@given(graphs)
def test_links_equal_a_comparison_of_all_pairs(given_graphs: list[Facts]) -> None:
    built = [
        KnowledgeGraph.from_triples([(name, "症状", other) for name, others in facts.items() for other in others])
        for facts in given_graphs
    ]
    fused = fuse_with_evidence(built, AlignmentOptions(similarity=THRESHOLD, overlap_weight=WEIGHT))
    rows = [row for row in fused.alignments.to_pylist() if row["evidence"] == "similarity"]
    found = {frozenset((row["name"], row["other_name"])): row["score"] for row in rows}
    first_round = expected(given_graphs)
    assert found.keys() >= first_round.keys()
    assert {pair: found[pair] for pair in first_round} == pytest.approx(first_round)
    if not first_round:
        assert not found


@pytest.mark.parametrize(("most", "joined"), [(3, True), (2, False)])
def test_letters_that_too_many_names_share_are_no_reason_to_compare_them(
    most: int, joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """糖尿 is in three names: 糖尿病, 糖尿症 and 糖尿乙丙丁戊己庚."""
    monkeypatch.setattr("kg.fusion.similarity.MAX_BEARERS", most)
    sources = [
        KnowledgeGraph.from_triples([("糖尿病", "症状", "口渴"), ("糖尿乙丙丁戊己庚", "症状", "口渴")], source="甲"),
        KnowledgeGraph.from_triples([("糖尿症", "症状", "乏力")], source="乙"),
    ]
    graph = fuse(sources, AlignmentOptions(similarity=0.4, overlap_weight=0.0))
    assert len({"糖尿病", "糖尿症"} & set(graph.names)) == (1 if joined else 2)
