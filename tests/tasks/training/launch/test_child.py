"""Long work as a child process: followed to its end, failures with their messages, and never left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from infra.errors import KilledError, UserError
from infra.settings import REPOSITORY
from tasks.training.launch import launch
from tests.support.processes.counting_work import CountingWork


@pytest.fixture(autouse=True)
def _on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def ignore(name: str, done: int, total: int, note: str = "") -> None:
    """Listen to no progress."""


def process_of(work: CountingWork) -> psutil.Process | None:
    """Return the process that does the work, once it has begun to speak; None if it has ended."""
    log = Path(work.storage, "driver.log")
    deadline = time.monotonic() + 60
    while not (found := re.search(r"process (\d+)", log.read_text() if log.exists() else "")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    try:
        return psutil.Process(int(found[1]))
    except psutil.NoSuchProcess:
        return None


def test_work_is_followed_to_its_end(tmp_path: Path) -> None:
    work = CountingWork(name="run", storage=str(tmp_path), steps=5)
    reported: list[tuple[str, int, int, str]] = []
    launch(work, lambda name, done, total, note="": reported.append((name, done, total, note)))
    assert work.is_done()
    assert CountingWork.read(work.run_path) == work
    assert reported[-1][:3] == ("count", 5, 5) and reported[-1][3].endswith("counted")


@pytest.mark.parametrize(
    ("ending", "error", "message"),
    [
        ("user error", UserError, r"^cluster\.workers is 9\. Reduce it\.$"),
        ("defect", RuntimeError, r"(?s)exit status 1\. Run the same command again .*driver\.log:.*no such place"),
        ("no result", RuntimeError, r"(?s)exit status 1\. .*count of run run ended without a result"),
    ],
)
def test_failures_are_raised_with_their_messages(
    ending: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        launch(CountingWork(name="run", storage=str(tmp_path), ending=ending), ignore)


def test_killed_child_is_known_from_a_failed_one(tmp_path: Path) -> None:
    work = CountingWork(name="run", storage=str(tmp_path), ending="never")

    def kill(name: str, done: int, total: int, note: str = "") -> None:
        child = process_of(work)
        if child is not None:
            child.kill()

    with pytest.raises(KilledError, match=r"exit status -9\. Run the same command again"):
        launch(work, kill)


def test_interrupted_launch_ends_the_child(tmp_path: Path) -> None:
    work = CountingWork(name="run", storage=str(tmp_path), ending="never")

    def interrupt(name: str, done: int, total: int, note: str = "") -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(work, interrupt)
    assert process_of(work) is None


class LosingWork(CountingWork):
    def interruption_note(self) -> str:
        return "Counting begins again."


@pytest.mark.parametrize(("kind", "note"), [(LosingWork, "Counting begins again.\n"), (CountingWork, "")])
def test_interrupted_work_says_what_is_lost(
    kind: type[CountingWork], note: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(name: str, done: int, total: int, note: str = "") -> None:
        raise SystemExit(143)

    with pytest.raises(SystemExit):
        launch(kind(name="run", storage=str(tmp_path), ending="never"), interrupt)
    assert capfd.readouterr().err == note


LAUNCH = """
import sys
from tasks.training.launch import launch
from tests.support.processes.counting_work import CountingWork
launch(CountingWork(name="run", storage=sys.argv[1], ending="never"), lambda *progress: None)
"""


def test_child_of_a_killed_process_ends(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", LAUNCH, str(tmp_path)], cwd=REPOSITORY)
    child = process_of(CountingWork(name="run", storage=str(tmp_path)))
    assert child is not None
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert child.wait(10) is None or not child.is_running()
