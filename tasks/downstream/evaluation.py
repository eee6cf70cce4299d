"""From a model's predictions to what is scored and what is handed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tasks.downstream.features.base import RIGHT, Prediction
from tasks.downstream.records import Kind, Record
from tasks.downstream.scoring import tally
from tasks.downstream.spec import TaskSpec
from tasks.metrics.scores import METRICS, RANKING_METRICS

WITHOUT_BOUND = frozenset({"pair_score"})
"""Metrics that are no fraction of 1."""


def score_text(metric: str, value: float, digits: int = 2) -> str:
    """A score as tables show it: in per cent, or as it is where it has no bound."""
    return f"{value if metric in WITHOUT_BOUND else 100 * value:.{digits}f}"


def scored_answers(spec: TaskSpec, labels: Sequence[str], predictions: Sequence[Prediction]) -> list[Any]:
    """What `tasks.downstream.scoring` compares with the right answers: for RANKING the score of each candidate, for
    graded relevance its expected value, else the answer."""
    if spec.kind is Kind.RANKING:
        return [_scores(prediction)[0] for prediction in predictions]
    if spec.kind is Kind.PAIR and spec.metric in RANKING_METRICS:
        grades = [float(label) for label in labels]
        return [
            sum(grade * share for grade, share in zip(grades, _scores(prediction), strict=True))
            for prediction in predictions
        ]
    return [prediction.answer for prediction in predictions]


def metric_values(spec: TaskSpec, records: Sequence[Record], answers: Sequence[Any]) -> dict[str, float]:
    """All metrics of a task by name, without intervals; arguments and errors are those of `scoring.score`."""
    return {
        name: float(METRICS[name].value(tally(spec, name, records, answers).sum(0)))
        for name in (spec.metric, *spec.more_metrics)
    }


def final_predictions(spec: TaskSpec, records: Sequence[Record], predictions: Sequence[Prediction]) -> list[Prediction]:
    """The predictions with answers as they are handed in: of a question's candidates the best, the first of equals, is
    right and all others are wrong."""
    if spec.kind is not Kind.RANKING:
        return list(predictions)
    best: dict[str, int] = {}
    for number, record in enumerate(records):
        group = record.group if record.group is not None else record.record_id
        if group not in best or _scores(predictions[number])[0] > _scores(predictions[best[group]])[0]:
            best[group] = number
    right = set(best.values())
    return [replace(one, answer=RIGHT if number in right else "0") for number, one in enumerate(predictions)]


def _scores(prediction: Prediction) -> tuple[float, ...]:
    assert prediction.scores is not None, "only tagging has none"
    return prediction.scores
