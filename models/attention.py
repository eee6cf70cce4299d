"""Self-attention over a packed batch: no token sees another sequence, and no work is done on padding.

CPU: one batched product for each run of equal lengths (models/layout.py); with attention dropout, an explicit
softmax whose mask comes from the sequence's own stream. CUDA: torch's variable-length attention.

Shape legend: T tokens laid end to end, H heads, C channels of a head, n sequences of L tokens in a run.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from models.layout import Layout
from models.randomness import SequenceNoise, keep_probability


def attend(qkv_T3HC: Tensor, layout: Layout, rate: float, noise: SequenceNoise | None) -> Tensor:
    """softmax(q k^T / sqrt(C)) v within each sequence, shape (T, H * C); `rate` is the dropout of the
    attention weights.

    (Vaswani et al., 2017, Eq. 1.) On the CPU `noise` may be None only where `rate` is 0.
    """
    if qkv_T3HC.is_cuda:
        return _attend_cuda(qkv_T3HC, layout, rate)
    if rate == 0.0:
        return _attend_runs(qkv_T3HC, layout)
    if noise is None:
        raise ValueError("attention dropout on the CPU needs noise=SequenceNoise(...)")
    heads = qkv_T3HC.shape[2]
    keep = noise.keep_mask([heads * length * length for length in layout.lengths], rate)
    return _AttentionWithDropout.apply(qkv_T3HC, layout, keep, keep_probability(rate))


def _attend_cuda(qkv_T3HC: Tensor, layout: Layout, rate: float) -> Tensor:
    """Variable-length kernels. `varlen_attn` is the lightest but knows neither dropout nor float32; jagged
    tensors know both.
    """
    longest = max(layout.lengths)
    q, k, v = qkv_T3HC.unbind(1)
    if rate == 0.0 and q.dtype in (torch.float16, torch.bfloat16):
        from torch.nn.attention.varlen import varlen_attn

        out_THC = varlen_attn(q, k, v, layout.offsets, layout.offsets, longest, longest)
        return cast(Tensor, out_THC).flatten(1)
    return attend_jagged(q, k, v, layout, rate)


def attend_jagged(q_THC: Tensor, k_THC: Tensor, v_THC: Tensor, layout: Layout, rate: float) -> Tensor:
    """Attention through torch's jagged tensors, shape (T, H * C); dropout draws from the device's default
    generator.
    """
    offsets, shortest, longest = layout.offsets.long(), min(layout.lengths), max(layout.lengths)

    def jagged(x_THC: Tensor) -> Tensor:
        packed = x_THC.contiguous()
        return torch.nested.nested_tensor_from_jagged(
            packed, offsets, min_seqlen=shortest, max_seqlen=longest
        ).transpose(1, 2)

    q, k, v = jagged(q_THC), jagged(k_THC), jagged(v_THC)
    return F.scaled_dot_product_attention(q, k, v, dropout_p=rate).transpose(1, 2).values().flatten(1)


def _attend_runs(qkv_T3HC: Tensor, layout: Layout) -> Tensor:
    """Without dropout: torch's fused CPU attention, run by run."""
    outputs = []
    for run in layout.runs:
        q, k, v = _by_head(qkv_T3HC[run.tokens], run.sequences, run.length).unbind(0)
        out_nHLC = F.scaled_dot_product_attention(q, k, v)
        outputs.append(out_nHLC.transpose(1, 2).reshape(run.sequences * run.length, -1))
    return torch.cat(outputs)


def _by_head(qkv_T3HC: Tensor, count: int, length: int) -> Tensor:
    """View (3, n, H, L, C) of a run's (n * L, 3, H, C)."""
    return qkv_T3HC.unflatten(0, (count, length)).permute(2, 0, 3, 1, 4)


class _AttentionWithDropout(torch.autograd.Function):
    """Attention with a given mask on its weights, all runs in one node of the graph.

    Weights P = softmax(q k^T / sqrt(C)); output (P * mask) v / keep. Kept for the derivative: q, k, v, P and
    the mask (a byte each).
    """

    @staticmethod
    def forward(ctx: Any, qkv_T3HC: Tensor, layout: Layout, keep_mask: Tensor, keep: float) -> Tensor:
        _, _, heads, channels = qkv_T3HC.shape
        ctx.layout, ctx.keep, ctx.shape = layout, keep, qkv_T3HC.shape
        out = qkv_T3HC.new_empty(layout.total, heads * channels)
        saved, used = [], 0
        for run in layout.runs:
            batch = run.sequences * heads
            qkv = _by_head(qkv_T3HC[run.tokens], run.sequences, run.length).reshape(3, batch, run.length, channels)
            q, k, v = qkv
            scores = torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0, alpha=channels**-0.5)
            weights = torch.softmax(scores, -1)
            mask = keep_mask[used : used + weights.numel()].view(weights.shape)
            used += weights.numel()
            mixed = torch.baddbmm(q.new_empty(()), weights * mask, v, beta=0, alpha=1.0 / keep)
            _scatter_heads(out[run.tokens], mixed, run.sequences)
            saved += [qkv, weights, mask]
        ctx.save_for_backward(*saved)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _, _, heads, channels = ctx.shape
        grad_qkv = grads[0].new_empty(ctx.shape)
        grad_out = grads[0].unflatten(1, (heads, channels))
        for index, run in enumerate(ctx.layout.runs):
            (q, k, v), weights, mask = ctx.saved_tensors[3 * index : 3 * index + 3]
            g = grad_out[run.tokens].unflatten(0, (run.sequences, run.length)).transpose(1, 2).reshape(q.shape)
            grad_v = torch.baddbmm(q.new_empty(()), (weights * mask).transpose(1, 2), g, beta=0, alpha=1.0 / ctx.keep)
            grad_w = torch.baddbmm(q.new_empty(()), g, v.transpose(1, 2), beta=0, alpha=1.0 / ctx.keep).mul_(mask)
            grad_scores = torch._softmax_backward_data(grad_w, weights, -1, weights.dtype)
            grad_q = torch.baddbmm(q.new_empty(()), grad_scores, k, beta=0, alpha=channels**-0.5)
            grad_k = torch.baddbmm(q.new_empty(()), grad_scores.transpose(1, 2), q, beta=0, alpha=channels**-0.5)
            target = _by_head(grad_qkv[run.tokens], run.sequences, run.length)
            for part, grad in enumerate((grad_q, grad_k, grad_v)):
                target[part].copy_(grad.view(target[part].shape))
        return grad_qkv, None, None, None


def _scatter_heads(out_TD: Tensor, mixed: Tensor, count: int) -> None:
    """Write (n * H, L, C) into the run's (n * L, H * C) rows."""
    _, length, channels = mixed.shape
    mixed_nHLC = mixed.view(count, -1, length, channels)
    out_TD.view(count, length, -1, channels).transpose(1, 2).copy_(mixed_nHLC)
