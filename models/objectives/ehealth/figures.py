"""Figures of eHealth: what the curves show of a step, and losses and accuracies on held-out rows.

Sums and counts are kept apart from rates: they add up over micro-batches, batches and ranks, rates do not.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from models.batch import MaskedBatch
from models.objectives.ehealth.config import EHealthConfig
from models.objectives.ehealth.terms import Pass, loss_sums
from models.objectives.parts.contrast import Contrast

_FIGURES = {
    "mlm": ("mlm_loss", "mlm_accuracy", "selected_rate", "replaced_rate"),
    "rtd": ("rtd_loss", "rtd_recall", "rtd_precision", "rtd_balanced_accuracy", "rtd_chance"),
    "mts": ("mts_loss", "mts_accuracy", "mts_chance"),
    "csp": ("csp_loss", "csp_accuracy", "csp_chance"),
}
"""Names of the held-out figures, by the term that they need."""


@torch.no_grad()
def step_counts(batch: MaskedBatch, result: Pass) -> dict[str, Tensor]:
    """Return counts that a training step has at no cost: float32 scalars that add up over micro-batches."""
    counts = {"tokens": torch.tensor(batch.layout.total), "replaced": result.replaced_M.sum()}
    if result.rtd_logits_T is not None and result.rtd_labels_T is not None:
        found_T = result.rtd_logits_T > 0
        counts["rtd_found"] = found_T.sum()
        counts["rtd_true_positives"] = (found_T & result.rtd_labels_T).sum()
    if result.mts_scores_RK is not None:
        counts["mts_correct"] = _mts_correct(result.mts_scores_RK)
    # They stay on the device: reading a number here would make the CPU wait for the step.
    return {name: count.to(result.replaced_M.device, torch.float32) for name, count in counts.items()}


def step_figures(values: Mapping[str, float]) -> dict[str, float]:
    """Return losses and rates of a step from the summed values of `EHealth.forward`; NaN for a rate of nothing."""
    losses = {name: values[name] for name in ("loss", "mlm", "rtd", "mts", "csp") if name in values}
    figures = losses | {"replaced_rate": _ratio(values["replaced"], values["tokens"])}
    if "rtd" in losses:
        figures["rtd_recall"] = _ratio(values["rtd_true_positives"], values["replaced"])
        figures["rtd_precision"] = _ratio(values["rtd_true_positives"], values["rtd_found"])
    if "mts" in losses:
        figures["mts_accuracy"] = _ratio(values["mts_correct"], values["replaced"])
    return figures


def held_out_figures(config: EHealthConfig) -> tuple[str, ...]:
    """Return the names of the figures in `rates`."""
    weights = {"rtd": config.rtd_weight, "mts": config.mts_weight, "csp": config.csp_weight}
    return ("loss", *(name for term, names in _FIGURES.items() if weights.get(term, 1.0) for name in names))


def held_out_sums(
    config: EHealthConfig, batch: MaskedBatch, result: Pass, contrast: Contrast | None
) -> dict[str, Tensor]:
    """Return sums and counts over a held-out batch, as float64 scalars; see `EHealth.metrics`."""
    sums: dict[str, Any] = {f"{name}_loss_sum": value for name, value in loss_sums(result, contrast).items()}
    sums |= {
        "tokens": batch.layout.total,
        "selected": len(batch.original),
        "replaced": result.replaced_M.sum(),
    }
    sums["mlm_correct"] = result.generator.correct
    if result.rtd_logits_T is not None and result.rtd_labels_T is not None:
        found_T = result.rtd_logits_T > 0
        sums["rtd_true_positives"] = (found_T & result.rtd_labels_T).sum()
        sums["rtd_false_positives"] = (found_T & ~result.rtd_labels_T).sum()
        # Balanced accuracy weighs both classes alike, so a token is suspected where its probability exceeds the prior
        # (p = 0.15: logit -1.73), not one half: at one half a young model calls nothing replaced.
        suspected_T = result.rtd_logits_T > math.log(config.mask_probability / (1 - config.mask_probability))
        sums["rtd_suspected_replaced"] = (suspected_T & result.rtd_labels_T).sum()
        sums["rtd_suspected_untouched"] = (suspected_T & ~result.rtd_labels_T).sum()
    if result.mts_scores_RK is not None:
        sums["mts_correct"] = _mts_correct(result.mts_scores_RK)
    if contrast is not None:
        sums["csp_views"] = len(batch.rows)
        sums["csp_correct"] = contrast.correct_S.sum()
        # Batches can differ in size, so chance is summed per view: 1 / candidates each.
        sums["csp_chance_sum"] = len(batch.rows) / contrast.candidates
    return {name: torch.as_tensor(value, dtype=torch.float64) for name, value in sums.items()}


def rates(config: EHealthConfig, added: Mapping[str, float | Tensor]) -> dict[str, float]:
    """Return losses, accuracies and chance levels from summed `held_out_sums`; see `EHealth.rates`."""
    sums = {name: float(value) for name, value in added.items()}
    tokens, selected, replaced = sums["tokens"], sums["selected"], sums["replaced"]
    out = {
        "mlm_loss": _ratio(sums["mlm_loss_sum"], selected),
        "mlm_accuracy": _ratio(sums["mlm_correct"], selected),
        "selected_rate": _ratio(selected, tokens),
        "replaced_rate": _ratio(replaced, tokens),
    }
    if "rtd_loss_sum" in sums:
        hits, false = sums["rtd_true_positives"], sums["rtd_false_positives"]
        sensitivity = _ratio(sums["rtd_suspected_replaced"], replaced)
        specificity = 1.0 - _ratio(sums["rtd_suspected_untouched"], tokens - replaced)
        out |= {
            "rtd_loss": _ratio(sums["rtd_loss_sum"], tokens),
            "rtd_recall": _ratio(hits, replaced),
            "rtd_precision": _ratio(hits, hits + false),
            "rtd_balanced_accuracy": (sensitivity + specificity) / 2.0,
            "rtd_chance": 0.5,
        }
    if "mts_loss_sum" in sums:
        out |= {
            "mts_loss": _ratio(sums["mts_loss_sum"], replaced),
            "mts_accuracy": _ratio(sums["mts_correct"], replaced),
            "mts_chance": 1.0 / (1 + config.mts_negatives),
        }
    if "csp_loss_sum" in sums:
        views = sums["csp_views"]
        out |= {
            "csp_loss": _ratio(sums["csp_loss_sum"], views),
            "csp_accuracy": _ratio(sums["csp_correct"], views),
            "csp_chance": _ratio(sums["csp_chance_sum"], views),
        }
    weights = {"mlm": 1.0, "rtd": config.rtd_weight, "mts": config.mts_weight, "csp": config.csp_weight}
    # The loss as Eq. 8 weighs it, which the best checkpoints are chosen by. NaN of a term without tokens stays NaN.
    return {"loss": sum(weights[term] * out[f"{term}_loss"] for term in weights if f"{term}_loss" in out)} | out


def _mts_correct(scores_RK: Tensor) -> Tensor:
    """Number of positions where the original, candidate 0, scores highest; a tie is not correct."""
    return (scores_RK[:, :1] > scores_RK[:, 1:]).all(1).sum()


def _ratio(count: float, total: float) -> float:
    return count / total if total else float("nan")
