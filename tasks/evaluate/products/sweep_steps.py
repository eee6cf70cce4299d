"""Steps of runs that differ in ρ and have equally many RTD steps. Nothing here imports torch before it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models import objectives

RUN, RANKS = "run_", "ranks_"
"""Beginnings of the names of the inputs of `pap_sweep`; a share follows."""
RTD = "rtd"


def share_name(share: float) -> str:
    """Return a share as it stands in names: 0.05."""
    return f"{share:g}"


def rtd_steps(objective: str, model: Mapping[str, Any], steps: int, seed: int) -> int:
    """Return how many of the first `steps` steps detect replaced tokens."""
    described = objectives.describe(objective, model)
    return sum(described.task(step, seed) == RTD for step in range(steps))


def steps_for(objective: str, model: Mapping[str, Any], wanted: int, seed: int) -> int:
    """Return the fewest steps of which `wanted` detect replaced tokens."""
    described = objectives.describe(objective, model)
    step = 0
    while wanted > 0:
        wanted -= described.task(step, seed) == RTD
        step += 1
    return step
