"""The console log of a run: what it shows, once, and that it is gone afterwards."""

from __future__ import annotations

import fcntl
import logging
import os
import pty
import struct
import subprocess
import sys
import termios
import time

import pytest

from infra.console.progress import StageProgress, displayed, shown_log


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


@pytest.mark.parametrize(("called", "shown"), [("/usr/bin/yiwen", "yiwen"), ("flows/__main__.py", "python -m flows")])
def test_commands_in_the_log_begin_as_the_user_began(
    called: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [called, "run"])
    with shown_log():
        logging.getLogger("tasks.normalise").warning("Build it: python -m flows run normalise/index")
    assert capsys.readouterr().err == f"warning: Build it: {shown} run normalise/index\n"


def test_progress_without_a_terminal_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with StageProgress("clean") as progress:
        progress.update("clean", 1, 1_200)
        monkeypatch.setattr("infra.console.progress.SECONDS_BETWEEN_LINES", 0.0)
        progress.update("clean", 600, 1_200, "2 min left")
        progress.finish("clean: 1,200 documents")
    assert capsys.readouterr().err.splitlines() == ["clean: 600 of 1,200 parts, 2 min left", "clean: 1,200 documents"]


@pytest.mark.parametrize(("note", "has_own"), [("7 min left, loss 5.1", False), ("loss 5.1", True)])
def test_bar_shows_one_time_that_is_left(
    note: str, has_own: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with StageProgress("train", "step") as progress:
        progress.update("train", 0, 2_000)
        time.sleep(0.2)  # tqdm draws ten times per second at most
        progress.update("train", 60, 2_000, note)
    drawn = capsys.readouterr().err.split("\r")
    (line,) = [one for one in drawn if " 60/2000 " in one]
    assert note in line and "step/s" in line
    assert ("<" in line) is has_own


@pytest.mark.parametrize("columns", [0, 60])
def test_terminal_without_columns_gets_lines_instead_of_an_invisible_bar(columns: int) -> None:
    script = (
        "import infra.console.progress as progress\n"
        "progress.SECONDS_BETWEEN_LINES = -1.0\n"
        "with progress.StageProgress('train', 'step') as shown:\n"
        "    shown.update('train', 1, 2)\n"
    )
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        subprocess.run([sys.executable, "-c", script], stdout=slave, stderr=slave, check=True)
        shown = os.read(master, 1 << 16).decode()
    finally:
        os.close(slave)
        os.close(master)
    assert ("train: 1 of 2 steps" in shown) == (columns == 0)
    assert ("%|" in shown) == (columns == 60)


def test_stage_within_a_stage_has_a_bar_of_its_own_in_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    with displayed("notebook"), StageProgress("deduplicate") as progress:
        progress.update("sketches", 1, 1)
        progress.update("pairs", 0, 9)
        progress.update("pairs", 3, 9)
        progress.finish("deduplicate: 3 documents")
    shown = capsys.readouterr()
    bars = [line.strip() for line in shown.out.split("\r") if line.strip()]
    assert shown.err == "" and bars[0].startswith("sketches") and "/1 [" in bars[0]
    assert any(one.startswith("pairs") for one in bars) and all("/9 [" in one for one in bars if "pairs" in one)
    assert bars[-1] == "deduplicate: 3 documents"


def test_nothing_is_shown_where_progress_is_switched_off_but_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    with displayed("none"), shown_log(), StageProgress("clean") as progress:
        progress.update("clean", 1, 2)
        progress.finish("clean: 2 documents")
        logging.getLogger("flows").info("12 stages")
        logging.getLogger("flows").warning("disk nearly full")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "warning: disk nearly full\n")
