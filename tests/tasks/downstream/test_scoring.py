"""Scores of a task's answers, with intervals and paired tests."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.stats import binomtest

from infra.errors import UserError
from tasks.downstream.catalogue import TASKS, task
from tasks.downstream.records import Entity, Kind, Record, Triple
from tasks.downstream.scoring import compare_answers, score
from tasks.downstream.spec import TaskSpec
from tasks.metrics.scores import macro_f1, pair_score

RIGHT: dict[Kind, tuple[Any, Any]] = {
    Kind.SINGLE: ("1", "2"),
    Kind.PAIR: ("1", "0"),
    Kind.MULTI_LABEL: (("a", "b"), ("b",)),
    Kind.RANKING: ("1", "0"),
    Kind.CHOICE: (3, 0),
    Kind.TAGGING: ((Entity(0, 1, "x"),), ()),
    Kind.NESTED_TAGGING: ((Entity(0, 2, "sym"), Entity(0, 1, "bod")), ()),
    Kind.TRIPLES: ((Triple("甲", "疾病", "病因", "乙", "其他"),), ()),
    Kind.NORMALISATION: (("甲", "乙"), ("丙",)),
}
"""Two right answers of each kind."""


def _records(spec: TaskSpec) -> list[Record]:
    return [Record(str(number), ("甲乙",), answer, "q") for number, answer in enumerate(RIGHT[spec.kind])]


def _said(spec: TaskSpec, records: list[Record]) -> list[Any]:
    return [float(record.answer) if spec.kind == Kind.RANKING else record.answer for record in records]  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", TASKS, ids=lambda spec: spec.name)
def test_right_answers_score_best_by_the_tasks_metric(spec: TaskSpec) -> None:
    records = _records(spec)
    scored = score(spec, records, _said(spec, records))
    assert list(scored.scores) == [spec.metric, *spec.more_metrics]
    assert scored.value == (float("inf") if spec.metric == "pair_score" else 1.0)
    assert all(one.score == 1.0 for name, one in scored.scores.items() if name != "pair_score")


def test_expected_relevance_ranks_and_is_rounded_to_a_label() -> None:
    spec = task("cmedir")
    records = [Record(str(number), ("牙", "洗"), label, "q") for number, label in enumerate(["2", "0", "1", "4"])]
    said = [1.6, 0.2, 1.7, 3.9]
    scored = score(spec, records, said)
    assert scored.value == pair_score([2, 0, 1, 4], said, ["q"] * 4) == 5.0
    assert scored.scores["accuracy"].score == 0.75


def test_two_models_are_compared_by_the_tasks_metric() -> None:
    spec = task("chip-ctc")
    gold = ["Age", "Disease", "Consent", "Age"] * 25
    records = [Record(str(number), ("甲",), label) for number, label in enumerate(gold)]
    worse = ["Diet" if number % 3 == 0 else label for number, label in enumerate(gold)]
    compared = compare_answers(spec, records, gold, worse)
    assert compared.difference == pytest.approx(1 - macro_f1(gold, worse))
    assert compared.p_value < 0.01
    assert compare_answers(spec, records, worse, worse).p_value == 1.0


def test_shares_of_right_records_are_compared_by_mcnemar() -> None:
    records = [Record(str(number), ("甲", "乙"), "1") for number in range(40)]
    first, second = ["1"] * 36 + ["0"] * 4, ["1"] * 30 + ["0"] * 8 + ["1"] * 2
    compared = compare_answers(task("kuake-qtr"), records, first, second)
    assert compared.p_value == pytest.approx(binomtest(6, 8).pvalue)
    assert compared.difference == pytest.approx(4 / 40)


def test_records_without_right_answer_are_refused() -> None:
    with pytest.raises(UserError, match="Record s2 of KUAKE-QTR has no right answer"):
        score(task("kuake-qtr"), [Record("s1", ("a", "b"), "1"), Record("s2", ("a", "b"))], ["1", "1"])
    with pytest.raises(UserError, match="1 records of KUAKE-QTR but 2 answers"):
        score(task("kuake-qtr"), [Record("s1", ("a", "b"), "1")], ["1", "1"])
