"""Parameters of the stage `rank_values`. Nothing here imports torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.stage import StageParams


class RankValuesParams(StageParams):
    """Which titles are asked about, and the candidates."""

    titles: Literal["held_out", "all"] = "held_out"
    """Products that are asked about: those held out of training, or all."""
    attributes: tuple[str, ...] | None = Field(default=None, description="attributes that are asked; by default all")
    pairs: int = Field(default=2_000, ge=1, description="most pairs of title and attribute, a fixed random choice")
    negatives: int = Field(default=99, ge=1, description="wrong candidates of a pair, or as many as there are")
    seed: int = 42
    """Seed of the pairs and of wrong candidates."""
