"""Steps of an objective with the CPU time that each takes, as the benchmarks of objectives compare them."""

from __future__ import annotations

import time
from typing import Any

from models.training.optimisation import clip_gradients, make_optimizer


class Trained:
    """An objective, its optimiser, and the seconds of its steps per token."""

    def __init__(self, objective: Any) -> None:
        self.objective = objective
        self.optimizer = make_optimizer(objective, lr=1e-4)
        self.collate: list[float] = []
        self.step: list[float] = []

    def take(self, rows: list[Any], step: int) -> None:
        """Take a step and record it."""
        began = time.process_time()
        batch = self.objective.collate(rows, seed=1, step=step)
        collated = time.process_time()
        self.objective(batch)["loss"].backward()
        clip_gradients(self.objective, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.collate.append((collated - began) / batch.tokens)
        self.step.append((time.process_time() - began) / batch.tokens)
