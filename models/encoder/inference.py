"""The encoder without gradients, in float32 on a CPU: the same numbers in fewer passes over memory.

oneDNN adds bias, GELU and residual to a product while its tile is in the cache, so none of them is a pass of its own.
If only [CLS] is wanted, the last layer computes no keys and no values. Almost only the products remain. The results
equal the plain encoder's up to rounding (1e-5, tested).

Shape legend: S sequences, T tokens laid end to end, D hidden size, H heads, C = D / H channels, F FFN size; n sequences
of L tokens in a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from models.encoder.attention import attend
from models.encoder.layout import Layout, Run
from models.encoder.linear import HAS_ONEDNN, Linear
from models.encoder.network import Encoder, EncoderLayer, turned
from models.encoder.rotary import turn


def applies(encoder: Encoder) -> bool:
    """True if `encode` and `encode_first` can replace the encoder here and now.

    That takes no gradients, no dropout, and float32 on a CPU with oneDNN.
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
    """Return the hidden states (T, D) of the last layer, like the encoder itself."""
    return run(encoder, embed(encoder, input_ids_T, layout, type_ids_T), layout)


def encode_first(encoder: Encoder, input_ids_T: Tensor, layout: Layout, type_ids_T: Tensor | None) -> Tensor:
    """Return the hidden states (S, D) of each sequence's first token, like `encoder(...)[layout.firsts]`."""
    x_TD = embed(encoder, input_ids_T, layout, type_ids_T)
    return finish_first(encoder, run(encoder, x_TD, layout, last=len(encoder.layers) - 1), layout)


def finish_first(encoder: Encoder, x_TD: Tensor, layout: Layout) -> Tensor:
    """Run the last layer on the states (T, D) before it, for the first token of each sequence alone: (S, D)."""
    last = cast(EncoderLayer, encoder.layers[-1])
    first_SD = x_TD[layout.firsts]
    return _after_attention(last, _attend_first(last, first_SD, x_TD, layout, encoder.turns(layout)), first_SD)


def embed(encoder: Encoder, input_ids_T: Tensor, layout: Layout, type_ids_T: Tensor | None) -> Tensor:
    """Return the embeddings (T, D) as the first layer reads them, like `Encoder.embed`."""
    x_TD = encoder.embeddings(input_ids_T, layout, type_ids_T)
    return x_TD if encoder.projection is None else encoder.projection(x_TD)


def run(encoder: Encoder, x_TD: Tensor, layout: Layout, *, first: int = 0, last: int | None = None) -> Tensor:
    """Return the states (T, D) after layers `first` to `last`, like `Encoder.run`."""
    turns_TC = encoder.turns(layout)
    for index in range(len(encoder.layers))[first:last]:
        layer = cast(EncoderLayer, encoder.layers[index])
        qkv_T3HC = _linear(layer.qkv, x_TD).view(layout.total, 3, layer.config.num_heads, -1)
        x_TD = _after_attention(layer, attend(turned(qkv_T3HC, turns_TC), layout, 0.0, None), x_TD)
    return x_TD


def _after_attention(layer: EncoderLayer, mixed_ND: Tensor, x_ND: Tensor) -> Tensor:
    """Rest of a layer after softmax(q k^T) v."""
    x_ND = layer.attention_norm(_linear_add(layer.attention_output, mixed_ND, x_ND))
    hidden_NF = _linear(layer.intermediate, x_ND, "gelu")
    return layer.output_norm(_linear_add(layer.output, hidden_NF, x_ND))


def _attend_first(
    layer: EncoderLayer, first_SD: Tensor, x_TD: Tensor, layout: Layout, turns_TC: Tensor | None
) -> Tensor:
    """softmax(q k^T / sqrt(C)) v for one query per sequence, (S, D).

    sum p (W_v x) = W_v (sum p x). With one query per sequence, the projection of values moves from every token to the
    mixture, and H D products per token replace D^2. The weights add up to 1, so b_v is added once.
    """
    heads = layer.config.num_heads
    score = _scores_by_probe(layer, first_SD) if turns_TC is None else _scores_by_key(layer, first_SD, x_TD, turns_TC)
    parts, first = [], 0
    for run in layout.runs:
        x_nLD = x_TD[run.tokens].unflatten(0, (run.sequences, run.length))
        weights_nHL = torch.softmax(score(slice(first, first + run.sequences), run, x_nLD), -1)
        parts.append(torch.bmm(weights_nHL, x_nLD))
        first += run.sequences
    width = first_SD.shape[1]
    value, value_bias = layer.qkv.weight.view(3, width, width)[2], layer.qkv.bias.view(3, width)[2]
    mixed_SHC = torch.einsum("shd,hcd->shc", torch.cat(parts), value.unflatten(0, (heads, -1)))
    return mixed_SHC.flatten(1) + value_bias


_Scores = Callable[[slice, Run, Tensor], Tensor]
"""Function of a run's sequences, the run and its states (n, L, D) that returns scores (n, H, L)."""


def _queries(layer: EncoderLayer, first_SD: Tensor) -> Tensor:
    """Queries of the first tokens, divided by sqrt(C): (S, H, C)."""
    width, heads = first_SD.shape[1], layer.config.num_heads
    query, query_bias = layer.qkv.weight.view(3, width, width)[0], layer.qkv.bias.view(3, width)[0]
    return F.linear(first_SD, query, query_bias).unflatten(1, (heads, -1)) * (width // heads) ** -0.5


def _scores_by_probe(layer: EncoderLayer, first_SD: Tensor) -> _Scores:
    """Scores q · (W_k x) = (W_k^T q) · x, without computing any key.

    b_k adds the same number to all scores of a query, which softmax removes.
    """
    width = first_SD.shape[1]
    key_HCD = layer.qkv.weight.view(3, width, width)[1].unflatten(0, (layer.config.num_heads, -1))
    probe_SHD = torch.einsum("shc,hcd->shd", _queries(layer, first_SD), key_HCD)
    return lambda sequences, run, x_nLD: torch.bmm(probe_SHD[sequences], x_nLD.transpose(1, 2))


def _scores_by_key(layer: EncoderLayer, first_SD: Tensor, x_TD: Tensor, turns_TC: Tensor) -> _Scores:
    """Scores with rotary positions, which turn each key by its place, so that keys must be computed.

    The queries are at place 0, which turns by nothing.
    """
    width = first_SD.shape[1]
    key, key_bias = layer.qkv.weight.view(3, width, width)[1], layer.qkv.bias.view(3, width)[1]
    key_TD = torch.ops.mkldnn._linear_pointwise(x_TD, key, key_bias, "none", [], "none")
    key_THC = turn(key_TD.unflatten(1, (layer.config.num_heads, -1)), turns_TC)
    query_SHC = _queries(layer, first_SD)

    def scores(sequences: slice, run: Run, x_nLD: Tensor) -> Tensor:
        key_nLHC = key_THC[run.tokens].unflatten(0, (run.sequences, run.length))
        return torch.einsum("nhc,nlhc->nhl", query_SHC[sequences], key_nLHC)

    return scores


def _linear(layer: Linear, x_NI: Tensor, activation: str = "none") -> Tensor:
    """activation(x W^T + b), (N, O); `gelu` is the exact one."""
    return torch.ops.mkldnn._linear_pointwise(x_NI, layer.weight, layer.bias, activation, [], "none")


def _linear_add(layer: Linear, x_NI: Tensor, residual_NO: Tensor) -> Tensor:
    """residual + x W^T + b, (N, O)."""
    return torch.ops.mkldnn._linear_pointwise.binary(x_NI, residual_NO, layer.weight, layer.bias, "add")
