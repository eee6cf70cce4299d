"""A run that is told to end (SIGTERM, as `kill`, systemd and Kubernetes send it) takes with it what it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.settings import REPOSITORY
from tests.support.synthetic_text import write_corpus

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]


def test_a_terminated_run_leaves_no_process(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    home = tmp_path / "store"
    process = subprocess.Popen(
        [sys.executable, "-m", "flows", "run", "corpus/refresh", "--param", f"corpus={tmp_path / 'corpus.txt'}"],
        cwd=REPOSITORY,
        env={**os.environ, "YIWEN_HOME": str(home), "PREFECT_HOME": str(tmp_path / "prefect")},
        start_new_session=True,
    )
    try:
        while not any(home.rglob("*.parquet")):
            assert process.poll() is None, "the run ended before it was told to"
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) != 0
        assert not _goes_on(process.pid), "a process of the run's group is still there"
    finally:
        if _goes_on(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _goes_on(group: int) -> bool:
    """Whether any process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
