"""Exponential moving average of a model's weights (Polyak and Juditsky, 1992; eHealth, Table 8: decay 0.9999)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn


class ExponentialMovingAverage:
    """A shadow of each trainable parameter: shadow <- d * shadow + (1 - d) * parameter after every step.

    With `warmup`, the n-th update (from 0) uses d = min(decay, (1 + n) / (10 + n)), so that a run much shorter than
    1 / (1 - decay) steps is not dominated by its initial weights. Without, d = decay throughout, the paper's form. The
    shadow starts as a copy of the weights at construction. It takes one copy of the parameters in memory and one pass
    over it per update.
    """

    def __init__(self, model: nn.Module, decay: float = 0.9999, warmup: bool = True) -> None:
        """Raises ValueError for a decay outside [0, 1)."""
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"decay must be in [0, 1), got {decay!r}")
        self.decay = decay
        self.warmup = warmup
        self.updates = 0
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._shadow = {name: p.detach().clone() for name, p in self._parameters.items()}
        self._kept: list[Tensor] | None = None

    @property
    def shadow(self) -> dict[str, Tensor]:
        """Averages by parameter name."""
        return self._shadow

    def next_decay(self) -> float:
        """Return the decay of the next update."""
        return min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.warmup else self.decay

    @torch.no_grad()
    def update(self) -> None:
        """Include the current weights in the average. Call it after each step of the optimiser.

        Raises RuntimeError while the averages replace the weights.
        """
        if self._kept is not None:
            raise RuntimeError("the averages are applied; restore the weights before the next update")
        weights = [parameter.detach() for parameter in self._parameters.values()]
        torch._foreach_lerp_(list(self._shadow.values()), weights, 1.0 - self.next_decay())
        self.updates += 1

    @torch.no_grad()
    def apply(self) -> None:
        """Replace the model's weights by the averages, and keep the weights for `restore`."""
        if self._kept is not None:
            raise RuntimeError("the averages are applied already")
        self._kept = [parameter.detach().clone() for parameter in self._parameters.values()]
        torch._foreach_copy_([p.detach() for p in self._parameters.values()], list(self._shadow.values()))

    @torch.no_grad()
    def restore(self) -> None:
        """Restore the weights, bit for bit."""
        if self._kept is None:
            raise RuntimeError("there is nothing to restore; call apply first")
        torch._foreach_copy_([p.detach() for p in self._parameters.values()], self._kept)
        self._kept = None

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Give the model the averages within the block, and its own weights again after it."""
        self.apply()
        try:
            yield
        finally:
            self.restore()

    def state_dict(self) -> dict[str, Any]:
        """Return the averages and the number of updates."""
        return {"shadow": dict(self._shadow), "updates": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`. Raises ValueError if the parameters' names differ."""
        if state["shadow"].keys() != self._shadow.keys():
            different = sorted(state["shadow"].keys() ^ self._shadow.keys())
            raise ValueError(f"the averages are another model's; different parameters: {', '.join(different)}")
        for name, average in state["shadow"].items():
            self._shadow[name].copy_(average)
        self.updates = int(state["updates"])
