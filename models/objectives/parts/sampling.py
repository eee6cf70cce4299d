"""Exact sampling from a softmax: one token, and k distinct others without replacement.

Gumbel top-k (Kool et al., "Stochastic beams and where to find them", ICML 2019) adds noise to every entry of the
vocabulary. Here each draw inverts the cumulative distribution instead, and draws without replacement are made one after
the other, with earlier draws removed. Both follow the law of Plackett and Luce: the i-th token is drawn in proportion
to its weight among those that remain. This takes 2 (1 + k) random numbers per position instead of V, and the softmax
weights serve the loss as well.

A draw has two levels: a block of the vocabulary by the blocks' sums, then a token within the block. The 128 weights of
a block are added in float32, the running sums that a draw inverts in float64, so that a rare token is not lost in the
rounding of a long sum.

Shape legend: M positions, V vocabulary, K negatives, N blocks of W tokens (N * W >= V).
"""

import itertools
import math

import torch
from torch import Tensor
from torch.nn import functional

BLOCK = 128
"""W, tokens per block: near the square root of a vocabulary of 21,128, where both levels cost the same."""
LOWEST_EXPONENT = -60.0
"""Lower limit of logit - largest logit. Weights are thus at least e^-60 = 9e-27, so that any k tokens can be drawn
without replacement, even from a generator that is certain. The probability that this adds is below V * 9e-27.
"""
_BELOW_ONE = 1.0 - 2.0**-50


def softmax_weights_(logits_MV: Tensor) -> Tensor:
    """Return exp(logits - row maximum), written over the logits (float32)."""
    logits_MV.sub_(logits_MV.amax(1, keepdim=True))
    return logits_MV.clamp_(min=LOWEST_EXPONENT).exp_()


def sample(weights_MV: Tensor, sums_MN: Tensor, uniforms_M2: Tensor) -> Tensor:
    """Return one token per position, int64 (M,), with probability in proportion to its weight.

    `weights_MV` float32 and positive, `sums_MN` from `block_sums`, `uniforms_M2` float64 in [0, 1): two numbers per
    draw.
    """
    nothing_M0 = torch.empty(len(weights_MV), 0, dtype=torch.int64, device=weights_MV.device)
    return _draw(weights_MV, sums_MN, nothing_M0, uniforms_M2)[0]


def sample_without_replacement(weights_MV: Tensor, sums_MN: Tensor, excluded_M: Tensor, uniforms_MK2: Tensor) -> Tensor:
    """Return K distinct tokens per position, int64 (M, K), none of them `excluded_M` (int64), in order of drawing.

    Raises ValueError if the vocabulary has fewer than K others.
    """
    count = uniforms_MK2.shape[1]
    if weights_MV.shape[1] - 1 < count:
        raise ValueError(f"cannot draw {count} tokens besides the original from a vocabulary of {weights_MV.shape[1]}")
    taken_MJ, block_M = excluded_M[:, None], excluded_M // BLOCK
    for turn in range(count):
        sums_MN = _without(weights_MV, sums_MN, taken_MJ, block_M)
        token_M, block_M = _draw(weights_MV, sums_MN, taken_MJ, uniforms_MK2[:, turn])
        taken_MJ = torch.cat([taken_MJ, token_M[:, None]], 1)
    return taken_MJ[:, 1:]


def block_sums(weights_MV: Tensor) -> Tensor:
    """Return the weight of each block of the vocabulary, float64 (M, N)."""
    full = weights_MV.shape[1] // BLOCK * BLOCK
    sums = weights_MV[:, :full].unflatten(1, (-1, BLOCK)).sum(-1)
    if full < weights_MV.shape[1]:
        sums = torch.cat([sums, weights_MV[:, full:].sum(1, keepdim=True)], 1)
    return sums.double()


def _draw(weights_MV: Tensor, sums_MN: Tensor, taken_MJ: Tensor, uniforms_M2: Tensor) -> tuple[Tensor, Tensor]:
    """Token and block, int64 (M,) each, of one draw among the tokens not taken."""
    block_M = _invert(sums_MN, uniforms_M2[:, 0])
    ids_MW, inside_MW = _block_weights(weights_MV, taken_MJ, block_M)
    return ids_MW[:, 0] + _invert(inside_MW, uniforms_M2[:, 1]), block_M


def _invert(weights_MN: Tensor, uniforms_M: Tensor) -> Tensor:
    """First index at which the running sum of float64 weights exceeds u times their total; never one of weight 0."""
    running_MN = _running_sums(weights_MN, weights_MN.is_cuda and torch.are_deterministic_algorithms_enabled())
    target_M1 = uniforms_M[:, None].clamp(max=_BELOW_ONE) * running_MN[:, -1:]
    return (running_MN <= target_M1).sum(1)


def _running_sums(weights_MN: Tensor, by_steps: bool) -> Tensor:
    """Sums along rows, from the left; a weight of 0 adds exactly 0.

    torch has no deterministic `cumsum` of floats on CUDA. `by_steps` adds within pieces of about sqrt(N), then the sum
    of all earlier pieces: some 2 sqrt(N) additions of columns, in an order that no kernel chooses.
    """
    if not by_steps:
        return weights_MN.cumsum(1)
    rows, size = weights_MN.shape
    width = math.isqrt(size - 1) + 1
    padded_MBW = functional.pad(weights_MN, (0, -size % width)).reshape(rows, -1, width)
    inside_MBW = torch.stack(list(itertools.accumulate(padded_MBW.unbind(2))), 2)
    ends_MB = torch.stack(list(itertools.accumulate(inside_MBW[:, :, -1].unbind(1))), 1)
    before_MB = functional.pad(ends_MB[:, :-1], (1, 0))
    return (before_MB[:, :, None] + inside_MBW).reshape(rows, -1)[:, :size]


def _without(weights_MV: Tensor, sums_MN: Tensor, taken_MJ: Tensor, block_M: Tensor) -> Tensor:
    """Block sums after tokens of `block_M` were drawn.

    The block is summed again: subtracting would leave a rounding error where the rest must be exactly 0.
    """
    _, inside_MW = _block_weights(weights_MV, taken_MJ, block_M)
    return sums_MN.scatter(1, block_M[:, None], inside_MW.sum(1, keepdim=True))


def _block_weights(weights_MV: Tensor, taken_MJ: Tensor, block_M: Tensor) -> tuple[Tensor, Tensor]:
    """Ids (M, W) of each position's block and their weights, float64: 0 for drawn tokens and past the vocabulary."""
    vocabulary = weights_MV.shape[1]
    ids_MW = block_M[:, None] * BLOCK + torch.arange(BLOCK, device=block_M.device)
    inside_MW = weights_MV.gather(1, ids_MW.clamp(max=vocabulary - 1)).double()
    gone_MW = (ids_MW >= vocabulary) | (ids_MW[:, :, None] == taken_MJ[:, None, :]).any(-1)
    return ids_MW, inside_MW.masked_fill_(gone_MW, 0.0)
