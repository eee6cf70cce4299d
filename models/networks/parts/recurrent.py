"""LSTM and GRU over packed sequences, in one direction or both.

Recurrent kernels take all sequences' tokens of time 0, then those of time 1, and so on, the longest sequence
first. So a sequence that has ended costs nothing, and the backward direction begins at its own last token. Time grows
with tokens, in as many steps as the longest sequence has tokens.

Shape legend: T tokens laid end to end, S sequences, I inputs, U units, F = U or 2 U, both directions side by side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.encoder.layout import Layout
from models.encoder.linear import linear
from models.networks.parts.network import owners
from models.networks.parts.recurrence import GruSteps, LstmSteps, spans_of


@dataclass(frozen=True)
class Steps:
    """Order of a layout's tokens by time."""

    order: Tensor
    """int64 (T,): token at each place of the order by time."""
    places: Tensor
    """int64 (T,): place of each token; the inverse of `order`."""
    sizes: Tensor
    """int64 (longest length,), on the CPU: number of sequences that have a token at each time."""

    @classmethod
    def of(cls, layout: Layout) -> Steps:
        """Return the order of a layout's tokens, on its device."""
        lengths_S = torch.tensor(layout.lengths)
        longest_first = torch.argsort(lengths_S, descending=True, stable=True)
        ranks_S = torch.empty_like(longest_first)
        ranks_S[longest_first] = torch.arange(len(ranks_S))
        ended = torch.bincount(lengths_S)[:-1].cumsum(0)  # by time: sequences that are over
        sizes = len(lengths_S) - ended
        starts = sizes.cumsum(0) - sizes
        device = layout.positions.device
        places = starts.to(device)[layout.positions] + ranks_S.to(device)[owners(layout)]
        order = torch.empty_like(places)
        order[places] = torch.arange(layout.total, device=device)
        return cls(order, places, sizes)


class Recurrent(nn.Module, ABC):
    """Base class of the two kinds of units."""

    def __init__(self, inputs: int, units: int, *, both_ways: bool) -> None:
        super().__init__()
        self.units, self.both_ways = units, both_ways
        self.directions = 2 if both_ways else 1

    @property
    def features(self) -> int:
        """F"""
        return self.units * self.directions

    @abstractmethod
    def run(self, by_time_TI: Tensor, sizes: Tensor) -> Tensor:
        """Return the states (T, F) of inputs in the order of `Steps`."""

    def forward(self, x_TI: Tensor, layout: Layout) -> Tensor:
        """Return the states (T, F) in the layout's order."""
        steps = Steps.of(layout)
        return self.run(x_TI[steps.order], steps.sizes)[steps.places]

    def last(self, states_TF: Tensor, layout: Layout) -> Tensor:
        """Return (S, F): each direction's state after it has read the whole sequence."""
        offsets = layout.index_offsets
        forward_SU = states_TF[offsets[1:] - 1, : self.units]
        if not self.both_ways:
            return forward_SU
        return torch.cat([forward_SU, states_TF[offsets[:-1], self.units :]], 1)


class Gru(Recurrent):
    """GRU with a bias of the inputs and one of the state, the second of which the reset gate scales."""

    def __init__(self, inputs: int, units: int, *, both_ways: bool) -> None:
        super().__init__(inputs, units, both_ways=both_ways)
        self.gru = nn.GRU(inputs, units, bidirectional=both_ways)

    def run(self, by_time_TI: Tensor, sizes: Tensor) -> Tensor:
        """See `Recurrent.run`."""
        if not steps_apply(by_time_TI):
            return self.gru(nn.utils.rnn.PackedSequence(by_time_TI, sizes))[0].data
        found = []
        for backwards in range(self.directions):
            of_inputs, of_state, input_bias, state_bias = self.gru.all_weights[backwards]
            inputs_TG = linear(by_time_TI, of_inputs, input_bias)
            found.append(GruSteps.apply(inputs_TG, of_state, state_bias, spans_of(sizes.tolist(), bool(backwards))))
        return torch.cat(found, 1)


class Lstm(Recurrent):
    """LSTM with one bias, as the published parameter counts have it.

    torch's own two biases are only ever added to each other, so one of them is redundant.
    """

    def __init__(self, inputs: int, units: int, *, both_ways: bool) -> None:
        super().__init__(inputs, units, both_ways=both_ways)
        own = nn.LSTM(inputs, units, bidirectional=both_ways)  # drawn as torch draws them
        weights: dict[str, Any] = dict(own.named_parameters())
        self.weights = nn.ParameterList(weight for name, weight in weights.items() if "bias_hh" not in name)
        self.register_buffer("no_bias", torch.zeros(4 * units), persistent=False)
        self.no_bias: Tensor

    def run(self, by_time_TI: Tensor, sizes: Tensor) -> Tensor:
        """See `Recurrent.run`."""
        if not steps_apply(by_time_TI):
            return self._run_by_torch(by_time_TI, sizes)
        found = []
        for backwards in range(self.directions):
            of_inputs, of_state, bias = self.weights[3 * backwards : 3 * backwards + 3]
            inputs_TG = linear(by_time_TI, of_inputs, bias)
            found.append(LstmSteps.apply(inputs_TG, of_state, spans_of(sizes.tolist(), bool(backwards))))
        return torch.cat(found, 1)

    def _run_by_torch(self, by_time_TI: Tensor, sizes: Tensor) -> Tensor:
        flat = [
            weight
            for start in range(0, len(self.weights), 3)
            for weight in (*self.weights[start : start + 3], self.no_bias)
        ]
        zeros = by_time_TI.new_zeros(self.directions, int(sizes[0]), self.units)
        # Arguments: has biases, layers, dropout between layers, training, bidirectional.
        out = torch.lstm(by_time_TI, sizes, (zeros, zeros), flat, True, 1, 0.0, self.training, self.both_ways)
        return out[0]


def steps_apply(x: Tensor) -> bool:
    """Return True if our own steps can run: in float32 on a CPU. Elsewhere torch's kernels do."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
