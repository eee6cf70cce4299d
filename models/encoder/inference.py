"""The encoder without gradients, in float32 on a CPU: the same numbers in fewer passes over memory.

oneDNN adds bias, GELU and residual to a product while its tile is in the cache, so neither is a pass of its own. Where
only [CLS] is wanted, the last layer computes no keys and no values at all. What is left is nearly the products alone.
Equal to the plain encoder's numbers but for rounding (1e-5, tested).

Shape legend: S sequences, T tokens laid end to end, D hidden size, H heads, C = D / H channels, F FFN size; n sequences
of L tokens in a run.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from models.encoder.attention import attend
from models.encoder.layout import Layout
from models.encoder.linear import HAS_ONEDNN, Linear
from models.encoder.network import Encoder, EncoderLayer


def applies(encoder: Encoder) -> bool:
    """Whether `encode` and `encode_first` can stand for the encoder here and now: no gradients, no dropout, float32 on
    a CPU with oneDNN.
    """
    weight = encoder.embeddings.word.weight
    return (
        HAS_ONEDNN
        and not encoder.training
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and weight.device.type == "cpu"
        and weight.dtype == torch.float32
    )


def encode(encoder: Encoder, input_ids_T: Tensor, layout: Layout, type_ids_T: Tensor | None) -> Tensor:
    """Hidden states (T, D) of the last layer, as the encoder gives them."""
    return _through(encoder, len(encoder.layers), input_ids_T, layout, type_ids_T)


def encode_first(encoder: Encoder, input_ids_T: Tensor, layout: Layout, type_ids_T: Tensor | None) -> Tensor:
    """Hidden states (S, D) of each sequence's first token, as `encoder(...)[layout.firsts]` gives them."""
    x_TD = _through(encoder, len(encoder.layers) - 1, input_ids_T, layout, type_ids_T)
    last = cast(EncoderLayer, encoder.layers[-1])
    first_SD = x_TD[layout.firsts]
    return _after_attention(last, _attend_first(last, first_SD, x_TD, layout), first_SD)


def _through(encoder: Encoder, layers: int, input_ids_T: Tensor, layout: Layout, type_ids_T: Tensor | None) -> Tensor:
    """Embeddings and the first so many layers."""
    x_TD = encoder.embeddings(input_ids_T, layout, type_ids_T)
    if encoder.projection is not None:
        x_TD = encoder.projection(x_TD)
    for index in range(layers):
        layer = cast(EncoderLayer, encoder.layers[index])
        qkv_T3HC = _linear(layer.qkv, x_TD).view(layout.total, 3, layer.config.num_heads, -1)
        x_TD = _after_attention(layer, attend(qkv_T3HC, layout, 0.0, None), x_TD)
    return x_TD


def _after_attention(layer: EncoderLayer, mixed_ND: Tensor, x_ND: Tensor) -> Tensor:
    """The rest of a layer after softmax(q k^T) v."""
    x_ND = layer.attention_norm(_linear_add(layer.attention_output, mixed_ND, x_ND))
    hidden_NF = _linear(layer.intermediate, x_ND, "gelu")
    return layer.output_norm(_linear_add(layer.output, hidden_NF, x_ND))


def _attend_first(layer: EncoderLayer, first_SD: Tensor, x_TD: Tensor, layout: Layout) -> Tensor:
    """softmax(q k^T / sqrt(C)) v for one query a sequence, (S, D).

    q · (W_k x) = (W_k^T q) · x and sum p (W_v x) = W_v (sum p x): with one query a sequence the projections move from
    every token to the query and the mixture, 2 H D products a token in the place of 2 D^2. b_k adds the same to all
    scores of a query, which softmax takes away; the weights add up to 1, so b_v is added once.
    """
    width, heads = first_SD.shape[1], layer.config.num_heads
    query, key, value = layer.qkv.weight.view(3, width, width).unbind(0)
    query_bias, _, value_bias = layer.qkv.bias.view(3, width).unbind(0)
    query_SHC = F.linear(first_SD, query, query_bias).unflatten(1, (heads, -1)) * (width // heads) ** -0.5
    probe_SHD = torch.einsum("shc,hcd->shd", query_SHC, key.unflatten(0, (heads, -1)))
    parts, first = [], 0
    for run in layout.runs:
        x_nLD = x_TD[run.tokens].unflatten(0, (run.sequences, run.length))
        probe_nHD = probe_SHD[first : first + run.sequences]
        weights_nHL = torch.softmax(torch.bmm(probe_nHD, x_nLD.transpose(1, 2)), -1)
        parts.append(torch.bmm(weights_nHL, x_nLD))
        first += run.sequences
    mixed_SHC = torch.einsum("shd,hcd->shc", torch.cat(parts), value.unflatten(0, (heads, -1)))
    return mixed_SHC.flatten(1) + value_bias


def _linear(layer: Linear, x_NI: Tensor, activation: str = "none") -> Tensor:
    """activation(x W^T + b), (N, O); `gelu` is the exact one."""
    return torch.ops.mkldnn._linear_pointwise(x_NI, layer.weight, layer.bias, activation, [], "none")


def _linear_add(layer: Linear, x_NI: Tensor, residual_NO: Tensor) -> Tensor:
    """residual + x W^T + b, (N, O)."""
    return torch.ops.mkldnn._linear_pointwise.binary(x_NI, residual_NO, layer.weight, layer.bias, "add")
