"""The console log of a run: what it shows, once, and that it is gone afterwards."""

from __future__ import annotations

import logging

import pytest

from infra.progress import StageProgress, shown_log


def test_warnings_are_shown_once_and_information_of_ours_only(capsys: pytest.CaptureFixture[str]) -> None:
    flows, library = logging.getLogger("flows"), logging.getLogger("some_library")
    with shown_log():
        for _ in range(2):
            library.warning("disk nearly full")
            library.info("a detail")
            flows.info("12 stages")
        logging.getLogger("infra.cluster.copied_log").info("a line of a training process")
    library.warning("after the run")
    assert capsys.readouterr().err.splitlines()[:3] == ["warning: disk nearly full", "12 stages", "12 stages"]
    assert not [handler for handler in logging.getLogger().handlers if type(handler).__name__ == "ConsoleHandler"]
    assert flows.level == logging.NOTSET


def test_progress_without_a_terminal_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with StageProgress("clean") as progress:
        progress.update("clean", 1, 1_200)
        monkeypatch.setattr("infra.progress.SECONDS_BETWEEN_LINES", 0.0)
        progress.update("clean", 600, 1_200, "2 min left")
        progress.finish("clean: 1,200 documents")
    assert capsys.readouterr().err.splitlines() == ["clean: 600 of 1,200 parts, 2 min left", "clean: 1,200 documents"]
