"""Looking for what a flow has finished, without doing any work: for pages of long comparisons while they run."""

from __future__ import annotations

from typing import Any

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import Stage, StageInput, StageParams


class NotFinishedError(Exception):
    """A stage's artifact is not in the store."""


class FinishedStages:
    """Returns the artifacts of stages that were run before; called as a `StageRunner` is."""

    def __init__(self, store: ArtifactStore) -> None:
        self.store = store

    def __call__(self, stage: Stage[Any], params: StageParams, **inputs: StageInput) -> Artifact:
        """Return the artifact of a stage. Raises `NotFinishedError` if it was not run with these."""
        found = self.store.get(stage.name, stage.fingerprint(params, inputs))
        if found is None:
            raise NotFinishedError(stage.name)
        return found
