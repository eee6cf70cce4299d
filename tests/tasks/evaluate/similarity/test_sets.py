"""Pairs of equal names and the sets D1 to D3, compared with plain loops over a small graph."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.evaluate.similarity.negatives import Names, draw_negatives
from tasks.evaluate.similarity.pairs import similarity_pairs, with_common_neighbours
from tasks.evaluate.similarity.params import SimilarityPairsParams, SimilaritySetsParams
from tasks.evaluate.similarity.sets import similarity_sets
from tests.support.graphs.entity_corpus import segments_of
from tests.support.graphs.equal_names import ALIKE, PAIRS, TEXT, graphs_of
from tests.support.text.plain_jaro_winkler import jaro_winkler
from tests.support.text.stages import do


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


def sets_of(store: ArtifactStore, graphs: Mapping[str, Any], *text: list[str], **changed: Any) -> Artifact:
    pairs = do(store, similarity_pairs, SimilarityPairsParams(), **graphs)
    given = {"pairs": pairs, "kg_entities": graphs["fused"], "segments": segments_of(store, *(text or (TEXT,)))}
    return do(store, similarity_sets, SimilaritySetsParams(**changed), **given)


def test_pairs_are_names_and_aliases_with_their_neighbours_before_fusion(store: ArtifactStore, tmp_path: Path) -> None:
    pairs = do(store, similarity_pairs, SimilarityPairsParams(), **graphs_of(store, tmp_path))
    rows = {frozenset((row["name"], row["alias"])): row for row in pairs.to_table().to_pylist()}
    assert set(rows) == set(map(frozenset, PAIRS))
    assert {row["type"] for row in rows.values()} == {"Disease"}
    shared = rows[frozenset(("慢性胃病", "慢性胃炎"))]
    assert (shared["common"], shared["jaccard"]) == (3, 0.75)
    assert all((row["common"], row["jaccard"]) == (0, 0.0) for row in rows.values() if row is not shared)
    counters = pairs.manifest.counters
    assert (counters["other_scripts"], counters["spellings"], counters["pairs"]) == (1, 1, 3)
    every = do(store, similarity_pairs, SimilarityPairsParams(scripts="all"), **graphs_of(store, tmp_path))
    assert every.rows() == 4


def test_a_share_is_of_entities_and_part_of_a_larger_one(store: ArtifactStore, tmp_path: Path) -> None:
    graphs = graphs_of(store, tmp_path)
    taken = []
    for share in (0.3, 0.7, 1.0):
        for seed in range(5):
            made = do(store, similarity_pairs, SimilarityPairsParams(share=share, seed=seed), **graphs)
            taken.append((seed, share, set(made.to_table()["alias"].to_pylist())))
    for seed in range(5):
        few, more, every = (names for one, _, names in taken if one == seed)
        assert few <= more <= every and len(every) == 3
    assert len({len(names) for _, share, names in taken if share == 0.7}) > 1


edges = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdefgh")), unique=True)
couples = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), min_size=1)


@settings(max_examples=60, deadline=None)
@given(couples, edges)
def test_common_neighbours_are_those_of_plain_sets(pairs: list[tuple[str, str]], given: list[tuple[str, str]]) -> None:
    frame = pl.DataFrame(pairs, schema={"name_form": pl.String, "alias_form": pl.String}, orient="row")
    stated = pl.DataFrame(given, schema={"form": pl.String, "neighbour": pl.String}, orient="row")
    for row in with_common_neighbours(frame, stated).iter_rows(named=True):
        ends = {row["name_form"], row["alias_form"]}
        own, other = (
            {end for name, end in given if name == row[column]} - ends for column in ("name_form", "alias_form")
        )
        assert row["common"] == len(own & other)
        assert row["jaccard"] == (len(own & other) / len(own | other) if own | other else 0.0)


words = st.text("肝炎病甲乙慢性", min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), words), min_size=2, max_size=25), st.integers(1, 4), st.integers(0, 3))
def test_negatives_are_those_of_plain_loops(rows: list[tuple[int, str]], number: int, seed: int) -> None:
    names = Names.of((entity, name, name) for entity, name in rows)
    entities = {name: {entity for entity, one in rows if one == name} for _, name in rows}
    samples = [(query, truth) for query, truth in product(names.forms, names.forms) if query != truth]
    for (query, truth), drawn in zip(samples, draw_negatives(samples, names, 0.6, number, seed), strict=True):
        equal = entities[query] | entities[truth]
        wrong = {name for name in entities if not entities[name] & equal and jaro_winkler(truth, name) > 0.6 + 1e-9}
        if drawn is None:
            assert len(wrong) < number
        else:
            assert len(set(drawn)) == number and set(drawn) <= wrong
            (alone,) = draw_negatives([(query, truth)], names, 0.6, number, seed)
            assert alone == drawn


def test_a_similarity_of_exactly_the_limit_is_not_above_it() -> None:
    # Two of five characters agree, in order: (2/5 + 2/5 + 1) / 3 = 0.6, which float64 rounds up.
    names = Names.of([(0, "甲乙丙丁戊", ""), (1, "甲乙子丑寅", ""), (2, "甲乙丙丑寅", "")])
    assert list(draw_negatives([("甲乙丙丁戊", "甲乙丙丁戊")], names, 0.6, 1, 0)) == [[""]]
    assert list(draw_negatives([("甲乙丙丁戊", "甲乙丙丁戊")], names, 0.6, 2, 0)) == [None]


def test_every_choice_is_made_and_none_is_preferred() -> None:
    names = Names.of((number, name, name) for number, name in enumerate(ALIKE))
    drawn = [
        name
        for seed in range(300)
        for row in draw_negatives([("慢性胃甲炎", "慢性胃甲炎")], names, 0.6, 8, seed)
        for name in row or ()
    ]
    counts = [drawn.count(name) for name in ALIKE[1:]]
    assert 60 < min(counts) <= max(counts) < 145  # 100 expected, standard deviation 8


def test_samples_follow_the_rules_of_the_sets(store: ArtifactStore, tmp_path: Path) -> None:
    graphs = graphs_of(store, tmp_path)
    made = sets_of(store, graphs)
    rows = made.to_table().to_pylist()
    asked = {(row["query"], row["truth"]): row for row in rows}
    assert set(asked) == {
        (one, other)
        for pair in (("慢性胃病", "慢性胃炎"), ("慢性肝病", "慢性肝炎"))
        for one, other in (pair, pair[::-1])
    }
    for (query, truth), row in asked.items():
        assert len(set(row["negatives"])) == 19 and not {query, truth} & set(row["negatives"])
        assert all(jaro_winkler(truth, name) > 0.6 for name in row["negatives"])
        assert row["is_close"] == (query in ("慢性胃病", "慢性胃炎"))
        assert row["is_rare"] == (query in ("慢性肝病", "慢性肝炎"))
    counters = made.manifest.counters
    assert (counters["pairs_in"], counters["without_type"], counters["d1_samples"]) == (3, 0, 4)
    assert (counters["d2_samples"], counters["d3_samples"], counters["d1_too_few_alike"]) == (2, 2, 2)


def test_rare_names_are_mentioned_seldom_but_mentioned(store: ArtifactStore, tmp_path: Path) -> None:
    graphs = graphs_of(store, tmp_path)

    def rare(*text: list[str], **changed: int) -> set[str]:
        rows = sets_of(store, graphs, *text, **changed).to_table().to_pylist()
        return {row["query"] for row in rows if row["is_rare"]}

    assert rare(rare=2) == set()  # three mentions, in any number of parts
    assert rare(TEXT[:1], TEXT[1:], rare=2) == set()
    assert rare(TEXT[:1], TEXT[1:], rare=3) == {"慢性肝病", "慢性肝炎"}
    assert rare(least=0) == {"慢性胃病", "慢性胃炎", "慢性肝病", "慢性肝炎"}


def test_the_draw_is_the_same_in_any_unit(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sets_of(store, graphs_of(store, tmp_path)).to_table().to_pylist()
    monkeypatch.setattr("tasks.evaluate.similarity.sets.PAIRS_A_UNIT", 1)
    other = ArtifactStore(tmp_path / "other")
    cut = sets_of(other, graphs_of(other, tmp_path))
    assert cut.to_table().to_pylist() == whole
    assert len(cut.parts("similarity_samples")) > 1
    assert sets_of(other, graphs_of(other, tmp_path), seed=1).to_table().to_pylist() != whole


def test_a_graph_without_types_or_aliases_is_told_with_the_remedy(store: ArtifactStore, tmp_path: Path) -> None:
    graphs = graphs_of(store, tmp_path, types="relation,head_type,tail_type\n症状,,\n")
    with pytest.raises(UserError, match=r"none of the 3 pairs is of an entity with a type.* Give a graph with types"):
        sets_of(store, graphs)
    with pytest.raises(UserError, match=r"no pair of equal names.* graph with aliases.* raise similarity_pairs.share"):
        sets_of(store, {"fused": graphs["graph_own"], "graph_own": graphs["graph_own"]})
