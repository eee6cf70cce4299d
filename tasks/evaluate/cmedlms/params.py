"""Parameters of the tasks that are made from open data. Nothing here imports torch."""

from __future__ import annotations

from pydantic import Field

from infra.stage import StageParams


class GraphTextsParams(StageParams):
    """Size of the made tasks."""

    most: int = Field(default=2_000, ge=3, description="records of a class at most; which ones is drawn by the seed")
    fewest: int = Field(default=20, ge=3, description="records that a department needs to be a class")
    characters: int = Field(default=200, ge=8, description="characters of a text at most")
    seed: int = 42
    """Seed of the splits."""


class MaskedDiagnosesParams(StageParams):
    """Where the diagnoses are."""

    task: str = "cehrner"
    """Task whose records are masked."""
    types: tuple[str, ...] = Field(default=("疾病和诊断",), description="entity types that are diagnoses")
    limit: int | None = Field(default=None, ge=1)
    """Records of a split at most."""
