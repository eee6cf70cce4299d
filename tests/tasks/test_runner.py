"""A stage's progress as a Prefect artifact: its share, and the stage's note."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tasks.runner import prefect_run as runner


def test_progress_artifact_shows_the_share_and_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_unreachable_server_does_not_stop_a_stage(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[BaseException | None] = [OSError("down"), OSError("down"), None, OSError("down"), None]
    shown: list[float] = []

    def create_or_update(*, progress: float, **named: Any) -> str:
        if (answer := answers.pop(0)) is not None:
            raise answer
        shown.append(progress)
        return "id"

    monkeypatch.setattr(runner, "create_progress_artifact", create_or_update)
    monkeypatch.setattr(runner, "update_progress_artifact", create_or_update)
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_UPDATES", 0.0)
    progress = runner._ProgressArtifact("train", "step")
    with caplog.at_level(logging.WARNING, "infra.progress"):
        for done in range(1, 6):
            progress.update("train", done, 5)
    assert shown == [60.0, 100.0]
    told = [record.getMessage() for record in caplog.records]
    assert told == ["The progress of train cannot be shown (OSError: down); the work continues"] * 2  # one a streak
    answers.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        progress.update("train", 5, 5)
