"""Results of one pass through eHealth's networks, and the loss terms computed from them.

Shape legend: S sequences, T tokens laid end to end, M selected tokens, R replaced ones among them, D hidden size,
K = 1 + k candidates.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.objectives.parts.contrast import Contrast
from models.objectives.parts.lm_head import HeadOutput


@dataclass(frozen=True)
class Pass:
    """Results of one pass through both networks; None for what only a term with weight 0 would need."""

    generator: HeadOutput
    replaced_M: Tensor
    """bool: the sample differs from the original."""
    rtd_logits_T: Tensor | None = None
    rtd_labels_T: Tensor | None = None
    mts_scores_RK: Tensor | None = None
    """Scores of the candidates; the original is candidate 0."""
    unit_SD: Tensor | None = None
    """[CLS] vector of each view, normalised to length 1: what CSP compares."""


def loss_sums(result: Pass, contrast: Contrast | None) -> dict[str, Tensor]:
    """Return each term that is on, summed over the tokens or views of this rank."""
    sums = {"mlm": result.generator.loss_sum}
    if result.rtd_logits_T is not None and result.rtd_labels_T is not None:
        labels = result.rtd_labels_T.to(result.rtd_logits_T.dtype)
        sums["rtd"] = F.binary_cross_entropy_with_logits(result.rtd_logits_T, labels, reduction="sum")
    if result.mts_scores_RK is not None:
        original_R = torch.zeros(len(result.mts_scores_RK), dtype=torch.int64, device=result.mts_scores_RK.device)
        sums["mts"] = F.cross_entropy(result.mts_scores_RK, original_R, reduction="sum")
    if contrast is not None:
        sums["csp"] = contrast.loss_sum
    return sums
