"""Contrast of views: each finds its partner among all views of the global batch (eHealth, Wang et al., 2021, Eq. 7).

`compare_views` serves a batch that is computed at once. `compare_views_of` serves a batch cut into micro-batches, by
gradient caching (Gao et al., "Scaling deep contrastive learning batch size under memory limited setup", RepL4NLP 2021,
section 3.2). The views' vectors, computed without a graph, are compared all at once, and the gradient of their loss for
each vector is kept. Each micro-batch, recomputed with a graph, then receives its own share of it. The result is exact,
and the cost does not grow with the number of micro-batches: it is one more forward pass.

Shape legend: S views here, G views on all ranks, D width. A row's views are neighbours, and every batch holds whole
rows: the partner of view i is i ^ 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from models.distributed import gather_with_gradient


@dataclass(frozen=True)
class Contrast:
    """Outcome of the comparison for S views."""

    losses_S: Tensor
    """float32: -log of the partner's share among the candidates."""
    correct_S: Tensor
    """bool: the partner is the most similar candidate."""
    candidates: int
    """Number of views that each was compared with."""
    loss_sum: Tensor
    """(): sum of `losses_S`."""
    gradient_SD: Tensor | None = None
    """Gradient of the loss summed over all views of all ranks, with respect to these views' vectors; None: not kept.
    """

    def attached_to(self, unit_SD: Tensor) -> "Contrast":
        """Return the same figures, with a `loss_sum` that sends the cached gradient back into `unit_SD`.

        `unit_SD` are the vectors of the same views, computed with a graph.
        """
        if self.gradient_SD is None:
            return self
        surrogate = (unit_SD * self.gradient_SD).sum()
        return replace(self, loss_sum=self.loss_sum + (surrogate - surrogate.detach()))


def compare_views(unit_SD: Tensor, temperature: float, *, across_ranks: bool = True) -> Contrast:
    """Compare the views with each other, and with those of all ranks if `across_ranks` (then every rank must call it).

    `unit_SD` is float32 and of length 1. Memory grows with S x G.
    """
    with torch.autocast(unit_SD.device.type, enabled=False):  # cosines and losses stay float32 under bf16
        unit_GD, start = gather_with_gradient(unit_SD) if across_ranks else (unit_SD, 0)
        own_S = start + torch.arange(len(unit_SD), device=unit_SD.device)
        logits_SG = (unit_SD @ unit_GD.t()) / temperature
        logits_SG = logits_SG.scatter(1, own_S[:, None], -torch.inf)
        losses_S = F.cross_entropy(logits_SG, own_S ^ 1, reduction="none")
    correct_S = logits_SG.detach().argmax(1) == own_S ^ 1
    return Contrast(losses_S, correct_S, len(unit_GD) - 1, losses_S.sum())


def compare_views_of(units: Sequence[Tensor], temperature: float, *, gradient: bool) -> list[Contrast]:
    """Compare the views of all micro-batches of all ranks and return one `Contrast` per micro-batch.

    Each has its share of the gradient if `gradient` is set. Every rank must call it.
    """
    sizes = [len(unit_SD) for unit_SD in units]
    joint_SD = torch.cat(list(units)).detach().requires_grad_(gradient)
    with torch.set_grad_enabled(gradient):
        whole = compare_views(joint_SD, temperature)
    gradients: Sequence[Tensor | None] = [None] * len(units)
    if gradient:
        gradients = torch.autograd.grad(whole.loss_sum, joint_SD)[0].split(sizes)
    parts = zip(whole.losses_S.detach().split(sizes), whole.correct_S.split(sizes), gradients, strict=True)
    return [
        Contrast(losses_S, correct_S, whole.candidates, losses_S.sum(), grad) for losses_S, correct_S, grad in parts
    ]
