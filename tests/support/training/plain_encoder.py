"""An encoder written down from its definition: one sequence at a time, with the weights and dropout streams of ours.

A post-layer-norm Transformer (Vaswani et al., 2017; Devlin et al., 2019). From `models.encoder` it takes the parameters
and the random streams alone; positions, attention, dropout and the order of the operations are its own.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.encoder.network import Encoder
from models.encoder.randomness import SequenceNoise


class PlainEncoder:
    """The definition of an encoder, on the parameters of ours; in training mode with dropout."""

    def __init__(self, ours: Encoder) -> None:
        self.ours = ours

    def __call__(self, ids_L: Tensor, stream: SequenceNoise) -> Tensor:
        """Return the states (L, D) of one sequence; `stream` holds its own dropout stream and no other."""
        ours, config = self.ours, self.ours.config
        table, places = ours.embeddings, torch.arange(len(ids_L))
        assert table.position is not None
        x = table.word.weight[ids_L] + table.position.weight[places] + table.token_type.weight[0]
        site = stream.fork(0)
        x = self._drop(self._norm(x, table.norm), config.hidden_dropout, site)
        if ours.projection is not None:
            x = F.linear(x, ours.projection.weight, ours.projection.bias)
        for number, layer in enumerate(ours.layers):
            site = stream.fork(number + 1)
            q, k, v = F.linear(x, layer.qkv.weight, layer.qkv.bias).chunk(3, dim=1)
            width = config.hidden_size // config.num_heads
            weights = []
            for head in range(config.num_heads):
                own = slice(head * width, (head + 1) * width)
                weights.append(torch.softmax(q[:, own] @ k[:, own].t() / width**0.5, dim=1))
            dropped = self._drop(torch.stack(weights), config.attention_dropout, site)
            mixed = torch.cat([dropped[h] @ v[:, h * width : (h + 1) * width] for h in range(config.num_heads)], dim=1)
            attended = F.linear(mixed, layer.attention_output.weight, layer.attention_output.bias)
            x = self._norm(x + self._drop(attended, config.hidden_dropout, site), layer.attention_norm)
            inner = F.gelu(F.linear(x, layer.intermediate.weight, layer.intermediate.bias))
            fed = F.linear(inner, layer.output.weight, layer.output.bias)
            x = self._norm(x + self._drop(fed, config.hidden_dropout, site), layer.output_norm)
        return x

    def _norm(self, x: Tensor, norm: nn.LayerNorm) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        deviation = (centred.square().mean(1, keepdim=True) + self.ours.config.layer_norm_eps).sqrt()
        return centred / deviation * norm.weight + norm.bias

    def _drop(self, x: Tensor, rate: float, stream: SequenceNoise) -> Tensor:
        """Zero what the stream's next 16-bit numbers put below `rate`, and scale the rest up."""
        if not self.ours.training or not rate:
            return x
        threshold = round(rate * 2**16)
        kept = stream.bits([x.numel()]).view(x.shape) >= threshold - 2**15
        return x * kept / (1 - threshold / 2**16)
