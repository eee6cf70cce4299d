"""Short ways to run a stage and look at what it made, for the tests of the text stages."""

from __future__ import annotations

from typing import Any

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import Stage, StageParams, run


def do(store: ArtifactStore, work: Stage[Any], params: StageParams, **inputs: Any) -> Artifact:
    """The artifact of a stage."""
    return run(work, store, params, inputs).artifact


def texts_of(artifact: Artifact, table: str = "documents") -> list[str]:
    return artifact.to_table(table)["text"].to_pylist()


def reasons_of(artifact: Artifact) -> list[str]:
    return sorted(artifact.to_table("rejects")["reason"].to_pylist())
