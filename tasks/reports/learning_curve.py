"""A learning curve (tasks/finetune/learning_curve.py) as a table, and as a picture with axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tasks.downstream.evaluation import score_text

CURVE = "curve.json"
"""File of the artifact `learning_curve`."""
WIDTH, HEIGHT = 600, 180
"""Size of the picture's inner part; sizes are on a logarithmic axis."""


class Mark(NamedTuple):
    """A label of an axis, and its place."""

    at: float
    text: str


class Picture(NamedTuple):
    """Lines and axes of the picture."""

    lines: dict[str, list[tuple[float, float]]]
    """Points of dev and of test, from the left."""
    sizes: list[Mark]
    scores: list[Mark]


def picture(rows: Sequence[Mapping[str, Any]], metric: str) -> Picture | None:
    """Return the picture of `curve_table`'s rows; None if there are fewer than two sizes or a score is infinite."""
    sizes = sorted({row["size"] for row in rows})
    means = [row["mean"] for row in rows]
    if len(sizes) < 2 or not all(map(math.isfinite, means)):
        return None
    low, high = min(means), max(means)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)

    def x(size: int) -> float:
        return round(WIDTH * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0]), 1)

    def y(score: float) -> float:
        return round(HEIGHT * (high - score) / (high - low), 1)

    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        lines.setdefault(row["split"], []).append((x(row["size"]), y(row["mean"])))
    marks = [low + step * (high - low) / 4 for step in range(5)]
    return Picture(
        lines, [Mark(x(one), f"{one:,}") for one in sizes], [Mark(y(one), score_text(metric, one, 1)) for one in marks]
    )


def curve_table(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the mean, lowest and highest score of each size and split over the seeds, by the main metric."""
    metric = content["metric"]
    scores: dict[tuple[int, str], list[float]] = {}
    for point in content["points"]:
        for split in ("dev", "test"):
            if metric in point[split]:
                scores.setdefault((point["size"], split), []).append(point[split][metric])
    return [_summary(size, split, found) for (size, split), found in sorted(scores.items())]


def _summary(size: int, split: str, found: Sequence[float]) -> dict[str, Any]:
    return {
        "size": size,
        "split": split,
        "mean": sum(found) / len(found),
        "low": min(found),
        "high": max(found),
        "seeds": len(found),
    }
