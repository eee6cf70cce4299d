"""PEPR: exactly the converged scores of Eq. 1, for any graph, core and blocks."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import networkx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from kg.graph import KnowledgeGraph
from kg.pepr import core_inverse, elimination
from kg.pepr.core_inverse import inverse_entries
from kg.pepr.pagerank import adjacency, converged_scores
from kg.pepr.ranking import Candidates, prepare, rank_neighbours, score_candidates, top

Triple = tuple[str, str, str]

MIXED: list[Triple] = [
    ("感冒", "症状", "发热"),
    ("感冒", "症状", "咳嗽"),
    ("感冒", "相关", "发热"),  # parallel edges
    ("发热", "见于", "感冒"),
    ("肺炎", "症状", "发热"),
    ("肺炎", "症状", "咳嗽"),
    ("肺炎", "相关", "肺炎"),  # a self loop
    ("肺炎", "药物", "青霉素"),
    ("青霉素", "不良反应", "皮疹"),  # the head of no triple
    ("骨折", "检查", "X线"),  # a component of its own
    ("自身", "相关", "自身"),  # only a self loop
]
ALONE = ["孤立", "孤立二"]


def graph_of(triples: list[Triple], alone: list[str] | None = None) -> KnowledgeGraph:
    """A graph with isolated entities."""
    return KnowledgeGraph.from_triples(triples, types=dict.fromkeys(alone or (), "无"))


def weights_of(graph: KnowledgeGraph) -> np.ndarray:
    """W, triple by triple."""
    weights = np.zeros((graph.num_entities, graph.num_entities))
    for head, tail in zip(graph.heads, graph.tails, strict=True):
        weights[head, tail] += 1
        if head != tail:
            weights[tail, head] += 1
    return weights


def iterated(graph: KnowledgeGraph, mention: int, alpha: float, start: np.ndarray | None = None) -> np.ndarray:
    """Eq. 1 as it is printed, iterated until nothing changes by more than 1e-14."""
    weights, size = weights_of(graph), graph.num_entities
    normalised = weights / np.maximum(weights.sum(axis=0), 1)
    jump = np.full(size, 1 / size)
    jump[mention] = 1
    scores = np.zeros(size) if start is None else start
    change = 1.0
    while change > 1e-14:
        following = (1 - alpha) * normalised @ scores + alpha * jump
        change, scores = np.abs(following - scores).max(), following
    return scores


def expected(graph: KnowledgeGraph, k: int, alpha: float) -> list[dict[str, Any]]:
    """Return the rows of the table, entity by entity."""
    rows = []
    triples = list(zip(graph.heads, graph.relations, graph.tails, strict=True))
    uses = Counter(relation for _, relation, _ in triples)
    for entity in range(graph.num_entities):
        scores = iterated(graph, entity, alpha)
        joined: dict[int, list[tuple[int, int, str]]] = {}
        for head, relation, tail in triples:
            for one, other, incoming in ((head, tail, 0), (tail, head, 1)):
                if one == entity and other != entity:
                    one_of_them = (incoming, -uses[relation], graph.relation_names[relation])
                    joined.setdefault(other, []).append(one_of_them)
        order = sorted(joined, key=lambda other: (-round(scores[other], 11), other))
        for rank, other in enumerate(order[:k], start=1):
            first, *others = (
                {"relation": name, "direction": -1 if incoming else 1} for incoming, _, name in sorted(joined[other])
            )
            rows.append(
                {
                    "entity": graph.entity_ids[entity],
                    "rank": rank,
                    "neighbour": graph.entity_ids[other],
                    **first,
                    "score": pytest.approx(scores[other], abs=1e-12),
                    "others": others,
                }
            )
    return rows


names = st.sampled_from("甲乙丙丁戊己庚辛壬癸子丑")
graphs = st.builds(
    graph_of,
    st.lists(st.tuples(names, st.sampled_from("rst"), names), min_size=1, max_size=40),
    st.lists(st.sampled_from("寅卯辰甲"), max_size=3),
)


@settings(max_examples=150, deadline=None)
@example(graph_of(MIXED, ALONE), 10, 0.15, 256)
@example(graph_of(MIXED, ALONE), 10, 0.15, 0)
@given(graphs, st.integers(1, 5), st.sampled_from([0.05, 0.15, 0.5, 1.0]), st.sampled_from([0, 1, 3, 256]))
def test_table_equals_the_iteration(graph: KnowledgeGraph, k: int, alpha: float, clique: int) -> None:
    """Small graphs are eliminated completely; a lower limit on cliques leaves a core."""
    with mock.patch.object(elimination, "MAX_CLIQUE", clique):
        assert rank_neighbours(graph, None, k, alpha).to_pylist() == expected(graph, k, alpha)


def scored(graph: KnowledgeGraph, alpha: float, max_dense: int = 20_000) -> Candidates:
    system = prepare(graph, alpha, max_dense)
    entries = [inverse_entries(system.core, block) for block in system.blocks]
    return score_candidates(graph, system, entries, alpha)


def hubs(seed: int, entities: int = 150, triples: int = 900) -> KnowledgeGraph:
    """A random graph with a few hubs and some leaves."""
    drawn = np.random.default_rng(seed)
    ends = (entities * drawn.random((triples, 2)) ** 2).astype(int)
    relations = drawn.integers(3, size=triples)
    pairs = zip(ends, relations, strict=True)
    named = [(f"e{head:04d}", f"r{relation}", f"e{tail:04d}") for (head, tail), relation in pairs]
    leaves = [(f"leaf{leaf:04d}", "r0", f"e{hub:04d}") for leaf, hub in enumerate(drawn.integers(20, size=60))]
    return graph_of(named + leaves, ["alone"])


@pytest.mark.parametrize("alpha", [0.01, 0.15])
def test_scores_equal_those_of_networkx(alpha: float) -> None:
    graph = hubs(1)
    walk = networkx.MultiGraph()
    walk.add_nodes_from(range(graph.num_entities))
    walk.add_edges_from(zip(graph.heads.tolist(), graph.tails.tolist(), strict=True))
    found = scored(graph, alpha)
    for mention in (0, 3, 60, graph.num_entities - 1):
        jump = dict.fromkeys(range(graph.num_entities), 1 / graph.num_entities) | {mention: 1.0}
        peer = networkx.pagerank(walk, alpha=1 - alpha, personalization=jump, tol=1e-14, max_iter=10_000)
        ours = iterated(graph, mention, alpha)
        share = np.array([peer[entity] for entity in range(graph.num_entities)])
        assert ours / ours.sum() == pytest.approx(share, abs=1e-10)
        place = slice(found.offsets[mention], found.offsets[mention + 1])
        assert found.scores[place] / ours.sum() == pytest.approx(share[found.neighbours[place]], abs=1e-10)


@pytest.mark.parametrize(("clique", "max_dense", "rows"), [(10, 0, 1024), (3, 0, 7), (0, 0, 64), (5, 20_000, 1)])
def test_core_and_blocks_do_not_change_the_result(
    monkeypatch: pytest.MonkeyPatch, clique: int, max_dense: int, rows: int
) -> None:
    graph = hubs(2)
    usual = scored(graph, 0.15)
    monkeypatch.setattr(elimination, "MAX_CLIQUE", clique)
    monkeypatch.setattr(elimination, "PAIRS_AT_ONCE", 50)
    monkeypatch.setattr(core_inverse, "ROWS_A_BLOCK", rows)
    system = prepare(graph, 0.15, max_dense)
    assert system.core.shape[0] > 10
    assert len(system.blocks) == (1 if max_dense else -(-system.core.shape[0] // rows))
    other = scored(graph, 0.15, max_dense)
    assert other.scores == pytest.approx(usual.scores, rel=1e-12)
    for mine, theirs in zip(other[:5], usual[:5], strict=True):
        assert np.array_equal(mine, theirs)


def test_elimination_stops_when_the_cliques_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = hubs(4)
    usual = scored(graph, 0.15)
    assert prepare(graph, 0.15).core.shape[0] == 0
    monkeypatch.setattr(elimination, "MAX_FILL", 1)
    system = prepare(graph, 0.15)
    assert system.core.shape[0] > 10
    first = system.rounds[0].matrix.nnz
    assert all(done.matrix.nnz <= first for done in system.rounds) and system.core.nnz > first
    assert scored(graph, 0.15).scores == pytest.approx(usual.scores, rel=1e-12)


@pytest.mark.parametrize("block", [range(2), range(1)])
def test_indefinite_system_is_rejected(block: range) -> None:
    matrix = sparse.csr_array(np.array([[1.0, -2.0], [-2.0, 1.0]]))
    with pytest.raises(ArithmeticError, match="positive definite"):
        inverse_entries(matrix, block)


def test_blocks_may_come_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "MAX_CLIQUE", 3)
    monkeypatch.setattr(core_inverse, "ROWS_A_BLOCK", 7)
    graph = hubs(3)
    system = prepare(graph, 0.15, max_dense=0)
    assert len(system.blocks) > 5
    late = {block: inverse_entries(system.core, block) for block in reversed(system.blocks)}
    early = [inverse_entries(system.core, block) for block in system.blocks]
    assert all(np.array_equal(late[block], entries) for block, entries in zip(system.blocks, early, strict=True))


def test_frequencies_do_not_change_the_converged_scores() -> None:
    graph = graph_of(MIXED, ALONE)
    start = np.arange(graph.num_entities) / 10
    assert iterated(graph, 2, 0.15, start) == pytest.approx(iterated(graph, 2, 0.15), abs=1e-12)
    counted = rank_neighbours(graph, {"发热": 1000, "感冒": 1}, 10, 0.15)
    assert counted.equals(rank_neighbours(graph, None, 10, 0.15))


def test_equal_neighbours_are_in_the_order_of_their_ids() -> None:
    leaves = [f"叶{number:02d}" for number in range(30)]
    triples = [("病", "症状", leaf) for leaf in reversed(leaves)] + [("病", "检查", "叶17")]
    table = rank_neighbours(graph_of(triples), None, 10, 0.15).to_pylist()
    ranked = [row["neighbour"] for row in table if row["entity"] == "病"]
    assert ranked == ["叶17", *leaves[:9]]
    assert len({row["score"] for row in table if row["entity"] == "病"}) == 2


def test_long_chain_is_computed_exactly() -> None:
    """Elimination by halves soon joins its ends with weights too small for a double."""
    graph = graph_of([(f"{number:05d}", "r", f"{number + 1:05d}") for number in range(4000)])
    found = scored(graph, 0.15)
    weights = adjacency(graph.heads, graph.tails, graph.num_entities)
    for mention in (0, 1, 2000):
        jump = np.full(graph.num_entities, 1 / graph.num_entities)
        jump[mention] = 1
        place = slice(found.offsets[mention], found.offsets[mention + 1])
        scores = converged_scores(weights, jump, 0.15)[found.neighbours[place]]
        assert found.scores[place] == pytest.approx(scores, rel=1e-12)


@pytest.mark.parametrize(("more", "first"), [((), "丁类"), ((("丑", "乙类", "寅"),), "乙类")])
def test_relation_is_of_the_first_outgoing_triple(more: tuple[Triple, ...], first: str) -> None:
    """Then of the relation with more triples in the graph, then by name."""
    joined = [("甲", "乙类", "子"), ("子", "丙类", "甲"), ("甲", "丁类", "子")]
    table = rank_neighbours(graph_of([*joined, *more]), None, 1, 0.15).to_pylist()
    rows = {row["entity"]: (row["relation"], row["direction"]) for row in table}
    assert (rows["甲"], rows["子"]) == ((first, 1), ("丙类", 1))
    others = {row["entity"]: [(one["relation"], one["direction"]) for one in row["others"]] for row in table}
    second = ({"乙类", "丁类"} - {first}).pop()
    assert others["甲"] == [(second, 1), ("丙类", -1)]
    assert others["子"] == [(first, -1), (second, -1)]


def test_lone_triple_has_no_others_and_two_directions() -> None:
    table = rank_neighbours(graph_of([("甲", "乙类", "子")]), None, 1, 0.15)
    assert table.filter(table["entity"].to_numpy() == "子")["direction"].to_pylist() == [-1]
    assert table["others"].to_pylist() == [[], []]


def test_graph_without_triples_has_no_neighbours() -> None:
    for graph in (graph_of([]), graph_of([], ALONE), graph_of([("自身", "相关", "自身")])):
        assert rank_neighbours(graph, None, 10, 0.15).num_rows == 0


@given(
    st.lists(st.lists(st.sampled_from([0.1, 0.2, 0.2 + 1e-13, 0.3, 0.7]), max_size=8), max_size=6), st.integers(1, 9)
)
def test_top_returns_the_best_of_each_group(groups: list[list[float]], k: int) -> None:
    offsets = np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(int)
    places, ranks, scores = top(offsets, np.array([score for group in groups for score in group]), k)
    wanted = []
    for first, group in zip(offsets, groups, strict=False):
        best = sorted(range(len(group)), key=lambda place: (-round(group[place], 9), place))[:k]
        wanted += [(first + place, rank, group[place]) for rank, place in enumerate(best, start=1)]
    assert [(place, rank) for place, rank, _ in wanted] == list(zip(places, ranks, strict=True))
    assert scores == pytest.approx([score for _, _, score in wanted], rel=1e-10)


@pytest.mark.parametrize(("k", "alpha"), [(0, 0.15), (10, 0.0), (10, 1.5), (10, float("nan"))])
def test_impossible_parameters_are_rejected(k: int, alpha: float) -> None:
    with pytest.raises(ValueError, match=r"k=|alpha="):
        rank_neighbours(graph_of(MIXED), None, k, alpha)


def test_triple_outside_the_graph_is_rejected() -> None:
    with pytest.raises(ValueError, match="0 … 4"):
        adjacency(np.array([0]), np.array([5]), 5)
