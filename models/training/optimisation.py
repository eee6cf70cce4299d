"""Optimiser of pre-training: AdamW without decay on biases and norms, linear warm-up and decay, clipped gradients."""

from typing import Any

import torch
from torch import Tensor, nn

from models.encoder.network import parameters_without_decay
from models.training.parallel import whole


def make_optimizer(
    module: nn.Module,
    lr: float = 2e-4,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-6,
    weight_decay: float = 0.01,
) -> torch.optim.AdamW:
    """Return AdamW over the module's trainable parameters, without `weight_decay` on biases and LayerNorm.

    Defaults are eHealth's Table 7. The fused implementation is one pass over each parameter, on CPU and CUDA.
    """
    spared = parameters_without_decay(module)
    trainable = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    groups: list[dict[str, Any]] = [
        {"params": [p for name, p in trainable.items() if name not in spared], "weight_decay": weight_decay},
        {"params": [p for name, p in trainable.items() if name in spared], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=eps, fused=True)


def learning_rate_at(step: int, *, peak: float, warmup_steps: int, total_steps: int) -> float:
    """Return the learning rate of step `step`, counted from 0.

    It rises linearly from peak / warmup_steps to `peak`, then falls linearly to 0 at `total_steps`. It is a function of
    the step alone, so that a resumed run needs no scheduler state. Raises ValueError if warm-up is longer than the run.
    """
    if not 0 <= warmup_steps <= total_steps or total_steps < 1:
        raise ValueError(f"warmup_steps={warmup_steps} must be between 0 and total_steps={total_steps}")
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    return peak * max(0, total_steps - step) / (total_steps - warmup_steps)


def learning_rate_left(step: int, *, peak: float, warmup_steps: int, left: float) -> float:
    """Return the learning rate of step `step`, counted from 0, in a run whose number of steps is not known.

    It rises linearly over `warmup_steps`, and falls with `left`, the share of the run that is left: the lower of both.
    """
    return peak * min(1.0 if warmup_steps == 0 else (step + 1) / warmup_steps, left)


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the rate of all parameter groups for the next step."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def clip_gradients(module: nn.Module, max_norm: float = 1.0) -> Tensor:
    """Scale all gradients so that their joint norm is at most `max_norm`, and return the norm before.

    If gradients are sharded over ranks, every rank must call it: the norm is that of the whole.
    """
    return whole(nn.utils.clip_grad_norm_(module.parameters(), max_norm))
