"""Newest artifact of a stage, for tests of what a flow left behind."""

from __future__ import annotations

from infra.artifacts import Artifact, ArtifactStore


def latest(store: ArtifactStore, stage: str) -> Artifact:
    """Return the artifact that was computed last; the test fails if there is none."""
    found = store.latest(stage)
    assert found is not None, stage
    return found
