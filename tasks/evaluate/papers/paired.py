"""The paired test between two starts that were fine-tuned with the same seeds and judged on the same test records.

Two things are chance: which records are in the test file, and which a seed drew to learn from, with the order and the
fresh head. So there are two tests, and a difference is called one only if both say so:

- over records: approximate randomisation of each record's counts, summed over seeds (tasks/metrics/significance.py);
- over seeds: Student's t of the differences between runs of the same seed, with one degree of freedom less than seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean, stdev

import numpy as np

from tasks.downstream.catalogue import task
from tasks.evaluate.papers.cell import CellScores
from tasks.metrics.scores import METRICS
from tasks.metrics.significance import compare

LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """Difference between two starts, first - second, as fractions of 1."""

    difference: float
    """Mean over the seeds that both have."""
    low: float
    high: float
    """Ends of the 95 % bootstrap interval over records."""
    p_records: float
    p_seeds: float
    """NaN for a single seed."""
    seeds: int

    @property
    def is_clear(self) -> bool:
        """True if both tests reject chance."""
        return self.p_records < LEVEL and self.p_seeds < LEVEL


def paired(first: CellScores, second: CellScores) -> Difference | None:
    """Compare two starts on a task; None if they have no seed in common, or answered other records."""
    seeds = sorted(first.test.keys() & second.test.keys())
    shapes = {cell.tallies[seed].shape for cell in (first, second) for seed in seeds}
    if not seeds or first.task != second.task or len(shapes) != 1:
        return None
    sums = [np.sum([cell.tallies[seed] for seed in seeds], axis=0) for cell in (first, second)]
    of_records = compare(METRICS[task(first.task).metric], sums[0], sums[1])
    differences = [first.test[seed] - second.test[seed] for seed in seeds]
    return Difference(
        difference=mean(differences),
        low=of_records.low,
        high=of_records.high,
        p_records=of_records.p_value,
        p_seeds=p_of_seeds(differences),
        seeds=len(seeds),
    )


def p_of_seeds(differences: list[float]) -> float:
    """Return the two-sided p-value of Student's t that the mean difference is 0; NaN for fewer than two."""
    if len(differences) < 2:
        return float("nan")
    spread = stdev(differences)
    if spread == 0.0:
        return 1.0 if mean(differences) == 0.0 else 0.0
    from scipy.stats import t  # slow to import

    statistic = mean(differences) / (spread / len(differences) ** 0.5)
    return float(2 * t.sf(abs(statistic), len(differences) - 1))
