"""Metrics of downstream tasks and the significance of differences."""

from tasks.metrics.scores import (
    METRICS,
    accuracy,
    entity_f1,
    macro_f1,
    micro_f1,
    mrr,
    multi_label_f1,
    normalisation_f1,
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
    "positive_f1",
    "precision_at_1",
    "recall_at_k",
    "triple_f1",
]
