"""Metrics against scikit-learn, sorting and counting by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

from tasks.downstream.records import Entity, Triple
from tasks.metrics.scores import (
    METRICS,
    accuracy,
    entity_f1,
    macro_f1,
    micro_f1,
    mrr,
    multi_label_f1,
    normalisation_f1,
    pair_score,
    positive_f1,
    precision_at_1,
    recall_at_k,
    triple_f1,
)

LABELS = st.sampled_from(["0", "1", "2", "NA"])
PAIRS = st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=40)
ENTITIES = st.builds(
    lambda start, size, kind: Entity(start, start + size, kind),
    *[st.integers(0, 3), st.integers(1, 3), st.sampled_from(["dis", "sym"])],
)
ENTITY_SETS = st.lists(
    st.tuples(st.lists(ENTITIES, max_size=5), st.lists(ENTITIES, max_size=5)), min_size=1, max_size=8
)


def _columns(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [one for one, _ in pairs], [other for _, other in pairs]


@given(PAIRS)
@settings(max_examples=30)
def test_label_scores_match_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = _columns(pairs)
    assert accuracy(gold, predicted) == pytest.approx(accuracy_score(gold, predicted))
    assert micro_f1(gold, predicted) == pytest.approx(f1_score(gold, predicted, average="micro"))
    assert macro_f1(gold, predicted) == pytest.approx(f1_score(gold, predicted, average="macro", zero_division=0))
    for average, ours in (("micro", micro_f1), ("macro", macro_f1)):
        theirs = f1_score(gold, predicted, labels=["1", "2", "9"], average=average, zero_division=0)
        assert ours(gold, predicted, labels=["1", "2", "9"]) == pytest.approx(theirs)
    theirs = f1_score(gold, predicted, labels=["1"], average="micro", zero_division=0)
    assert positive_f1(gold, predicted) == pytest.approx(theirs)


@given(ENTITY_SETS)
@settings(max_examples=40)
def test_entity_scores_match_scikit_learn_over_indicators(
    pairs: list[tuple[list[Entity], list[Entity]]],
) -> None:
    gold, predicted = _columns(pairs)
    assert entity_f1(gold, predicted) == _over_indicators(gold, predicted)


def _over_indicators(gold: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> Any:
    """Micro-averages of scikit-learn, with an indicator column for everything that occurs in a record."""
    never = [object(), object()]  # keeps two columns even if all records are empty
    known = list(dict.fromkeys(one for record in [*gold, *predicted] for one in record))
    indicators = MultiLabelBinarizer(classes=[*known, *never]).fit([])
    precision, recall, f1, _ = precision_recall_fscore_support(
        indicators.transform(gold), indicators.transform(predicted), average="micro", zero_division=0
    )
    return pytest.approx({"precision": precision, "recall": recall, "f1": f1})


def _paired(records: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    return st.lists(st.tuples(records, records), min_size=1, max_size=8)


NAMES = st.sampled_from(["肺炎", "咳嗽", "发热"])
TRIPLES = st.builds(
    Triple, NAMES, st.sampled_from("疾症"), st.sampled_from(["表现", "病因"]), NAMES, st.sampled_from("疾症")
)
TERM_LISTS = st.lists(st.sampled_from(["高血压", "高血压病", "糖尿病", "2型糖尿病", "肺炎"]), max_size=4)


@given(_paired(st.lists(TRIPLES, max_size=5)))
@settings(max_examples=40)
def test_triple_scores_match_scikit_learn_without_types(pairs: list[tuple[list[Triple], list[Triple]]]) -> None:
    gold, predicted = _columns(pairs)
    plain = [[[(one.subject, one.predicate, one.object) for one in own] for own in side] for side in (gold, predicted)]
    expected = _over_indicators(*plain)
    assert triple_f1(gold, predicted) == expected
    official = [
        [{"subject": s, "predicate": p, "object": {"@value": o}, "object_type": {"@value": "?"}} for s, p, o in own]
        for own in plain[1]
    ]
    assert triple_f1(gold, official) == expected


@given(_paired(TERM_LISTS))
@settings(max_examples=40)
def test_term_scores_match_scikit_learn_joined_or_not(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, predicted = _columns(pairs)
    expected = _over_indicators(gold, predicted)
    assert normalisation_f1(gold, predicted) == expected
    assert normalisation_f1(["##".join(own) for own in gold], [tuple(own) for own in predicted]) == expected
    assert normalisation_f1(gold, [" ## ".join(reversed(own)) for own in predicted]) == expected


@given(_paired(st.lists(st.sampled_from("abcd"), max_size=5)))
@settings(max_examples=40)
def test_label_set_scores_match_scikit_learn(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, predicted = _columns(pairs)
    expected = _over_indicators(gold, predicted)
    assert multi_label_f1(gold, predicted) == expected
    assert multi_label_f1([frozenset(own) for own in gold], [set(own) for own in predicted]) == expected
    assert multi_label_f1(predicted, gold)["f1"] == multi_label_f1(gold, predicted)["f1"]


@given(ENTITY_SETS)
def test_entities_may_be_tuples_or_mappings(pairs: list[tuple[list[Entity], list[Entity]]]) -> None:
    gold, predicted = _columns(pairs)
    expected = entity_f1(gold, predicted)
    as_tuples = [[{(one.start, one.end, one.type) for one in record} for record in side] for side in (gold, predicted)]
    as_mappings = [
        [
            [{"start_idx": one.start, "end_idx": one.end, "type": one.type, "entity": ""} for one in record]
            for record in side
        ]
        for side in (gold, predicted)
    ]
    assert entity_f1(*as_tuples) == expected
    assert entity_f1(*as_mappings) == expected


def test_flat_list_of_entities_is_one_record() -> None:
    gold = [(0, 2, "dis"), (3, 5, "sym")]
    assert entity_f1(gold, [(0, 2, "dis")]) == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)}
    assert entity_f1(gold, []) == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert entity_f1([gold, []], [[(0, 2, "dis")], [(9, 10, "dis")]])["precision"] == 0.5


def test_repeated_entity_counts_once_per_record() -> None:
    one = Entity(0, 2, "dis")
    assert entity_f1([[one], [one]], [[one, one], []]) == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)}


def test_triples_agree_by_subject_predicate_and_object() -> None:
    gold = [[Triple("肺炎", "疾病", "临床表现", "咳嗽", "症状")]]
    other_types = [[Triple("肺炎", "疾病", "临床表现", "咳嗽", "疾病")]]
    official = [
        [{"subject": "肺炎", "predicate": "临床表现", "object": {"@value": "咳嗽"}, "object_type": {"@value": ""}}]
    ]
    assert triple_f1(gold, other_types)["f1"] == 1.0
    assert triple_f1(gold, official)["f1"] == 1.0
    assert triple_f1(gold, [[Triple("肺炎", "疾病", "病因", "咳嗽", "症状")]])["f1"] == 0.0
    assert triple_f1([[("肺炎", "临床表现", "咳嗽")]], gold)["f1"] == 1.0


def test_terms_are_pooled_over_all_mentions() -> None:
    gold = ["膝骨关节病##膝关节游离体", "高血压"]
    predicted = [("膝关节游离体",), ["高血压", "高血压病"]]
    assert normalisation_f1(gold, predicted) == {
        "precision": pytest.approx(2 / 3),
        "recall": pytest.approx(2 / 3),
        "f1": pytest.approx(2 / 3),
    }


def test_label_sets_pool_their_counts() -> None:
    assert multi_label_f1([("a", "b"), ()], [("a",), ("b",)])["f1"] == 0.5


CANDIDATES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.floats(-3, 3).map(lambda one: round(one, 1))),
    min_size=1,
    max_size=40,
)


def _plain_ranks(rows: list[tuple[int, int, float]]) -> list[int | None]:
    """Rank of the best right candidate of each question; in a tie the wrong ones come first."""
    ranks: list[int | None] = []
    for question in dict.fromkeys(group for group, _, _ in rows):
        ordered = sorted((-score, label == 1) for group, label, score in rows if group == question)
        ranks.append(next((rank for rank, (_, right) in enumerate(_without_lower_right(ordered), 1) if right), None))
    return ranks


def _without_lower_right(ordered: list[tuple[float, bool]]) -> list[tuple[float, bool]]:
    first = next((place for place, (_, right) in enumerate(ordered) if right), None)
    return [one for place, one in enumerate(ordered) if not one[1] or place == first]


@given(CANDIDATES)
def test_ranking_scores_match_sorting(rows: list[tuple[int, int, float]]) -> None:
    gold = [str(label) for _, label, _ in rows]
    scores = [score for _, _, score in rows]
    groups = [f"q{group}" for group, _, _ in rows]
    ranks = _plain_ranks(rows)
    assert precision_at_1(gold, scores, groups) == pytest.approx(np.mean([rank == 1 for rank in ranks]))
    assert mrr(gold, scores, groups) == pytest.approx(np.mean([1 / rank if rank else 0.0 for rank in ranks]))
    right = wrong = 0
    for one, more, high in rows:
        for other, less, low in rows:
            if one == other and more > less:
                right, wrong = right + (high > low), wrong + (high <= low)
    expected = (right / wrong if wrong else math.inf) if right else 0.0
    assert pair_score(gold, scores, groups) == expected


def test_questions_may_be_nested_lists() -> None:
    gold, scores = [[1, 0, 0], [0, 1]], [[0.2, 0.9, 0.1], [0.1, 0.8]]
    assert precision_at_1(gold, scores) == 0.5
    assert mrr(gold, scores) == 0.75
    assert precision_at_1([1, 0, 0, 0, 1], [0.2, 0.9, 0.1, 0.1, 0.8], ["a", "a", "a", "b", "b"]) == 0.5


def test_ties_are_never_won() -> None:
    assert precision_at_1([1, 0, 0, 0, 0], [0.5] * 5, ["q"] * 5) == 0.0


def test_recall_counts_terms() -> None:
    gold, ranked = ["甲##乙", "丙"], [["甲", "丁", "乙"], ["丁", "丙"]]
    assert [recall_at_k(gold, ranked, k) for k in (1, 2, 3)] == [pytest.approx(one) for one in (1 / 3, 2 / 3, 1)]
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        recall_at_k(gold, ranked, 0)


@pytest.mark.parametrize("metric", [entity_f1, triple_f1, normalisation_f1, accuracy, macro_f1])
def test_different_lengths_are_refused(metric: Any) -> None:
    with pytest.raises(ValueError, match="differ in length"):
        metric([["a"], ["a"], []], [["a"]])


@given(PAIRS)
def test_summed_counts_give_the_scores(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = _columns(pairs)
    for name, score in (
        ("accuracy", accuracy),
        ("macro_f1", macro_f1),
        ("positive_f1", positive_f1),
        ("micro_f1", micro_f1),
    ):
        counts = METRICS[name].tally(gold, predicted)
        assert counts.shape[0] == len(gold)
        assert float(METRICS[name].value(counts.sum(0))) == pytest.approx(score(gold, predicted))
