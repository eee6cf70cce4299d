"""Adagrad that updates only the touched rows (Duchi, Hazan, Singer 2011).

Adagrad does not change a row whose gradient is zero. A sparse step therefore equals the dense one, to the bit, at the
cost of the rows that a batch touches instead of the whole table. (Adam has no such form: its momentum moves every row.)
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from kg.embedding.gradients import RowGradient
from kg.embedding.limits import Limit

EPSILON = 1e-10


class RowAdagrad:
    """Adagrad over a model's named tables, which applies the constraints on their rows after each step.

    Memory: one sum of squares per parameter.
    """

    def __init__(
        self,
        model: nn.Module,
        limits: Mapping[str, Limit],
        learning_rate: float,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        """`shares`: factor on the learning rate, by table; 1 for tables that are not named."""
        self._tables = dict(model.named_parameters())
        self._limits = limits
        self._rates = {name: learning_rate * (shares or {}).get(name, 1.0) for name in self._tables}
        self.squares = {name: torch.zeros_like(table) for name, table in self._tables.items()}

    @torch.no_grad()
    def step(self, gradients: Mapping[str, RowGradient]) -> None:
        """Take one step."""
        for name, gradient in gradients.items():
            table, squares = self._tables[name], self.squares[name]
            if table.ndim > 2:
                self._step_by_row(table, squares, gradient, self._rates[name])
            else:
                self._step_at_once(table, squares, gradient, self._rates[name], self._limits.get(name))

    def _step_by_row(self, table: Tensor, squares: Tensor, gradient: RowGradient, rate: float) -> None:
        # Row by row, in place: a matrix stays in the cache from its gradient to its update.
        for row, value in zip(gradient.rows.tolist(), gradient.values, strict=True):
            squares[row].addcmul_(value, value)
            table[row].addcdiv_(value, squares[row].sqrt().add_(EPSILON), value=-rate)

    def _step_at_once(
        self, table: Tensor, squares: Tensor, gradient: RowGradient, rate: float, limit: Limit | None
    ) -> None:
        rows, value = gradient.rows, gradient.values
        sums = squares.index_select(0, rows).addcmul_(value, value)
        squares.index_copy_(0, rows, sums)
        moved = table.index_select(0, rows).addcdiv_(value, sums.sqrt_().add_(EPSILON), value=-rate)
        table.index_copy_(0, rows, moved if limit is None else limit(moved))

    def state(self) -> dict[str, Tensor]:
        """Return the state to keep in a checkpoint."""
        return dict(self.squares)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a checkpoint's state."""
        for name, squares in self.squares.items():
            squares.copy_(state[name])
