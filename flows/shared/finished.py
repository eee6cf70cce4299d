"""Looking for what a flow has finished, without doing any work: for pages of long comparisons while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import SerialExecutor, Stage, StageInput, StageParams
from tasks.runner import StageRunner


class NotFinishedError(Exception):
    """A stage's artifact is not in the store."""


class FinishedStages(StageRunner):
    """A runner that returns the artifacts of stages which were run before, and runs none."""

    def __init__(self, store: ArtifactStore) -> None:
        super().__init__(store, SerialExecutor())

    def __call__(self, stage: Stage[Any], params: StageParams, **inputs: StageInput) -> Artifact:
        """Return the artifact of a stage. Raises `NotFinishedError` if it was not run with these."""
        found = self.store.get(stage.name, stage.fingerprint(params, inputs))
        if found is None:
            raise NotFinishedError(stage.name)
        return found

    def effect(self, function: Callable[..., object], *arguments: Any) -> None:
        """Change nothing."""
