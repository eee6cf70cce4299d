"""Rows of counts, one per record or question."""

from __future__ import annotations

import pytest

from tasks.metrics.scores import METRICS
from tasks.metrics.tallies import (
    flatten_candidates,
    tally_by_label,
    tally_by_type,
    tally_classes,
    tally_entities,
    tally_first,
    tally_orders,
    tally_reciprocal_ranks,
    term_set,
)


def test_every_record_has_a_row_of_its_own() -> None:
    gold = [[], [(0, 2, "dis"), (3, 5, "sym")]]
    predicted = [[(9, 10, "dis")], [(0, 2, "dis")]]
    assert tally_entities(gold, predicted).tolist() == [[0, 1, 0], [1, 1, 2]]


@pytest.mark.parametrize("record", [tuple, list])
def test_records_of_one_entity_or_triple_are_records(record: type) -> None:
    gold = [record([(0, 2, "dis")]), record([(3, 5, "sym")])]
    assert tally_entities(gold, gold).tolist() == [[1, 1, 1], [1, 1, 1]]
    named = [record([("肺炎", "症状", "咳嗽")]), record([("胃炎", "症状", "腹痛"), ("胃炎", "症状", "呕吐")])]
    assert tally_entities(named, named).tolist() == [[1, 1, 1], [2, 2, 2]]


def test_labels_outside_the_chosen_classes_count_for_none() -> None:
    assert tally_classes(["1", "0", "1"], ["1", "1", "0"], ["1"]).tolist() == [[1, 1, 1], [0, 1, 0], [0, 0, 1]]


def test_macro_averages_are_means_of_the_f1_of_labels_and_of_types() -> None:
    gold, predicted = [["甲", "乙"], ["甲"], []], [["甲"], ["甲", "丙"], ["乙"]]
    counts = tally_by_label(gold, predicted)
    assert counts.sum(0).reshape(-1, 3).tolist() == [[2, 2, 2], [0, 1, 1], [0, 1, 0]]  # 甲, 乙, 丙
    assert METRICS["macro_label_f1"].value(counts.sum(0)) == pytest.approx(1 / 3)
    marked = [[(0, 2, "病"), (3, 5, "症")], [(0, 2, "病")]]
    found = [[(0, 2, "病"), (3, 6, "症")], [(0, 2, "病"), (4, 5, "病")]]
    # 病: 2 agree of 3 given and 2 wanted, F1 0.8; 症: none.
    assert METRICS["macro_entity_f1"].value(tally_by_type(marked, found).sum(0)) == pytest.approx(0.4)
    assert METRICS["macro_entity_f1"].value(tally_by_type([[], []], [[], []]).sum(0)) == 0.0


def test_right_candidates_do_not_lower_each_others_rank() -> None:
    gold, scores, groups = ["1", "1", "0", "0", "1"], [0.9, 0.8, 0.1, 0.7, 0.2], ["a", "a", "a", "b", "b"]
    assert tally_first(gold, scores, groups).tolist() == [[1, 1], [0, 1]]
    assert tally_reciprocal_ranks(gold, scores, groups).tolist() == [[1, 1], [0.5, 1]]


def test_equal_scores_are_a_wrong_order() -> None:
    assert tally_orders(["2", "1", "0"], [0.5, 0.5, 0.1], ["q"] * 3).tolist() == [[2, 1]]


def test_nested_candidates_are_numbered_by_question() -> None:
    assert flatten_candidates([[1, 0], [0]], [[0.2, 0.9], [0.1]], None) == ([1, 0, 0], [0.2, 0.9, 0.1], [0, 0, 1])
    with pytest.raises(ValueError, match="differ in length: 2 and 1"):
        flatten_candidates([[1, 0]], [[0.2]], None)
    with pytest.raises(ValueError, match="differ in length: 2 and 1"):
        flatten_candidates([[1, 0], [0]], [[0.2, 0.9]], None)


def test_joined_terms_are_split_and_trimmed() -> None:
    assert term_set("胃炎 ## 肠炎##") == term_set(["肠炎", "胃炎"]) == {"胃炎", "肠炎"}
