"""A stage's progress as a Prefect artifact: its share, and in words what the stage tells."""

from __future__ import annotations

from typing import Any

import pytest

from tasks import runner


def test_the_artifact_says_how_far_a_stage_is_and_how_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[float, str]] = []

    def create(*, progress: float, key: str, description: str) -> str:
        assert key == "train-progress"
        shown.append((progress, description))
        return "id"

    def update(*, artifact_id: Any, progress: float, description: str) -> None:
        assert artifact_id == "id"
        shown.append((progress, description))

    monkeypatch.setattr(runner, "create_progress_artifact", create)
    monkeypatch.setattr(runner, "update_progress_artifact", update)
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_UPDATES", 0.0)
    progress = runner._ProgressArtifact("train", "step")
    progress.update("train", 0, 1_500)
    progress.update("train", 750, 1_500, "12 min left, 14,939 tokens/s, loss 56")
    assert shown == [
        (0.0, "train: 0 of 1,500"),
        (50.0, "train: 750 of 1,500, 12 min left, 14,939 tokens/s, loss 56"),
    ]
