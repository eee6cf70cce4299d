"""Parameters of the sets of similar names and of their scores. Nothing here imports torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.stage import StageParams

NEGATIVES = 19
"""Wrong candidates of a sample, so that chance finds the right one in 1 of 20."""
CHANCE = 1 / (NEGATIVES + 1)
"""Acc@1 of a guess."""


class SimilarityPairsParams(StageParams):
    """Pairs of equal names that are drawn from a graph."""

    scripts: Literal["han", "all"] = Field(
        default="han",
        description="han: both names have a Chinese character; all: foreign names too, such as Aspirin of 阿司匹林",
    )
    share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="share of the entities whose pairs are taken; a smaller share is part of a larger one",
    )
    seed: int = Field(default=42, description="seed of this draw")


class SimilaritySetsParams(StageParams):
    """Rules of SMedBERT's appendix C."""

    similarity: float = Field(
        default=0.6, ge=0, lt=1, description="Jaro-Winkler similarity that a wrong candidate exceeds"
    )
    jaccard: float = Field(default=0.75, ge=0, le=1, description="D2: least Jaccard index of the names' neighbours")
    common: int = Field(default=3, ge=0, description="D2: least number of common neighbours")
    rare: int = Field(default=200, ge=1, description="D3: most mentions of a rare name")
    least: int = Field(default=1, ge=0, description="D3: fewest mentions of a rare name; 0 for names without any")
    seed: int = Field(default=42, description="seed of the draw of wrong candidates")


class SimilarityScoresParams(StageParams):
    """Settings of the scores of one model."""

    random_weights: bool = Field(default=False, description="fresh weights in the encoder's shape: the floor")
    rounds: int = Field(default=2_000, ge=100, description="resamples of each interval")
    seed: int = Field(default=42, description="seed of resamples and of fresh weights")


class SimilarityTableParams(StageParams):
    """Rows of the table."""

    names: dict[str, str] = Field(description="name of the model behind each input, in the order of the rows")
