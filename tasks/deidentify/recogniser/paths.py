"""The best path of labels through a text (Viterbi), by sums of integers, and the spans on it.

Time grows with the tokens; memory too, a byte for each label of a token.
"""

from __future__ import annotations

import numpy as np

from infra.arrays.compiled import compiled
from tasks.deidentify.recogniser.labels import LABELS, OUTSIDE

_ENDS = np.array([label[0] in "OES" for label in LABELS])
NEVER = -(10**6)
"""Weight of a label that may not follow."""


def best_path(emissions: np.ndarray, transitions: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Return the labels on the path whose sum is greatest, int8 (N,).

    Args:
        emissions: score of each label of each token, int32 (N, `WIDTH`); columns behind the labels count for nothing.
        transitions: score of label j behind label i, int64 (L, L); `NEVER` and less where it may not follow.
        costs: what each label costs, int32 (L,).
    """
    back = np.empty((len(emissions), len(transitions)), dtype=np.int8)
    labels = np.zeros(len(emissions), dtype=np.int8)
    walk_back(best_last(emissions, transitions, costs, back), back, labels)
    return labels


def spans_of(labels: np.ndarray) -> list[tuple[int, int, str]]:
    """Return the first token, the end and the kind of each span."""
    spans, first = [], 0
    for at in np.flatnonzero(labels).tolist():
        label = LABELS[labels[at]]
        if label[0] in "BS":
            first = at
        if label[0] in "ES":
            spans.append((first, at + 1, label[2:]))
    return spans


@compiled
def walk_back(last: int, back: np.ndarray, labels: np.ndarray) -> None:
    """Write the labels before and at the last one, int8 (N,), from those before each, int8 (N, L)."""
    for at in range(len(back) - 1, -1, -1):
        labels[at] = last
        last = back[at, last]


@compiled
def best_last(emissions: np.ndarray, transitions: np.ndarray, costs: np.ndarray, back: np.ndarray) -> int:
    """Write the label before each label on the best path to it, int8 (N, L), and return the last label of the best."""
    many = len(transitions)
    # labels that may be before each label: a few, so that not all pairs are looked at
    many_before = np.zeros(many, dtype=np.int32)
    may_be_before = np.zeros((many, many), dtype=np.int32)
    least, most = np.int32(10**9), np.int32(-(10**9))
    for label in range(many):
        for other in range(many):
            if transitions[other, label] > NEVER:
                may_be_before[label, many_before[label]] = other
                many_before[label] += 1
                least, most = min(least, transitions[other, label]), max(most, transitions[other, label])
    before = np.full(many, -(10**9), dtype=np.int32)
    before[OUTSIDE] = 0
    score = np.zeros(many, dtype=np.int32)
    for at in range(len(emissions)):
        # Mostly "none" is so far ahead of all labels that may also be before none that nothing else can be the best
        # before a label that may follow it.
        rival = np.int32(-(10**9))
        for place in range(many_before[OUTSIDE]):
            other = may_be_before[OUTSIDE, place]
            if other != OUTSIDE:
                rival = max(rival, before[other])
        is_clear = rival + most < before[OUTSIDE] + least
        greatest = np.int32(-(2 * 10**9))
        for label in range(many):
            if is_clear and transitions[OUTSIDE, label] > NEVER:
                best, best_from = before[OUTSIDE] + transitions[OUTSIDE, label], OUTSIDE
            else:
                best, best_from = np.int32(-(10**9)), 0
                for place in range(many_before[label]):
                    other = may_be_before[label, place]
                    total = before[other] + transitions[other, label]
                    if total > best:
                        best, best_from = total, other
            score[label] = best + emissions[at, label] - costs[label]
            back[at, label] = best_from
            greatest = max(greatest, score[label])
        for label in range(many):  # only differences count; long texts must not leave the range of integers
            before[label] = max(score[label] - greatest, -(10**8))
    # a text ends outside of a span, or with the end of one
    last, greatest = 0, before[0]
    for label in range(1, many):
        if _ENDS[label] and before[label] > greatest:
            last, greatest = label, before[label]
    return last
