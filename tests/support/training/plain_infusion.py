"""SMedBERT's equations 2 to 12, written out for one mention at a time from an infusion's weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from models.infusion.infusion import KnowledgeInfusion
from models.infusion.pooling import SpanProjection


def plain_span(part: SpanProjection, tokens_LD: Tensor) -> Tensor:
    """Eq. 2 or 12: one mention, (C,)."""
    scores = torch.stack([part.pooling.score.weight[0] @ torch.tanh(part.pooling.dense.weight @ h) for h in tokens_LD])
    shares = scores.exp() / scores.exp().sum()
    pooled = sum(share * h for share, h in zip(shares, tokens_LD, strict=True))
    return part.norm(F.gelu(part.dense.weight @ pooled))


def plain_alphas(model: KnowledgeInfusion, mention_C: Tensor, vectors: Sequence[Tensor], types: Sequence[int]) -> dict:
    """Eq. 3: by type, its weight among the types of a mention."""
    part = model.attention.type_attention
    raised = {}
    for kind in set(types):
        h_kind = sum(vector for vector, of in zip(vectors, types, strict=True) if of == kind)
        mixed = torch.tanh(part.mention.weight @ mention_C + part.kind.weight @ h_kind)
        raised[kind] = (part.score.weight[0] @ mixed).exp()
    return {kind: value / sum(raised.values()) for kind, value in raised.items()}


def plain_betas(
    model: KnowledgeInfusion, mention_C: Tensor, vectors: Sequence[Tensor], types: Sequence[int]
) -> list[Tensor]:
    """Eq. 4 and 5: weight of each neighbour."""
    part = model.attention
    if part.type_attention is None:
        alphas = dict.fromkeys(types, 1.0)
    else:
        alphas = plain_alphas(model, mention_C, vectors, types)
    raised = [
        torch.exp(alphas[kind] * ((part.query.weight @ mention_C) @ (part.key.weight @ e)) / math.sqrt(len(mention_C)))
        for e, kind in zip(vectors, types, strict=True)
    ]
    return [one / sum(raised) for one in raised]


def plain_knowledge(
    model: KnowledgeInfusion, mention_C: Tensor, vectors: Sequence[Tensor], types: Sequence[int]
) -> Tensor:
    """Eq. 6 and 7, (C,)."""
    part = model.attention
    betas = plain_betas(model, mention_C, vectors, types)
    mixed = sum(beta * (part.value.weight @ e + part.value.bias) for beta, e in zip(betas, vectors, strict=True))
    inner = F.gelu(part.intermediate.weight @ mixed + part.intermediate.bias)
    return part.norm(mixed + part.output.weight @ inner)


def plain_tokens(
    model: KnowledgeInfusion, tokens_LD: Tensor, vectors: Sequence[Tensor], types: Sequence[int]
) -> Tensor:
    """Eq. 2 to 11: new states of a mention's tokens, (L, D)."""
    mention_C = plain_span(model.span, tokens_LD)
    both = torch.cat([plain_knowledge(model, mention_C, vectors, types), mention_C])
    mixed = F.gelu(model.mix.weight @ both + model.mix.bias)
    m = model.norm(model.expand.weight @ mixed + model.expand.bias)
    new = []
    for h in tokens_LD:
        gate = torch.tanh(model.gate.weight @ torch.cat([h, m]) + model.gate.bias)
        new.append(F.gelu(model.output.weight @ torch.cat([h, gate * m]) + model.output.bias) + h)
    return torch.stack(new)
