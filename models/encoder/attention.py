"""Self-attention over a packed batch: no token sees another sequence, and no work is spent on padding.

CPU: one batched product per run of equal lengths (models/encoder/layout.py). With attention dropout, an explicit
softmax whose mask comes from the sequence's own stream. CUDA: torch's variable-length attention, or rows padded to the
longest where that has no kernel.

Shape legend: T tokens laid end to end, H heads, C channels of a head, n sequences of L tokens in a run.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from models.encoder.layout import Layout, Run
from models.encoder.randomness import SequenceNoise, keep_probability

_ALIGNED = 8
"""Padded rows have a multiple of so many tokens, as the kernels want of a mask."""


def attend(qkv_T3HC: Tensor, layout: Layout, rate: float, noise: SequenceNoise | None) -> Tensor:
    """Return softmax(q k^T / sqrt(C)) v within each sequence (Vaswani et al., 2017, Eq. 1), shape (T, H * C).

    `rate` is the dropout of the attention weights. On the CPU `noise` may be None only if `rate` is 0.
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
    """Attention by variable-length kernels; with dropout or in float32, which these do not offer, over padded rows."""
    if rate > 0.0 or qkv_T3HC.dtype not in (torch.float16, torch.bfloat16):
        return attend_padded(qkv_T3HC, layout, rate)
    from torch.nn.attention.varlen import varlen_attn

    longest = max(layout.lengths)
    q, k, v = qkv_T3HC.unbind(1)
    return cast(Tensor, varlen_attn(q, k, v, layout.offsets, layout.offsets, longest, longest)).flatten(1)


def attend_padded(qkv_T3HC: Tensor, layout: Layout, rate: float) -> Tensor:
    """Attention over sequences padded to the longest, shape (T, H * C), as transformers computes it with a mask.

    Dropout draws from the device's default generator. Jagged tensors would need no padding, but with dropout in float32
    the loss of every fine-tuning on a GPU rose after some epochs (torch 2.11, H200), which the CPU's and the padded
    form's do not. cuDNN is left out: with a mask its gradients may be NaN.
    """
    sequences, longest = len(layout.lengths), -(-max(layout.lengths) // _ALIGNED) * _ALIGNED
    lengths_S = layout.index_offsets.diff()
    places = torch.arange(sequences, device=qkv_T3HC.device)
    rows_T = torch.repeat_interleave(places, lengths_S, output_size=layout.total) * longest + layout.positions
    padded = qkv_T3HC.new_zeros(sequences * longest, *qkv_T3HC.shape[1:]).index_copy(0, rows_T, qkv_T3HC)
    q, k, v = padded.unflatten(0, (sequences, longest)).permute(2, 0, 3, 1, 4).unbind(0)  # each (S, H, L, C)
    is_token_SL = torch.arange(longest, device=qkv_T3HC.device) < lengths_S[:, None]
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        out_SHLC = F.scaled_dot_product_attention(q, k, v, attn_mask=is_token_SL[:, None, None], dropout_p=rate)
    return out_SHLC.transpose(1, 2).flatten(2).flatten(0, 1)[rows_T]


def _attend_runs(qkv_T3HC: Tensor, layout: Layout) -> Tensor:
    """Attention without dropout: torch's fused CPU kernel, run by run."""
    outputs = []
    # Slices would each fill a gradient of the whole batch with zeros; the derivative of a split is one concatenation.
    parts = qkv_T3HC.split([run.sequences * run.length for run in layout.runs])
    for run, part in zip(layout.runs, parts, strict=True):
        q, k, v = _by_head(part, run).unbind(0)
        out_nHLC = F.scaled_dot_product_attention(q, k, v)
        outputs.append(out_nHLC.transpose(1, 2).reshape(run.sequences * run.length, -1))
    return torch.cat(outputs)


class _AttentionWithDropout(torch.autograd.Function):
    """Attention with a given mask on its weights, with all runs in one node of the graph.

    Weights P = softmax(q k^T / sqrt(C)); output (P * mask) v / keep. Kept for the derivative: q, k, v, P and the mask
    (one byte each). It uses few large operations, because each one makes all threads wait for each other. Under
    autocast all of it is bfloat16; the softmax adds up in float32 whatever its dtype.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)
    def forward(ctx: Any, qkv_T3HC: Tensor, layout: Layout, keep_mask: Tensor, keep: float) -> Tensor:
        _, _, heads, channels = qkv_T3HC.shape
        ctx.layout, ctx.keep, ctx.shape = layout, keep, qkv_T3HC.shape
        out = qkv_T3HC.new_empty(layout.total, heads, channels)
        saved = []
        for run, mask in zip(layout.runs, _by_run(keep_mask.to(out.dtype), layout, heads), strict=True):
            batch = run.sequences * heads
            qkv = _by_head(qkv_T3HC[run.tokens], run).reshape(3, batch, run.length, channels)
            # keep is in the second product's scale, so no pass over the weights divides by it.
            weights = torch.softmax(_product(qkv[0], qkv[1].transpose(1, 2), channels**-0.5), -1)
            mixed = _product(weights * mask, qkv[2], 1.0 / keep)
            _by_head(out[run.tokens], run).copy_(mixed.view(run.sequences, heads, run.length, channels))
            saved += [qkv, weights]
        ctx.save_for_backward(keep_mask, *saved)
        return out.flatten(1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _, _, heads, channels = ctx.shape
        grad_qkv = grads[0].new_empty(ctx.shape)
        grad_out = grads[0].unflatten(1, (heads, channels))
        keep_mask, *saved = ctx.saved_tensors
        masks = _by_run(keep_mask.to(grad_out.dtype), ctx.layout, heads)
        for run, mask, qkv, weights in zip(ctx.layout.runs, masks, saved[::2], saved[1::2], strict=True):
            q, k, v = qkv
            g = _by_head(grad_out[run.tokens], run).reshape(q.shape)
            grad_run = torch.empty_like(qkv)
            # out= writes each gradient into its part of grad_run, so that one copy puts the run into its place.
            _product((weights * mask).transpose(1, 2), g, 1.0 / ctx.keep, out=grad_run[2])
            grad_weights = _product(g, v.transpose(1, 2), 1.0 / ctx.keep).mul_(mask)
            grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            _product(grad_scores, k, channels**-0.5, out=grad_run[0])
            _product(grad_scores.transpose(1, 2), q, channels**-0.5, out=grad_run[1])
            target = _by_head(grad_qkv[run.tokens], run)
            target.copy_(grad_run.view(target.shape))
        return grad_qkv, None, None, None


def _by_head(x: Tensor, run: Run) -> Tensor:
    """View a run's tokens by head: (n * L, H, C) as (n, H, L, C), (n * L, 3, H, C) as (3, n, H, L, C)."""
    by_sequence = x.unflatten(0, (run.sequences, run.length))
    return by_sequence.transpose(1, 2) if x.ndim == 3 else by_sequence.permute(2, 0, 3, 1, 4)


def _by_run(flat: Tensor, layout: Layout, heads: int) -> list[Tensor]:
    """Split a flat tensor that holds H * L * L numbers per sequence into (n * H, L, L) for each run."""
    sizes = [run.sequences * heads * run.length**2 for run in layout.runs]
    parts = zip(flat.split(sizes), layout.runs, strict=True)
    return [part.view(-1, run.length, run.length) for part, run in parts]


def _product(a: Tensor, b: Tensor, scale: float, out: Tensor | None = None) -> Tensor:
    """Return scale * a b, batched, in one operation."""
    return torch.baddbmm(a.new_empty(()), a, b, beta=0, alpha=scale, out=out)
