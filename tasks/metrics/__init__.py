"""Metrics of the downstream tasks, and the significance of differences (tasks/metrics/significance.py)."""

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

__all__ = [
    "METRICS",
    "accuracy",
    "entity_f1",
    "macro_f1",
    "micro_f1",
    "mrr",
    "multi_label_f1",
    "normalisation_f1",
    "pair_score",
    "positive_f1",
    "precision_at_1",
    "recall_at_k",
    "triple_f1",
]
