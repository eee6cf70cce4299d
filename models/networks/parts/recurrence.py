"""The recurrence of LSTM and GRU over packed steps on a CPU: torch's numbers in a fraction of its time.

torch's own packed kernels add to the gradients of the weights at every step, 4 MB for 512 units. Here a step of the
backward pass computes only what the next one needs, and all weight gradients are one product over all tokens at the
end. Steps are those of models/networks/parts/recurrent.py: sequences in order of falling length, so those that have a
token at a time are the first rows of the state.

Shape legend: T tokens in order of time, B sequences that have a token at a step, U units, G = 4 U or 3 U gates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

Span = tuple[int, int]
"""First token of a step, and the token after its last."""


def spans_of(sizes: Sequence[int], backwards: bool) -> list[Span]:
    """Return the steps in the order in which a direction takes them."""
    spans, first = [], 0
    for size in sizes:
        spans.append((first, first + size))
        first += size
    return spans[::-1] if backwards else spans


def _with_previous(spans: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield each step with the one before it in its direction, cut to the rows that both have."""
    last = (0, 0)
    for first, end in spans:
        shared = min(end - first, last[1] - last[0])
        yield (first, end), (last[0], last[0] + shared)
        last = (first, end)


def _previous_states(states_TU: Tensor, spans: Sequence[Span]) -> Tensor:
    """Return the state before each token, (T, U); zeros before the first."""
    before_TU = torch.zeros_like(states_TU)
    for (first, _), (start, end) in _with_previous(spans):
        before_TU[first : first + end - start] = states_TU[start:end]
    return before_TU


@contextmanager
def _on_one_thread() -> Iterator[None]:
    """Let operations run on the calling thread alone.

    Those of a step take microseconds. A second thread makes none of them faster, and they take ten times as long where
    other programs keep it from its core, because every operation waits for it.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class LstmSteps(torch.autograd.Function):
    """One direction of an LSTM; gates in torch's order: input, forget, cell, output."""

    @staticmethod
    @_on_one_thread()
    def forward(ctx: Any, inputs_TG: Tensor, weight_GU: Tensor, spans: Sequence[Span]) -> Tensor:
        """Return the states (T, U), from the inputs' share of the gates with the bias."""
        units = weight_GU.shape[1]
        gates_TG = torch.empty_like(inputs_TG)
        states_TU, cells_TU = (inputs_TG.new_empty(len(inputs_TG), units) for _ in range(2))
        recurrent_UG = weight_GU.t()
        for (first, end), (start, stop) in _with_previous(spans):
            shared = first + stop - start
            gates_BG = gates_TG[first:end].copy_(inputs_TG[first:end])
            if stop > start:
                gates_TG[first:shared].addmm_(states_TU[start:stop], recurrent_UG)
            gates_BG[:, : 2 * units].sigmoid_()
            gates_BG[:, 2 * units : 3 * units].tanh_()
            gates_BG[:, 3 * units :].sigmoid_()
            in_BU, forget_BU, new_BU, out_BU = gates_BG.chunk(4, 1)
            cells_BU = torch.mul(in_BU, new_BU, out=cells_TU[first:end])
            if stop > start:
                cells_BU[: stop - start].addcmul_(forget_BU[: stop - start], cells_TU[start:stop])
            torch.tanh(cells_BU, out=states_TU[first:end]).mul_(out_BU)
        ctx.save_for_backward(weight_GU, gates_TG, cells_TU, states_TU)
        ctx.spans = spans
        return states_TU

    @staticmethod
    @_on_one_thread()
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the gradients of the gates' inputs and of the recurrent weights."""
        weight_GU, gates_TG, cells_TU, states_TU = ctx.saved_tensors
        grad_TU = grads[0].clone()
        grad_TG, cell_grad_TU = torch.empty_like(gates_TG), torch.zeros_like(grad_TU)
        tanh_TU = torch.tanh(cells_TU)
        for (first, end), (start, stop) in reversed(list(_with_previous(ctx.spans))):
            shared = stop - start
            in_BU, forget_BU, new_BU, out_BU = gates_TG[first:end].chunk(4, 1)
            own_BG, tanh_BU = grad_TG[first:end], tanh_TU[first:end]
            grad_in, grad_forget, grad_new, grad_out = own_BG.chunk(4, 1)
            grad_out.copy_(grad_TU[first:end] * tanh_BU * out_BU * (1 - out_BU))
            cell_BU = cell_grad_TU[first:end].add_(grad_TU[first:end] * out_BU * (1 - tanh_BU * tanh_BU))
            grad_in.copy_(cell_BU * new_BU * in_BU * (1 - in_BU))
            grad_new.copy_(cell_BU * in_BU * (1 - new_BU * new_BU))
            grad_forget.zero_()
            if shared:
                forgotten = cell_BU[:shared] * forget_BU[:shared]
                cell_grad_TU[start:stop] += forgotten
                grad_forget[:shared] = forgotten * cells_TU[start:stop] * (1 - forget_BU[:shared])
                grad_TU[start:stop].addmm_(own_BG[:shared], weight_GU)
        return grad_TG, grad_TG.t() @ _previous_states(states_TU, ctx.spans), None


class GruSteps(torch.autograd.Function):
    """One direction of a GRU; gates in torch's order: reset, update, new. Reset scales the state's bias too."""

    @staticmethod
    @_on_one_thread()
    def forward(ctx: Any, inputs_TG: Tensor, weight_GU: Tensor, bias_G: Tensor, spans: Sequence[Span]) -> Tensor:
        """Return the states (T, U), from the inputs' share of the gates with their bias."""
        units = weight_GU.shape[1]
        gates_TG, scaled_TU = torch.empty_like(inputs_TG), inputs_TG.new_empty(len(inputs_TG), units)
        states_TU = inputs_TG.new_empty(len(inputs_TG), units)
        recurrent_UG = weight_GU.t()
        for (first, end), (start, stop) in _with_previous(spans):
            shared = stop - start
            from_state_BG = bias_G.expand(end - first, -1).clone()
            if shared:
                from_state_BG[:shared].addmm_(states_TU[start:stop], recurrent_UG)
            gates_BG = gates_TG[first:end]
            torch.add(inputs_TG[first:end, : 2 * units], from_state_BG[:, : 2 * units], out=gates_BG[:, : 2 * units])
            reset_BU, update_BU, new_BU = gates_BG.chunk(3, 1)
            gates_BG[:, : 2 * units].sigmoid_()
            scaled_TU[first:end] = from_state_BG[:, 2 * units :]
            new_BU.copy_(inputs_TG[first:end, 2 * units :]).addcmul_(reset_BU, scaled_TU[first:end]).tanh_()
            # h = (1 - z) n + z h' = n - z n + z h'
            states_BU = torch.mul(new_BU, 1 - update_BU, out=states_TU[first:end])
            if shared:
                states_BU[:shared].addcmul_(update_BU[:shared], states_TU[start:stop])
        ctx.save_for_backward(weight_GU, gates_TG, scaled_TU, states_TU)
        ctx.spans = spans
        return states_TU

    @staticmethod
    @_on_one_thread()
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Return the gradients of the gates' inputs, the recurrent weights and the state's bias."""
        weight_GU, gates_TG, scaled_TU, states_TU = ctx.saved_tensors
        before_TU = _previous_states(states_TU, ctx.spans)
        grad_TU = grads[0].clone()
        grad_TG, state_grad_TG = torch.empty_like(gates_TG), torch.empty_like(gates_TG)
        units = weight_GU.shape[1]
        for (first, end), (start, stop) in reversed(list(_with_previous(ctx.spans))):
            shared = stop - start
            reset_BU, update_BU, new_BU = gates_TG[first:end].chunk(3, 1)
            grad_BU = grad_TU[first:end]
            grad_reset, grad_update, grad_new = grad_TG[first:end].chunk(3, 1)
            grad_update.copy_(grad_BU * (before_TU[first:end] - new_BU) * update_BU * (1 - update_BU))
            grad_new.copy_(grad_BU * (1 - update_BU) * (1 - new_BU * new_BU))
            grad_reset.copy_(grad_new * scaled_TU[first:end] * reset_BU * (1 - reset_BU))
            own_BG = state_grad_TG[first:end].copy_(grad_TG[first:end])
            own_BG[:, 2 * units :].mul_(reset_BU)
            if shared:
                grad_TU[start:stop].addcmul_(grad_BU[:shared], update_BU[:shared])
                grad_TU[start:stop].addmm_(own_BG[:shared], weight_GU)
        return grad_TG, state_grad_TG.t() @ before_TU, state_grad_TG.sum(0), None
