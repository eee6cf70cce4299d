"""Overrides with which a tiny preset goes through all stages of a flow in seconds."""

from __future__ import annotations

from typing import Any

TWO_STEPS: dict[str, Any] = {
    "vocabulary.size": 2000,
    "segment.min_tokens": 8,
    "encode.held_out_share": 0.2,
    "training.steps": 2,
    "training.warmup_steps": 1,
    "training.batch_size": 8,
    "model.num_layers": 1,
    "cluster.cpus_per_worker": 1,
    "cluster.workers": 0,  # train in the driver's own process, without Ray
}
