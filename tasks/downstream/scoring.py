"""Scores of answers to a task's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from infra.errors import UserError
from tasks.downstream.records import Kind, Record
from tasks.downstream.spec import TaskSpec
from tasks.metrics.scores import METRICS, RANKING_METRICS
from tasks.metrics.significance import Comparison, Interval, bootstrap_interval, compare, mcnemar

SHARES_OF_RECORDS = frozenset({"accuracy", "micro_f1"})
"""Metrics that are a share of right records, so that McNemar's exact test applies."""


class Scored(NamedTuple):
    """Scores of a task by metric (tasks/metrics/scores.py), each with its bootstrap interval."""

    metric: str
    """The task's main metric, by which the best run is chosen."""
    scores: dict[str, Interval]

    @property
    def value(self) -> float:
        """Score by the main metric, a fraction of 1 (pair_score: any number)."""
        return self.scores[self.metric].score


def score(spec: TaskSpec, records: Sequence[Record], answers: Sequence[Any], seed: int = 0) -> Scored:
    """Return a task's scores by all its metrics.

    Args:
        spec: the task.
        records: records with their right answers.
        answers: a model's answer to each record, in the shape of the task's kind; for RANKING a score, higher is
            better; for cMedIR a label or an expected relevance, which is rounded to a label where labels count.
        seed: seed of the bootstrap.

    Raises:
        UserError: a record has no right answer, or the number of answers differs.
    """
    named = (spec.metric, *spec.more_metrics)
    return Scored(
        spec.metric,
        {name: bootstrap_interval(METRICS[name], tally(spec, name, records, answers), seed=seed) for name in named},
    )


def compare_answers(
    spec: TaskSpec, records: Sequence[Record], first: Sequence[Any], second: Sequence[Any], seed: int = 0
) -> Comparison:
    """Compare two models' answers to the same records by a paired test on the task's metric.

    The p-value is that of McNemar's exact test where the metric is a share of right records, otherwise that of
    approximate randomisation.

    Raises:
        UserError: see `score`.
    """
    counts = [tally(spec, spec.metric, records, answers) for answers in (first, second)]
    if spec.metric == "macro_f1":  # each model may name other classes: count the same ones for both
        gold = [record.answer for record in records]
        classes = list(dict.fromkeys([*gold, *first, *second]))
        counts = [METRICS["macro_f1"].tally(gold, answers, classes) for answers in (first, second)]
    compared = compare(METRICS[spec.metric], counts[0], counts[1], seed=seed)
    if spec.metric in SHARES_OF_RECORDS:
        compared = compared._replace(p_value=mcnemar(counts[0][:, 0], counts[1][:, 0]))
    return compared


def tally(spec: TaskSpec, metric: str, records: Sequence[Record], answers: Sequence[Any]) -> np.ndarray:
    """Return the counts of a metric, float64 (units, S): one row per record, or per question for a ranking metric.

    Raises:
        UserError: a record has no right answer, or the number of answers differs.
    """
    if len(answers) != len(records):
        raise UserError(f"{len(records):,} records of {spec.title} but {len(answers):,} answers.")
    missing = next((record.record_id for record in records if record.answer is None), None)
    if missing is not None:
        raise UserError(
            f"Record {missing} of {spec.title} has no right answer to compare with. Is it a test file whose answers "
            "only the benchmark knows?"
        )
    gold = [record.answer for record in records]
    if metric in RANKING_METRICS:
        groups = [record.group or record.record_id for record in records]
        return METRICS[metric].tally(gold, [float(answer) for answer in answers], groups)
    if spec.kind == Kind.PAIR and spec.metric in RANKING_METRICS:
        # cMedIR's accuracy wants labels where its PAIR score wants relevances: 1.6 counts as label 2.
        answers = [str(round(float(answer))) for answer in answers]
    return METRICS[metric].tally(gold, answers)
