"""Predictions of a model, as they are scored and as they are submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tasks.downstream.features.base import RIGHT, WRONG, Prediction
from tasks.downstream.records import Kind, Record
from tasks.downstream.scoring import tally
from tasks.downstream.spec import TaskSpec
from tasks.metrics.scores import METRICS, RANKING_METRICS

WITHOUT_BOUND = frozenset({"pair_score"})
"""Metrics that are not fractions of 1."""


def score_text(metric: str, value: float, digits: int = 2) -> str:
    """Return a score as tables show it: in per cent, or as it is where the metric has no upper bound."""
    return f"{value if metric in WITHOUT_BOUND else 100 * value:.{digits}f}"


def scored_answers(spec: TaskSpec, labels: Sequence[str], predictions: Sequence[Prediction]) -> list[Any]:
    """Return what `tasks.downstream.scoring` compares with the right answers.

    That is the score of each candidate for RANKING, the expected relevance for graded pairs, and otherwise the answer.
    """
    if spec.kind is Kind.RANKING:
        return [_scores(prediction)[0] for prediction in predictions]
    if spec.kind is Kind.PAIR and spec.metric in RANKING_METRICS:
        # cMedIR: probabilities 0.1, 0.2, 0.7 of grades 0, 1, 2 are a relevance of 1.6, which breaks ties of grades.
        grades = [float(label) for label in labels]
        return [
            sum(grade * share for grade, share in zip(grades, _scores(prediction), strict=True))
            for prediction in predictions
        ]
    return [prediction.answer for prediction in predictions]


def metric_values(spec: TaskSpec, records: Sequence[Record], answers: Sequence[Any]) -> dict[str, float]:
    """Return all metrics of a task by name, without intervals; arguments and errors are those of `scoring.score`."""
    return {
        name: float(METRICS[name].value(tally(spec, name, records, answers).sum(0)))
        for name in (spec.metric, *spec.more_metrics)
    }


def final_predictions(spec: TaskSpec, records: Sequence[Record], predictions: Sequence[Prediction]) -> list[Prediction]:
    """Return the predictions with the answers that are submitted.

    For RANKING, the best candidate of each question (the first of equal ones) is right and all others are wrong.
    """
    if spec.kind is not Kind.RANKING:
        return list(predictions)
    best: dict[str, int] = {}
    for number, record in enumerate(records):
        group = record.group if record.group is not None else record.record_id
        if group not in best or _scores(predictions[number])[0] > _scores(predictions[best[group]])[0]:
            best[group] = number
    right = set(best.values())
    return [replace(one, answer=RIGHT if number in right else WRONG) for number, one in enumerate(predictions)]


def _scores(prediction: Prediction) -> tuple[float, ...]:
    assert prediction.scores is not None, "only tagging has none"
    return prediction.scores
