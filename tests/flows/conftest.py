"""What tests of flows share."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from infra.stage import ProgressListener
from tasks.training.launch import LongWork


@pytest.fixture
def work_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Long work is done in this process instead of a child: for tests of its result, not of how it is launched."""

    def run_here(work: LongWork, log: Path, on_progress: ProgressListener) -> None:
        assert importlib.import_module(work.module).main([work.run_path, "--quiet"]) == 0

    threads = torch.get_num_threads()
    monkeypatch.setattr("tasks.training.launch.run_child", run_here)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)
